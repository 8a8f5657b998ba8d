//! Owns reading from a log when the job died, by the timestamp nearest to the decisive line. A timestamp without a time
//! zone is taken as local.

use std::cmp::Ordering;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use regex::{Captures, Match};

use crate::effort;
use crate::log::{Expression, PastedLog};
use crate::units::WallTime;

/// A timestamp further away than this many lines says nothing about the failure.
const REACH: usize = 200;

/// The timestamp on the decisive line, else the nearest one before it, else the nearest one after it.
pub(crate) fn crashed_at(log: &PastedLog, line: usize, now: Option<&Zoned>) -> Option<WallTime> {
    nearest(log, line, |text| stamp(text, now))
}

/// The same, if the timestamp names no time zone and is UTC, as in most containers.
pub(crate) fn crashed_at_if_utc(log: &PastedLog, line: usize, now: Option<&Zoned>) -> Option<WallTime> {
    let now = now?;
    let utc = now.with_time_zone(TimeZone::UTC);
    let (utc, local) = nearest(log, line, |text| Some((stamp(text, Some(&utc))?, stamp(text, Some(now))?)))?;
    (utc != local).then_some(utc)
}

fn nearest<T>(log: &PastedLog, line: usize, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    let before = (line.saturating_sub(REACH).max(1)..=line).rev();
    let after = line + 1..=(line + REACH).min(log.line_count());
    before.chain(after).find_map(|number| read(log.line(number)?))
}

static ISO: Expression = Expression::new(
    r"(?-u)\b(\d{4})[-/](\d\d)[-/](\d\d)(?:T| - | |_)(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?: ?(Z|UTC|[+-]\d\d:?\d\d))?",
);
static SYSLOG: Expression = Expression::new(
    r"(?-u)\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s+(\d{1,2}) (\d\d):(\d\d):(\d\d)(?: (\d{4}))?",
);
static SHORT: Expression =
    Expression::new(r"(?-u)\b(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\b");

/// PyTorch's and Google's loggers: month, day, time.
static GLOG: Expression = Expression::new(r"(?-u)\b[EWIF](\d{1,2}?)(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?");

/// How much of a line's beginning may hold the time at which it was printed.
const HEAD: usize = 200;

/// When a line was printed, as it says itself. Two are in order only if both are written in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    way: u8,
    at: Timestamp,
}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Moment) -> Option<Ordering> {
        (self.way == other.way).then(|| self.at.cmp(&other.at))
    }
}

/// The time at a line's beginning, to put lines in order. One without a year or a zone is taken as of one and the same.
pub(crate) fn moment(line: &str) -> Option<Moment> {
    let head = line.get(..line.floor_char_boundary(HEAD))?;
    effort::count(head.len());
    let any_year: Zoned = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
    if let Some(found) = ISO.captures(head) {
        let way = if found.get(8).is_some() { 0 } else { 1 };
        return Some(Moment { way, at: with_fraction(iso(head, Some(&any_year))?, found.get(7))? });
    }
    if let Some(found) = SYSLOG.captures(head) {
        let [day, hour, minute, second] = numbers(&found, [2, 3, 4, 5])?;
        let rest = [month(found.get(1)?.as_str())?, day, hour, minute, second];
        let year = numbers(&found, [6]).map_or(any_year.year(), |[year]| year);
        return Some(Moment { way: 2, at: local(with_year(year, rest)?, Some(&any_year))? });
    }
    if let Some(found) = SHORT.captures(head) {
        let at = local(with_year(any_year.year(), numbers(&found, [1, 2, 3, 4, 5])?)?, Some(&any_year))?;
        return Some(Moment { way: 3, at });
    }
    let found = GLOG.captures(head)?;
    let at = local(with_year(any_year.year(), numbers(&found, [1, 2, 3, 4, 5])?)?, Some(&any_year))?;
    Some(Moment { way: 4, at: with_fraction(at, found.get(6))? })
}

/// The time with these digits of its second.
fn with_fraction(at: Timestamp, digits: Option<Match<'_>>) -> Option<Timestamp> {
    let Some(digits) = digits else { return Some(at) };
    let nanoseconds: i64 = format!("{:0<9}", digits.as_str()).parse().ok()?;
    at.checked_add(jiff::SignedDuration::from_nanos(nanoseconds)).ok()
}

fn stamp(line: &str, now: Option<&Zoned>) -> Option<WallTime> {
    effort::count(line.len());
    iso(line, now).or_else(|| syslog(line, now)).or_else(|| short(line, now)).map(WallTime)
}

fn iso(line: &str, now: Option<&Zoned>) -> Option<Timestamp> {
    let found = ISO.captures(line)?;
    let civil = civil(numbers(&found, [1, 2, 3, 4, 5, 6])?)?;
    match found.get(8).map(|zone| zone.as_str().replace("UTC", "Z")) {
        Some(zone) => format!("{civil}{zone}").parse().ok(),
        None => local(civil, now),
    }
}

fn syslog(line: &str, now: Option<&Zoned>) -> Option<Timestamp> {
    let found = SYSLOG.captures(line)?;
    let month = month(found.get(1)?.as_str())?;
    let [day, hour, minute, second] = numbers(&found, [2, 3, 4, 5])?;
    let rest = [month, day, hour, minute, second];
    match numbers(&found, [6]) {
        Some([year]) => local(with_year(year, rest)?, now),
        None => latest(rest, now),
    }
}

fn month(name: &str) -> Option<i16> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    i16::try_from(MONTHS.iter().position(|month| *month == name)? + 1).ok()
}

fn short(line: &str, now: Option<&Zoned>) -> Option<Timestamp> {
    let found = SHORT.captures(line)?;
    latest(numbers(&found, [1, 2, 3, 4, 5])?, now)
}

/// The numbers that these groups captured, where each captured one.
fn numbers<const COUNT: usize>(found: &Captures<'_>, groups: [usize; COUNT]) -> Option<[i16; COUNT]> {
    let mut numbers = [0; COUNT];
    for (number, group) in numbers.iter_mut().zip(groups) {
        *number = found.get(group)?.as_str().parse().ok()?;
    }
    Some(numbers)
}

/// A timestamp without a year is from this year, or from last year if it would otherwise lie in the future.
fn latest(rest: [i16; 5], now: Option<&Zoned>) -> Option<Timestamp> {
    let now = now?;
    let this_year = local(with_year(now.year(), rest)?, Some(now))?;
    let day_ahead = now.timestamp().checked_add(jiff::Span::new().hours(24)).ok()?;
    if this_year <= day_ahead { Some(this_year) } else { local(with_year(now.year() - 1, rest)?, Some(now)) }
}

fn with_year(year: i16, [month, day, hour, minute, second]: [i16; 5]) -> Option<DateTime> {
    civil([year, month, day, hour, minute, second])
}

fn civil([year, month, day, hour, minute, second]: [i16; 6]) -> Option<DateTime> {
    let [month, day, hour, minute, second] = [month, day, hour, minute, second].map(|number| i8::try_from(number).ok());
    DateTime::new(year, month?, day?, hour?, minute?, second?, 0).ok()
}

fn local(civil: DateTime, now: Option<&Zoned>) -> Option<Timestamp> {
    Some(civil.to_zoned(now?.time_zone().clone()).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_in_order_where_they_tell_the_time_in_the_same_way() {
        for (earlier, later) in [
            ("[2025-05-19 23:22:28.100 TP3] a", "[2025-05-19 23:22:28.25 TP1] b"),
            ("2024-11-20T14:37:16.000Z a", "2024-11-20T14:37:16.001Z b"),
            ("Thu Jan 23 11:55:50 2025[1,1]<stderr>:a", "Thu Jan 23 11:55:51 2025[1,0]<stderr>:b"),
            ("(Worker_TP1 pid=1) ERROR 12-31 23:59:58 a", "(Worker_TP0 pid=1) ERROR 12-31 23:59:59 b"),
            ("[rank6]:[E624 04:14:29.224103812 a", "[rank5]:[E624 04:14:29.224103813 b"),
            ("E0624 04:14:29.2 a", "E1102 04:14:28.1 b"),
        ] {
            let (earlier, later) = (moment(earlier).unwrap(), moment(later).unwrap());
            assert_eq!(earlier.partial_cmp(&later), Some(Ordering::Less), "{earlier:?} {later:?}");
        }
        let (iso, syslog) = (moment("2024-11-20 14:37:16 a").unwrap(), moment("Nov 20 14:37:17 host a").unwrap());
        assert_eq!(iso.partial_cmp(&syslog), None);
        assert_eq!(moment("step 20 14:37"), None);
    }

    #[test]
    fn stamps_are_read_with_and_without_zone_and_year() {
        let now: Zoned = "2026-11-20T12:00:00+01:00[+01:00]".parse().unwrap();
        let cases = [
            ("2026-11-20T10:00:00.5Z boom", "2026-11-20T10:00:00Z"),
            ("[2026-11-20 10:00:00 +0200] boom", "2026-11-20T08:00:00Z"),
            ("2026-11-20 10:00:00,123 ERROR boom", "2026-11-20T09:00:00Z"),
            ("Nov 19 08:00:00 host kernel: boom", "2026-11-19T07:00:00Z"),
            ("Dec 24 08:00:00 host kernel: boom", "2025-12-24T07:00:00Z"),
            ("[Wed Sep 29 07:12:20 2021] boom", "2021-09-29T06:12:20Z"),
            ("ERROR 11-20 09:30:00 [core.py:1] boom", "2026-11-20T08:30:00Z"),
        ];
        for (line, want) in cases {
            let want: Timestamp = want.parse().unwrap();
            let log = PastedLog::new(line);
            assert_eq!(crashed_at(&log, 1, Some(&now)), Some(WallTime(want)), "{line}");
            let if_utc = crashed_at_if_utc(&log, 1, Some(&now));
            let later = want + jiff::SignedDuration::from_hours(1);
            let has_zone = line.contains('Z') || line.contains('+');
            assert_eq!(if_utc, (!has_zone).then_some(WallTime(later)), "{line}");
        }
        assert_eq!(crashed_at(&PastedLog::new("2026-11-20 10:00:00 boom"), 1, None), None);
    }
}
