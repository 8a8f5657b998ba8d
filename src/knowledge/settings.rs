//! Owns the settings that decide how much memory a program takes: how logs, command lines and files spell them, which
//! value a text gives them, and which value is really lower or higher than that. A step that promises a direction takes
//! its number from here, so that no number stands in a fix by itself.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use ron::extensions::Extensions;
use serde::Deserialize;

use crate::units::{Bytes, UnitBase};

/// Which way a value is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To a smaller value.
    Lower,
    /// To a larger value.
    Raise,
}

/// What the values of a setting are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Unit {
    Count,
    /// From 0 to 1, kept in thousandths.
    Share,
    /// Bytes. `bare` is what a number without a unit counts, 0 where it is no value; `mega` and `giga` are the units it is
    /// written in, empty where it is written without one.
    Size {
        bare: u64,
        #[serde(default)]
        mega: String,
        #[serde(default)]
        giga: String,
    },
}

/// A row of `knowledge/settings.ron`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setting {
    /// As placeholders name it.
    pub id: String,
    spellings: Vec<String>,
    unit: Unit,
    /// A lower value is this fraction of the present one, in quarters.
    #[serde(default = "two")]
    lower_quarters: u64,
    /// A higher one this many quarters of it; 8 for a count and 6 for a size where the table has none.
    raise_quarters: Option<u64>,
    /// The smallest value that makes sense.
    #[serde(default = "one")]
    least: u64,
    /// Values are multiples of this.
    #[serde(default = "one")]
    grain: u64,
    /// Of several values the largest counts instead of the last: a request stands below the limit it belongs to.
    #[serde(default)]
    takes_largest: bool,
    /// A limit that the failure itself prints is a limit of this setting.
    #[serde(default)]
    pub is_the_limit: bool,
}

fn one() -> u64 {
    1
}

fn two() -> u64 {
    2
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Sizes that people set, in GiB.
const USUAL_GIB: &[u64] = &[2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];

/// All that is known. A table that does not parse would be empty; a test holds that it does.
static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| parsed().unwrap_or_default());

fn parsed() -> ron::error::SpannedResult<Vec<Setting>> {
    let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
    options.from_str(TABLE)
}

/// The file with the settings, as the program was built with it.
pub(super) const TABLE: &str = include_str!("../../knowledge/settings.ron");

/// The setting of that name.
pub(crate) fn of(id: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.id == id)
}

/// The setting of which that environment variable is a spelling.
pub(crate) fn of_variable(name: &str) -> Option<&'static Setting> {
    let is_so = |setting: &&Setting| setting.spellings.iter().any(|spelling| spelling == name);
    if name.contains(char::is_lowercase) { None } else { SETTINGS.iter().find(is_so) }
}

/// What a placeholder asks for: `lower:batch`, `raise:java_heap`, and `raise:docker_shm|8g` with what is proposed where
/// nothing shows the present value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// The direction that is promised.
    pub way: Way,
    pub setting: &'static Setting,
    /// For a setting that nothing shows.
    pub otherwise: Option<&'a str>,
}

impl<'a> Asked<'a> {
    /// Reads what stands between the braces.
    pub(crate) fn of(name: &'a str) -> Option<Asked<'a>> {
        let (way, rest) = name.split_once(':')?;
        let way = match way {
            "lower" => Way::Lower,
            "raise" => Way::Raise,
            _ => return None,
        };
        let (id, otherwise) = match rest.split_once('|') {
            Some((id, otherwise)) => (id, Some(otherwise)),
            None => (rest, None),
        };
        Some(Asked { way, setting: of(id)?, otherwise })
    }
}

/// What else bounds a value that is raised.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    /// What the run is known to have needed.
    pub needed: Option<u64>,
    pub most: Option<u64>,
}

impl Setting {
    /// A value that is really on that side of the present one; `None` where there is none that makes sense.
    pub(crate) fn moved(&self, now: u64, way: Way, bounds: Bounds) -> Option<u64> {
        match way {
            Way::Lower => {
                let lower = now.saturating_mul(self.lower_quarters) / 4;
                let lower = (lower / self.grain * self.grain).max(self.least);
                (lower < now).then_some(lower)
            }
            Way::Raise => {
                let wanted = match self.unit {
                    Unit::Share => (now.saturating_add(1000) / 2).min(950) / self.grain * self.grain,
                    Unit::Count => now.saturating_mul(self.raise_quarters.unwrap_or(8)).div_ceil(4),
                    Unit::Size { .. } => now.saturating_mul(self.raise_quarters.unwrap_or(6)).div_ceil(4),
                };
                let needed = bounds.needed.map_or(0, |needed| needed.saturating_mul(5) / 4);
                let raised = self.rounded_up(wanted.max(needed));
                let most = bounds.most.unwrap_or(u64::MAX);
                let raised = if raised > most { self.rounded_down(most) } else { raised };
                (raised > now).then_some(raised)
            }
        }
    }

    /// To a size that people set.
    fn rounded_up(&self, value: u64) -> u64 {
        let Unit::Size { .. } = self.unit else { return value };
        let usual = USUAL_GIB.iter().map(|gib| gib.saturating_mul(GIB)).find(|size| *size >= value);
        match usual {
            _ if value <= GIB => value.div_ceil(128 * MIB).saturating_mul(128 * MIB),
            Some(usual) => usual,
            None => value.div_ceil(GIB).saturating_mul(GIB),
        }
    }

    fn rounded_down(&self, value: u64) -> u64 {
        match self.unit {
            Unit::Size { .. } if value >= GIB => value / GIB * GIB,
            Unit::Size { .. } => value / MIB * MIB,
            _ => value,
        }
    }

    /// The value as the setting takes it.
    pub(crate) fn write(&self, value: u64) -> String {
        match &self.unit {
            Unit::Count => value.to_string(),
            Unit::Share if value.is_multiple_of(10) => format!("0.{:02}", value / 10),
            Unit::Share => format!("0.{value:03}"),
            Unit::Size { bare, giga, .. } if giga.is_empty() => (value / (*bare).max(1)).to_string(),
            Unit::Size { giga, .. } if value.is_multiple_of(GIB) => format!("{}{giga}", value / GIB),
            Unit::Size { mega, .. } => format!("{}{mega}", value / MIB),
        }
    }

    /// The value at the beginning of the text, where it is one of this setting.
    pub(crate) fn parse(&self, text: &str) -> Option<u64> {
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, rest) = text.split_at_checked(end)?;
        // A sentence may end with the value.
        let number = number.trim_end_matches('.');
        let (number, rest) = with_thousands(number, rest);
        let is_whole = !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        match self.unit {
            Unit::Count if is_whole && !rest.starts_with(['%', '/']) => number.parse().ok(),
            Unit::Count => None,
            Unit::Share => {
                let value: f64 = number.parse().ok()?;
                let value = if rest.starts_with('%') { value / 100.0 } else { value };
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
                (is_whole && (0.0..=1.0).contains(&value)).then(|| (value * 1000.0).round() as u64)
            }
            Unit::Size { bare, .. } => {
                let unit = rest.strip_prefix(' ').unwrap_or(rest);
                let length = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
                let (word, after) = unit.split_at_checked(length)?;
                let has_unit = length > 0 && !after.starts_with(|c: char| c.is_ascii_digit());
                // Slurm marks what is meant for each node.
                let sized = format!("{number}{}", word.strip_suffix('n').unwrap_or(word));
                let value = match Bytes::parse(&sized, UnitBase::Binary) {
                    Some(sized) if has_unit => sized,
                    _ if is_whole && !rest.starts_with('%') => {
                        Bytes::parse_number(&number, bare.saturating_mul(power_of_1024(rest)?))?
                    }
                    _ => return None,
                };
                // Less is no limit that anything runs in: a number that means something else.
                (value.0 >= MIB).then_some(value.0)
            }
        }
    }
}

/// `16,384`: the number with the thousands that follow it.
fn with_thousands<'a>(number: &str, rest: &'a str) -> (String, &'a str) {
    let (mut all, mut rest) = (number.to_owned(), rest);
    while let Some((thousands, after)) = rest.strip_prefix(',').and_then(|rest| rest.split_at_checked(3)) {
        let are_digits = thousands.chars().all(|c| c.is_ascii_digit());
        if !are_digits || after.starts_with(|c: char| c.is_ascii_digit()) || all.contains('.') {
            break;
        }
        all.push_str(thousands);
        rest = after;
    }
    (all, rest)
}

/// What code multiplies a number with: `* 1024**3`, `* 1024 * 1024`, `<< 30`. 1 where it does not; `None` where
/// that is too much.
fn power_of_1024(rest: &str) -> Option<u64> {
    let line = rest.lines().next().unwrap_or_default();
    let tight: String = line.chars().take(40).filter(|c| *c != ' ').collect();
    let power = match tight.strip_prefix("*1024**").or_else(|| tight.strip_prefix("<<")) {
        Some(power) => {
            let power: u32 = power.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()?;
            if tight.starts_with("<<") { power / 10 } else { power }
        }
        None => {
            let mut rest = tight.as_str();
            let mut times = 0_u32;
            while let Some(after) = rest.strip_prefix("*1024") {
                (times, rest) = (times.saturating_add(1), after);
            }
            times
        }
    };
    1024_u64.checked_pow(power)
}

/// Every spelling once, with the settings it is one of and its rank among theirs.
struct Spellings {
    finder: Option<AhoCorasick>,
    /// By the finder's pattern: the spelling and, of each setting, its place in [`SETTINGS`] and the spelling's rank.
    of: Vec<(String, Vec<(usize, usize)>)>,
}

static SPELLINGS: LazyLock<Spellings> = LazyLock::new(|| {
    let mut of: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
    for (place, setting) in SETTINGS.iter().enumerate() {
        for (rank, spelling) in setting.spellings.iter().enumerate() {
            let dashed = spelling.replace('_', "-");
            for written in [spelling.clone(), dashed] {
                of.entry(written).or_default().push((place, rank));
            }
        }
    }
    let words = of.keys().map(|written| written.trim_end_matches(['#', '=']));
    let finder = AhoCorasick::new(words).ok();
    Spellings { finder, of: of.into_iter().collect() }
});

/// The values that a text gives to settings: of each the last one in its surest spelling.
pub(crate) fn read(text: &str) -> BTreeMap<&'static str, u64> {
    let Some(finder) = &SPELLINGS.finder else { return BTreeMap::new() };
    let mut values: BTreeMap<&'static str, (usize, u64)> = BTreeMap::new();
    for found in finder.find_overlapping_iter(text) {
        let Some((written, settings)) = SPELLINGS.of.get(found.pattern().as_usize()) else { continue };
        let before = text.get(..found.start()).unwrap_or_default();
        let Some(value) = text.get(found.end()..).and_then(|after| value_behind(before, after, written)) else {
            continue;
        };
        if !begins_a_name(before, written) {
            continue;
        }
        for (place, rank) in settings {
            let Some(setting) = SETTINGS.get(*place) else { continue };
            let Some(value) = setting.parse(value) else { continue };
            let (old_rank, old) = values.get(setting.id.as_str()).copied().unwrap_or((usize::MAX, 0));
            if setting.takes_largest && old_rank != usize::MAX {
                values.insert(&setting.id, (old_rank.min(*rank), old.max(value)));
            } else if *rank <= old_rank {
                values.insert(&setting.id, (*rank, value));
            }
        }
    }
    values.into_iter().map(|(id, (_, value))| (id, value)).collect()
}

/// Whether a spelling that follows this text is a whole name and not another one's end.
fn begins_a_name(before: &str, written: &str) -> bool {
    let dashes = before.trim_end_matches('-');
    let has_dashes = dashes.len() < before.len();
    if written.starts_with('-') {
        return !has_dashes && before.chars().next_back().is_none_or(|c| c.is_whitespace() || "'\"[=,(".contains(c));
    }
    !dashes.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// The text from the value on that belongs to a spelling right before it.
fn value_behind<'a>(before: &str, after: &'a str, written: &str) -> Option<&'a str> {
    if after.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return written.ends_with('#').then_some(after);
    }
    let is_option = written.starts_with('-') || before.ends_with('-');
    let (mut has_quote, mut has_sign) = (false, !written.ends_with('='));
    for (at, c) in after.char_indices().take(24) {
        match c {
            '"' | '\'' => has_quote = true,
            '=' | ':' => has_sign = true,
            ' ' | '\t' | ']' => {}
            ',' if has_quote => {}
            '\n' | '\r' if is_option => {}
            '0'..='9' | '.' if has_sign => return after.get(at..),
            _ => return None,
        }
    }
    None
}

/// The heap that V8's own trace of its last collections shows, in bytes: `Mark-Compact 4045.2 (4129.4) -> 4044.1
/// (4129.4) MB`. It stops where that meets its limit.
pub(crate) fn heap_of_v8(text: &str) -> Option<u64> {
    let traced = text.lines().rev().filter(|line| line.contains("Mark-") || line.contains("Scavenge"));
    traced.take(8).find_map(|line| {
        let (before, _) = line.split_once(") MB")?;
        let (_, figure) = before.rsplit_once('(')?;
        Bytes::parse_number(figure.trim(), MIB).map(|bytes| bytes.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(text: &str, id: &str) -> Option<u64> {
        read(text).get(id).copied()
    }

    #[test]
    fn the_table_parses() {
        assert!(parsed().unwrap().len() > 50);
    }

    #[test]
    fn a_setting_is_read_in_each_of_its_spellings() {
        for (text, id, value) in [
            ("  Instantaneous batch size per device = 2", "batch", 2),
            ("python t.py --per-device-train-batch-size 16 --lr 1", "batch", 16),
            (r#"{"train_micro_batch_size_per_gpu": 3}"#, "batch", 3),
            ("DataLoader(ds, batch_size=5, shuffle=True)", "batch", 5),
            ("java -Xmx32g -jar a.jar", "java_heap", 32 * GIB),
            ("-Xmx512m", "java_heap", 512 * MIB),
            ("node --max-old-space-size=16384 a.js", "node_heap", 16 * GIB),
            ("#SBATCH --mem=256G", "slurm_memory", 256 * GIB),
            ("#SBATCH --mem 64000", "slurm_memory", 64_000 * MIB),
            ("ReqMem=64000Mn", "slurm_memory", 64_000 * MIB),
            ("#SBATCH --mem-per-cpu=4G", "slurm_memory_per_cpu", 4 * GIB),
            ("docker run --memory=96g img", "docker_memory", 96 * GIB),
            ("docker run -m 2g img", "docker_memory", 2 * GIB),
            ("limits:\n  memory: 2Gi\nrequests:\n  memory: 1Gi", "kubernetes_memory", 2 * GIB),
            ("maxmemory 8gb", "redis_memory", 8 * GIB),
            ("maxmemory:8589934592", "redis_memory", 8 * GIB),
            (r#"{"gpu_mem_limit": 2 * 1024 * 1024 * 1024}"#, "ort_limit", 2 * GIB),
            (r#"("gpu_mem_limit", 2 * 1024**3)"#, "ort_limit", 2 * GIB),
            ("Args:\n --max-num-seqs\n   256", "max_num_seqs", 256),
            (r#"["--max-num-seqs", "256"]"#, "max_num_seqs", 256),
            ("llama_context: n_ubatch      = 512", "micro_batch", 512),
            ("free_gpu_memory_fraction: 0.9", "cache_share", 900),
            ("shm              64M   64M     0 100% /dev/shm", "docker_shm", 64 * MIB),
        ] {
            assert_eq!(read_one(text, id), Some(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_value_of_a_setting_is_not_read() {
        for (text, id) in [
            ("val_batch_size=64", "batch"),
            ("--global-batch-size 512", "batch"),
            ("batch_size=batch_size", "batch"),
            ("ReqMem=4Gc", "slurm_memory"),
            ("python -m http.server", "docker_memory"),
            ("maxmemory_policy:volatile-ttl", "redis_memory"),
            ("--gpulayers -1", "layers"),
            ("CUPY_GPU_MEMORY_LIMIT=\"50%\"", "cupy_limit"),
        ] {
            assert_eq!(read_one(text, id), None, "{text}");
        }
    }

    #[test]
    fn a_moved_value_lies_on_the_promised_side_or_there_is_none() {
        for setting in SETTINGS.iter() {
            let unit = match setting.unit {
                Unit::Size { .. } => 64 * MIB,
                _ => 1,
            };
            for now in (0..2200).map(|step| step * unit) {
                let bounds = [
                    Bounds::default(),
                    Bounds { needed: Some(now / 2), most: Some(now + unit / 2) },
                    Bounds { needed: Some(now.saturating_mul(3)), most: None },
                ];
                for bounds in bounds {
                    if let Some(lower) = setting.moved(now, Way::Lower, bounds) {
                        assert!(lower < now, "{} {now}", setting.id);
                    }
                    if let Some(raised) = setting.moved(now, Way::Raise, bounds) {
                        assert!(raised > now && raised <= bounds.most.unwrap_or(u64::MAX), "{} {now}", setting.id);
                    }
                }
            }
        }
        let heap = of("java_heap").unwrap();
        assert_eq!(heap.write(heap.moved(32 * GIB, Way::Raise, Bounds::default()).unwrap()), "48g");
        assert_eq!(heap.write(heap.moved(512 * MIB, Way::Raise, Bounds::default()).unwrap()), "768m");
        let most = Bounds { needed: None, most: Some(40 * GIB) };
        assert_eq!(heap.moved(32 * GIB, Way::Raise, most), Some(40 * GIB), "no more than there is");
        assert_eq!(of("batch").unwrap().moved(1, Way::Lower, Bounds::default()), None);
        assert_eq!(of("batch").unwrap().moved(3, Way::Lower, Bounds::default()), Some(1));
    }

    #[test]
    fn what_is_written_is_read_again_as_the_same() {
        for setting in SETTINGS.iter() {
            let values: &[u64] = match setting.unit {
                Unit::Count => &[1, 7, 4096],
                Unit::Share => &[50, 850, 925],
                Unit::Size { bare: GIB, .. } => &[GIB, 48 * GIB],
                Unit::Size { .. } => &[768 * MIB, 48 * GIB],
            };
            for value in values {
                assert_eq!(setting.parse(&setting.write(*value)), Some(*value), "{}", setting.id);
            }
        }
    }

    #[test]
    fn v8_shows_how_large_its_heap_was() {
        let trace =
            "[7:0x5] 84201 ms: Mark-Compact (reduce) 16362.6 (16416.2) -> 16361.9 (16412.5) MB, 2201.3 / 0.0 ms";
        assert_eq!(heap_of_v8(trace), Some(17_209_753_600));
    }
}
