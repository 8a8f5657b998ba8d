//! Owns the quantities everything else counts in: `Bytes` and `WallTime`, their parsing and their printing.
//! Knows nothing of logs, GPUs or the screen.

use std::fmt;

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::SerializeDisplay;

/// A number of bytes. Printed in the unit a person compares with: `11.2 GiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, description = "In bytes.")]
pub struct Bytes(pub u64);

/// What a program means by "MB" and "GB": most memory messages mean powers of 1024 whatever they print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitBase {
    /// kB, MB, GB are powers of 1024 (ggml, torch, the kernel, Ray).
    #[default]
    Binary,
    /// kB, MB, GB are powers of 1000 (Dask's older wording); KiB, MiB, GiB stay powers of 1024.
    Decimal,
}

impl Bytes {
    /// No bytes. A true zero, never a stand-in for "unknown".
    pub const ZERO: Bytes = Bytes(0);

    pub const fn mib(n: u64) -> Bytes {
        Bytes(n.saturating_mul(1 << 20))
    }
    pub const fn gib(n: u64) -> Bytes {
        Bytes(n.saturating_mul(1 << 30))
    }

    /// The sum, at most `u64::MAX`.
    #[must_use]
    pub fn plus(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// What is left after `other` is taken away, never below nothing.
    #[must_use]
    pub fn less(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// Whether two figures are the same within `percent` of the larger one.
    pub fn within_percent(self, other: Bytes, percent: u64) -> bool {
        let larger = u128::from(self.0.max(other.0));
        u128::from(self.0.abs_diff(other.0)) * 100 <= larger * u128::from(percent)
    }

    /// Rounded to what a figure in GiB shows, or in MiB, for sums that are shown.
    #[must_use]
    pub fn as_shown(self, in_mib: bool) -> Bytes {
        if in_mib {
            return Bytes(self.0.saturating_add(1 << 19) >> 20 << 20);
        }
        Bytes::parse(&format!("{}GiB", self.in_gib()), UnitBase::Binary).unwrap_or(self)
    }

    /// The figure in GiB without its unit, for sums whose first term carries it.
    #[must_use]
    pub fn in_gib(self) -> String {
        let gib = self.0 as f64 / f64::from(1 << 30);
        format!("{gib:.1}")
    }

    /// Reads "2.00 GiB", "9,216MiB", "512 bytes", "300.00MB" or a bare number of bytes.
    /// `None` where it is not a size or would not fit.
    pub fn parse(text: &str, base: UnitBase) -> Option<Bytes> {
        let text = text.trim();
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ',')).unwrap_or(text.len());
        let (number, unit) = text.split_at_checked(end)?;
        Bytes::parse_number(number, multiplier(unit.trim(), base)?)
    }

    /// Reads a number printed without its unit, which is `multiplier` bytes.
    pub fn parse_number(number: &str, multiplier: u64) -> Option<Bytes> {
        let digits: String = match number.split_once(',') {
            // Thousands stand in threes: one comma before one or two digits is a decimal one ("2,50 GiB").
            Some((whole, part)) if (1..=2).contains(&part.len()) && part.chars().all(|c| c.is_ascii_digit()) => {
                format!("{whole}.{part}")
            }
            _ => number.chars().filter(|c| *c != ',').collect(),
        };
        let digits = digits.trim_end_matches('.');
        if let Ok(whole) = digits.parse::<u64>() {
            return whole.checked_mul(multiplier).map(Bytes);
        }
        let value: f64 = digits.parse().ok()?;
        let bytes = value * multiplier as f64;
        // 2^64 as f64: anything at or above does not fit.
        (0.0..18_446_744_073_709_551_616.0).contains(&bytes).then(|| Bytes(whole(bytes)))
    }
}

/// The nearest whole number: 0 of one below that, `u64::MAX` of one beyond.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` ends at both of these")]
pub(crate) fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// Bytes in one `unit`, or `None` where the word is no unit of size.
fn multiplier(unit: &str, base: UnitBase) -> Option<u64> {
    let lower = unit.to_ascii_lowercase();
    let step: u64 = match (lower.as_str(), base) {
        ("" | "b" | "byte" | "bytes", _) => return Some(1),
        (u, UnitBase::Decimal) if !u.contains('i') => 1000,
        _ => 1024,
    };
    // French programs count in octets: Ko, Mo, Go.
    let power = match lower.as_str() {
        "k" | "kb" | "ko" | "ki" | "kib" => 1,
        "m" | "mb" | "mo" | "mi" | "mib" => 2,
        "g" | "gb" | "go" | "gi" | "gib" => 3,
        "t" | "tb" | "to" | "ti" | "tib" => 4,
        "p" | "pb" | "pi" | "pib" => 5,
        "e" | "eb" | "ei" | "eib" => 6,
        _ => return None,
    };
    step.checked_pow(power)
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 as f64;
        // Below 1 GiB a figure in GiB says too little, so it is given in MiB.
        let text = if self.0 < 1 << 10 {
            format!("{} bytes", self.0)
        } else if self.0 < 1 << 20 {
            format!("{:.0} KiB", value / 1024.0)
        } else if self.0 < 1_073_216_000 {
            format!("{:.0} MiB", value / 1_048_576.0)
        } else if self.0 < 1 << 50 {
            format!("{:.1} GiB", value / 1_073_741_824.0)
        } else {
            format!("{:.1} PiB", value / 1_125_899_906_842_624.0)
        };
        f.pad(&text)
    }
}

/// A moment of the wall clock: RFC 3339 in UTC with milliseconds, as the stream and the JSON have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, SerializeDisplay, JsonSchema)]
#[schemars(inline, description = "", extend("format" = "date-time"))]
pub struct WallTime(#[schemars(with = "String")] pub jiff::Timestamp);

impl WallTime {
    /// How long ago it was at that moment, as people say it: "12 s", "4 min", "3 h", "9 d".
    pub fn age_at(self, now: WallTime) -> String {
        let seconds = now.0.duration_since(self.0).as_secs().max(0);
        match seconds {
            0..60 => format!("{seconds} s"),
            60..3600 => format!("{} min", seconds / 60),
            3600..172_800 => format!("{} h", seconds / 3600),
            _ => format!("{} d", seconds / 86_400),
        }
    }

    /// The time of day in this zone, such as 14:02:31.
    pub fn time_of_day(self, zone: &TimeZone) -> String {
        self.0.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl<'de> Deserialize<'de> for WallTime {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        // No more than is written again: what was read and written once more must be the same.
        WallTime(time).to_string().parse().map(WallTime).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_programs_print_them() {
        let cases = [
            ("2.00 GiB", 2 << 30),
            ("11.23GiB", 12_058_120_684),
            ("512 bytes", 512),
            ("300.00 MB", 300 << 20),
            ("12,345 kB", 12_345 << 10),
            ("2,50 GiB", 5 << 29),
            ("1,5 Go", 3 << 29),
            ("1073741824", 1 << 30),
            ("20.00 KiB", 20 << 10),
        ];
        for (text, bytes) in cases {
            assert_eq!(Bytes::parse(text, UnitBase::Binary), Some(Bytes(bytes)), "{text}");
        }
        assert_eq!(Bytes::parse("2.00 GB", UnitBase::Decimal), Some(Bytes(2_000_000_000)));
        assert_eq!(Bytes::parse("2.00 GiB", UnitBase::Decimal), Some(Bytes(2 << 30)));
    }

    #[test]
    fn what_is_no_size_is_none() {
        for text in ["", "GiB", "2.0 tokens", "1.2.3 GiB", "999999999 EiB", "-4 GiB"] {
            assert_eq!(Bytes::parse(text, UnitBase::Binary), None, "{text}");
        }
    }

    #[test]
    fn bytes_print_in_the_unit_people_compare_with() {
        assert_eq!(Bytes(12_058_120_684).to_string(), "11.2 GiB");
        assert_eq!(Bytes::mib(90).to_string(), "90 MiB");
        assert_eq!(Bytes::mib(307).to_string(), "307 MiB");
        assert_eq!(Bytes(1_073_741_823).to_string(), "1.0 GiB", "never 1024 MiB");
        assert_eq!(Bytes(12).to_string(), "12 bytes");
        assert_eq!(format!("{:>9}", Bytes::gib(6)), "  6.0 GiB");
    }

    #[test]
    fn a_wall_time_that_was_read_is_written_and_read_the_same() {
        for text in [
            "2026-11-20T14:02:31.123456789Z",
            "1969-12-31T23:59:59.9995Z",
            "-000001-01-01T00:00:00.0001Z",
            "9999-12-30T22:00:00.9999999Z",
            "-009999-01-02T01:59:59.999999999Z",
        ] {
            let read: WallTime = serde_json::from_str(&format!("\"{text}\"")).unwrap();
            let written = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<WallTime>(&written).unwrap(), read, "{text}: {written}");
        }
    }

    #[test]
    fn wall_time_has_milliseconds_in_utc() {
        let time: WallTime = serde_json::from_str("\"2026-11-20T14:02:31+01:00\"").unwrap();
        assert_eq!(serde_json::to_string(&time).unwrap(), "\"2026-11-20T13:02:31.000Z\"");
    }
}
