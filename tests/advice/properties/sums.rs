//! Owns the sums that the advice shows: the ledger, what the steps free together, the parts of a model.

use oomdoctor::advice::{Advice, FitAdvice, Ledger, PlannedFix, words};
use oomdoctor::units::Bytes;
use regex::Regex;
use serde::Serialize;

/// The sums that do not add up, one line each.
pub fn wrong(advice: &Advice) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(advice.ledger.iter().flat_map(wrong_in_ledger));
    found.extend(advice.fit.iter().flat_map(wrong_in_fit));
    found.extend(wrong_in_plan(&advice.plan));
    found.extend(wrong_in_the_one_line(advice));
    found
}

/// The line with needs, free and short, as it is shown; the units may differ from figure to figure.
fn wrong_in_the_one_line(advice: &Advice) -> Option<String> {
    let figures = advice.brief.figures.as_ref()?;
    let taken = advice.ledger.as_ref().and_then(|ledger| ledger.taken_bytes);
    let (needs, free, short) = (&figures.needs, figures.free.as_ref()?, figures.short.as_ref()?);
    let unit = if needs.contains("MiB") && !free.contains("GiB") { 1.0 / 1024.0 } else { 1.0 };
    let sum = gib_in(needs, 1.0) - gib_in(free, unit);
    let is_right = taken.is_some() || (sum - gib_in(short, 1.0)).abs() < 0.06;
    (!is_right).then(|| format!("{needs} and {free} do not make {short}"))
}

/// The sum of the figures in a text; those without a unit are of this many GiB.
fn gib_in(text: &str, without_unit: f64) -> f64 {
    let figure = Regex::new(r"([0-9.]+)(?: (KiB|MiB|GiB))?").unwrap();
    let figures = figure.captures_iter(text).map(|found| {
        let unit = found.get(2).map_or(without_unit, |unit| match unit.as_str() {
            "KiB" => 1.0 / 1_048_576.0,
            "MiB" => 1.0 / 1024.0,
            _ => 1.0,
        });
        found[1].parse::<f64>().unwrap_or(0.0) * unit
    });
    figures.sum()
}

fn wrong_in_ledger(ledger: &Ledger) -> Vec<String> {
    let mut found = Vec::new();
    let held: Bytes = ledger.held_by.iter().fold(Bytes::ZERO, |sum, held| sum.plus(held.bytes));
    if let (Some(capacity), Some(available)) = (ledger.capacity_bytes, ledger.available_bytes) {
        let all = held.plus(available);
        // The figures of a log are rounded.
        let tolerance = if ledger.is_now { Bytes::ZERO } else { Bytes(capacity.0 / 50) };
        if all.less(capacity).max(capacity.less(all)) > tolerance {
            found.push(format!("{held} in use and {available} free are not the capacity {capacity}"));
        }
    }
    let needed = ledger.asked_bytes.map(|asked| asked.plus(ledger.had_bytes.unwrap_or(Bytes::ZERO)));
    if needed != ledger.needed_bytes {
        found.push(format!("{:?} and {:?} are not {:?}", ledger.had_bytes, ledger.asked_bytes, ledger.needed_bytes));
    }
    // In the log, what was free leaves out what the run already had.
    let wanted = if ledger.is_now || ledger.is_cache { ledger.needed_bytes } else { ledger.asked_bytes };
    let taken = ledger.taken_bytes.unwrap_or(Bytes::ZERO);
    let missing = wanted.zip(ledger.available_bytes).map(|(wanted, free)| wanted.less(free).less(taken));
    if missing != ledger.missing_bytes {
        found.push(format!("short {:?}, but the sum says {missing:?}", ledger.missing_bytes));
    }
    found
}

fn wrong_in_fit(fit: &FitAdvice) -> Vec<String> {
    let mut found = Vec::new();
    if let (Some(parts), Some(total)) = (&fit.parts, fit.total_bytes) {
        let sum = sum_of(parts);
        if sum != Some(total) {
            found.push(format!("the parts of {} are {sum:?}, not {total}", fit.engine));
        }
    }
    for choice in &fit.choices {
        let after = fit.free_now_bytes.zip(choice.total_bytes).map(|(free, total)| free.less(total));
        if choice.free_after_bytes.is_some() && after != choice.free_after_bytes {
            found
                .push(format!("with {}: {:?} is free after it, not {after:?}", choice.change, choice.free_after_bytes));
        }
    }
    found
}

/// The bytes of all parts together; `None` where one of them is unknown.
fn sum_of(parts: &impl Serialize) -> Option<Bytes> {
    let parts = serde_json::to_value(parts).unwrap();
    let mut bytes = parts.as_object().unwrap().values().map(|part| part["bytes"].as_u64());
    bytes.try_fold(Bytes::ZERO, |sum, bytes| Some(sum.plus(Bytes(bytes?))))
}

fn wrong_in_plan(plan: &[PlannedFix]) -> Vec<String> {
    let mut found = Vec::new();
    let mut sum = Bytes::ZERO;
    let mut counted = Vec::new();
    for planned in plan {
        // What several changes free together is not freed again by each of them.
        let frees = planned.frees_bytes.filter(|_| !counted.contains(&planned.fix));
        counted.extend(&planned.parts);
        sum = sum.plus(frees.unwrap_or(Bytes::ZERO));
        let shown = frees.map(|_| sum);
        if planned.frees_so_far_bytes != shown {
            found.push(format!("{}: {:?} so far, not {shown:?}", planned.fix, planned.frees_so_far_bytes));
        }
    }
    found
}

/// Every wording of what is short.
const SHORT: &str = r"(?x)
    (?:[Aa]t\ least|about)\ (\S+\ [GM]iB)\ must\ (?:still\ )?be\ found
    | (\S+\ [GM]iB)\ is\ missing
    | once\ (\S+\ [GM]iB)\ more\ is\ free
    | my\ job\ needs\ (\S+\ [GM]iB)\ more";

/// The figures of what is short, where they differ.
pub fn shown_apart(advice: &Advice) -> Vec<String> {
    let mut texts = words::verdict(advice);
    let steps = advice.plan.iter().flat_map(|planned| &planned.steps);
    texts.extend(steps.flat_map(|step| [&step.action, &step.why, step.command.as_ref().unwrap_or(&step.why)]).cloned());
    let pattern = Regex::new(SHORT).unwrap();
    let text = texts.join("\n");
    let mut figures: Vec<&str> = pattern
        .captures_iter(&text)
        .filter_map(|found| found.iter().skip(1).flatten().next().map(|figure| figure.as_str()))
        .collect();
    figures.sort_unstable();
    figures.dedup();
    if figures.len() > 1 { vec![format!("short by {}", figures.join(" and by "))] } else { Vec::new() }
}

/// The need in words, where its figures are not the sum and the difference that they are said to be.
pub fn wrong_as_shown(advice: &Advice) -> Vec<String> {
    let Some(needs) = words::needs(advice) else { return Vec::new() };
    let number = r"([\d.]+(?: [GM]iB)?)";
    let sum = format!(r"needed at least {number} \({number} asked \+ {number} it already had\)");
    let difference = format!(r"at least {number}(?: \([^)]*\))?; {number} [^;]*free now\. At least {number} must");
    let is_wrong = [sum, difference].iter().any(|pattern| {
        let figures = Regex::new(pattern).unwrap().captures(&needs);
        figures.is_some_and(|figures| {
            let [one, two, three] = [1, 2, 3].map(|at| in_gib(&figures[at]));
            (one - two - three).abs() > 0.06
        })
    });
    if is_wrong { vec![needs] } else { Vec::new() }
}

/// A figure in MiB or GiB; without a unit in GiB.
fn in_gib(figure: &str) -> f64 {
    let (number, unit) = figure.split_once(' ').unwrap_or((figure, "GiB"));
    number.parse::<f64>().unwrap() / if unit == "MiB" { 1024.0 } else { 1.0 }
}
