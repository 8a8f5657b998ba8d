//! Owns asking a Prometheus server of this machine: a few queries, one after the other, all with one deadline and all as of
//! the moment at which the first was evaluated.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::hosts::prometheus::Server;
use crate::hosts::prometheus::answer::{Sample, Told, understood};
use crate::hosts::prometheus::families::{WINDOWS, current, idle, silent, taken, targets};
use crate::hosts::prometheus::readings::{Answers, readings};
use crate::hosts::{Asked, HostName, HostReading, Through, Unavailable};
use crate::platform::http;
use crate::text::harmless;

/// A server of some hundred machines answers within a second.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than the figures of some thousand GPUs.
const LONGEST_ANSWER: u64 = 32 << 20;

/// The machines that are asked for; empty where none are.
pub(super) fn read(asked: &Asked) -> Vec<HostReading> {
    let Some(server) = &asked.prometheus else { return Vec::new() };
    match ask(server) {
        Ok((mut readings, warnings)) => {
            // One warning is enough: those of one answer mostly have the same reason.
            if let Some(warning) = warnings.first() {
                let why = Unavailable::new(format!("its answer may lack something: {warning}"));
                readings.push(unavailable(server, why));
            }
            readings
        }
        Err(why) => vec![unavailable(server, why)],
    }
}

/// Stands for all machines of the server.
fn unavailable(server: &Server, why: Unavailable) -> HostReading {
    HostReading::unavailable(HostName::nearest(&server.authority), Through::Prometheus, why)
}

/// The readings, and what the server says is missing from them.
fn ask(server: &Server) -> Result<(Vec<HostReading>, Vec<String>), Unavailable> {
    let connection = Connection { server, due: Instant::now() + PATIENCE };
    let told = connection.query(&current(), None)?;
    let evaluated = told.samples.first().map(|sample| sample.evaluated);
    let mut answers = Answers { current: told.samples, ..Answers::default() };
    if evaluated.is_some() {
        let names: BTreeSet<String> = answers.current.iter().map(|sample| sample.metric.clone()).collect();
        answers.taken = connection.samples(&taken(|name| names.contains(name)), evaluated);
        answers.targets = connection.samples(&targets(|name| names.contains(name)), evaluated);
        for window in WINDOWS {
            let query = idle(window, |name| names.contains(name));
            answers.idle.push((window, connection.samples(&query, evaluated)));
        }
    }
    answers.silent = connection.samples(&silent(), evaluated);
    let readings = readings(&answers);
    if readings.is_empty() {
        return Err(Unavailable {
            why: "it has no figures of GPUs".to_owned(),
            what_to_do: Some("dcgm-exporter, nvidia_gpu_exporter, all-smi and Ray are understood".to_owned()),
        });
    }
    Ok((readings, told.warnings))
}

struct Connection<'a> {
    server: &'a Server,
    due: Instant,
}

impl Connection<'_> {
    /// Asks for an instant vector, as of this time of the server's clock.
    fn query(&self, query: &str, at: Option<f64>) -> Result<Told, Unavailable> {
        let left = self.due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        let Server { authority, path } = self.server;
        let get = http::agent(left).get(format!("http://{authority}{path}/api/v1/query")).query("query", query);
        let get = at.iter().fold(get, |get, at| get.query("time", format!("{at:.3}")));
        let mut answer = get.call().map_err(|error| self.trouble(&error))?;
        let body = http::body(&mut answer, LONGEST_ANSWER + 1).map_err(|error| self.trouble(&error))?;
        if body.len() as u64 > LONGEST_ANSWER {
            return Err(Unavailable::new(format!("its answer is longer than {} MiB", LONGEST_ANSWER >> 20)));
        }
        let moved_to = answer.headers().get("location").and_then(|to| to.to_str().ok());
        understood(answer.status().as_u16(), moved_to, &body)
    }

    /// What is asked beside the figures. Nothing where the query fails: then less is known, but nothing is wrong, since an old
    /// server may lack a function.
    fn samples(&self, query: &str, at: Option<f64>) -> Vec<Sample> {
        self.query(query, at).map(|told| told.samples).unwrap_or_default()
    }

    fn trouble(&self, error: &ureq::Error) -> Unavailable {
        let is_refused =
            matches!(error, ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused);
        match error {
            _ if is_refused => Unavailable {
                why: "nothing listens there (connection refused)".to_owned(),
                what_to_do: Some("start the tunnel: `ssh -N -L` or `kubectl port-forward`".to_owned()),
            },
            ureq::Error::Timeout(_) => late(),
            other => {
                Unavailable::new(format!("it does not answer as a web server does ({})", harmless(&other.to_string())))
            }
        }
    }
}

fn late() -> Unavailable {
    Unavailable::new(format!("it did not answer within {} s", PATIENCE.as_secs()))
}
