//! Owns what an answer of Prometheus' query API means: the samples, or why there are none. Every byte of it is foreign.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::hosts::Unavailable;
use crate::text::{harmless, shortened};

/// What it says of its trouble is shown up to so many columns.
const LONGEST_TROUBLE: usize = 200;

pub type Labels = BTreeMap<String, String>;

/// One value of an instant vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Empty where the query computed the value.
    pub metric: String,
    /// All labels but the metric's name.
    pub labels: Labels,
    /// When the query was evaluated, by the server's clock, in seconds since 1970.
    pub evaluated: f64,
    pub value: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    pub samples: Vec<Sample>,
    /// Why the answer may lack something.
    pub warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    status: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    warnings: Vec<String>,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    metric: Labels,
    /// A native histogram has none.
    value: Option<(f64, String)>,
}

/// The samples of an answer with this HTTP status. `moved_to` is where a redirect points.
pub fn understood(status: u16, moved_to: Option<&str>, body: &[u8]) -> Result<Told, Unavailable> {
    if (300..400).contains(&status) {
        let to = moved_to.map(brief).unwrap_or_default();
        return Err(trouble(
            format!("it redirects to {to}, which is not followed"),
            "give the port of Prometheus itself, behind any sign-in page",
        ));
    }
    if matches!(status, 401 | 403) {
        return Err(trouble(
            format!("it wants a password or a token (HTTP {status})"),
            "give the port of Prometheus itself, through `ssh -L` or `kubectl port-forward`",
        ));
    }
    let Ok(answer) = serde_json::from_slice::<Answer>(body) else {
        let what = "check the port, and give what stands before /api/v1 if Prometheus has a prefix";
        let start = body.trim_ascii_start().get(..1).unwrap_or_default();
        return Err(match (status, start) {
            (404, _) => trouble("no query API of Prometheus is there (HTTP 404)", what),
            (200, b"<") => trouble("a web page answered, not the query API of Prometheus", what),
            (200, _) => trouble("what answered is not the query API of Prometheus", what),
            _ => trouble(format!("it answered with HTTP {status}"), what),
        });
    };
    if answer.status != "success" {
        let said = if answer.error.is_empty() { format!("HTTP {status}") } else { brief(&answer.error) };
        return Err(Unavailable::new(format!("Prometheus refused the query: {said}")));
    }
    let series = answer.data.map(|data| data.result).unwrap_or_default();
    let samples = series.into_iter().filter_map(|mut series| {
        let (evaluated, value) = series.value?;
        let metric = series.metric.remove("__name__").unwrap_or_default();
        // "NaN" and "+Inf" are read as such, and are no figure of a GPU.
        let value = value.parse::<f64>().ok().filter(|value| value.is_finite())?;
        Some(Sample { metric, labels: series.metric, evaluated, value })
    });
    Ok(Told { samples: samples.collect(), warnings: answer.warnings.iter().map(|text| brief(text)).collect() })
}

fn trouble(why: impl Into<String>, what_to_do: &str) -> Unavailable {
    Unavailable { why: why.into(), what_to_do: Some(what_to_do.to_owned()) }
}

/// A foreign sentence, short and harmless.
fn brief(text: &str) -> String {
    let start: String = text.chars().take(2 * LONGEST_TROUBLE).collect();
    shortened(&harmless(&start), LONGEST_TROUBLE, 1).join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(status: u16, body: &str) -> String {
        understood(status, Some("http://sso.lab/\u{1b}[2J"), body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn samples_are_read_and_figures_that_are_none_are_left_out() {
        let told = understood(
            200,
            None,
            br#"{"status":"success","warnings":["one store is down"],"data":{"resultType":"vector","result":[
                {"metric":{"__name__":"a","gpu":"0"},"value":[1795176000.5,"1.5e3"]},
                {"metric":{"__name__":"a","gpu":"1"},"value":[1795176000.5,"NaN"]},
                {"metric":{"__name__":"a","gpu":"2"},"value":[1795176000.5,"+Inf"]},
                {"metric":{"__name__":"a","gpu":"3"},"histogram":[1795176000.5,{"count":"1"}]}]}}"#,
        )
        .unwrap();
        assert_eq!(told.samples.len(), 1);
        assert_eq!((told.samples[0].metric.as_str(), told.samples[0].value), ("a", 1500.0));
        assert_eq!(told.samples[0].labels["gpu"], "0");
        assert_eq!(told.warnings, ["one store is down"]);
    }

    #[test]
    fn each_kind_of_trouble_says_what_to_do() {
        assert!(why(302, "").contains("redirects"));
        assert!(!why(302, "").contains('\u{1b}'));
        assert!(why(401, "{}").contains("password"));
        assert!(why(404, "404 page not found").contains("/api/v1"));
        assert!(why(200, "  <!DOCTYPE html>").contains("web page"));
        assert!(why(200, "SSH").contains("not the query API"));
        assert!(why(502, "<html>").contains("502"));
        assert!(
            why(400, r#"{"status":"error","errorType":"bad_data","error":"parse error: x"}"#).contains("parse error")
        );
        assert!(
            why(200, r#"{"status":"success","data":{"result":[{"metric":{"a":1}}]}}"#).contains("not the query API")
        );
    }
}
