//! The readings of a recorded run, from the driver to the record: glances between whole readings, the driver's own count of
//! peaks, and a driver that answers slowly.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use oomdoctor::platform::News;
use oomdoctor::units::Bytes;

use crate::support::fake_driver::{FakeDriver, GIB, Sleeper};

/// The news of a sample stream with glances, until this many whole readings.
fn stream(driver: &FakeDriver, readings: &str) -> Vec<News> {
    let output =
        driver.oomdoctor(&["sample", "--interval", "1", "--glance", "0.05", "--count", readings]).output().unwrap();
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.enumerate().map(|(number, line)| News::parse(line, number == 0).unwrap()).collect()
}

fn glances(news: &[News]) -> usize {
    news.iter().filter(|news| matches!(news, News::Glance(_))).count()
}

#[test]
fn between_two_lists_of_processes_only_the_memory_is_read() {
    let driver = FakeDriver::new(&format!("(gpus: [(base: {GIB})])"));
    driver.count_calls();
    let news = stream(&driver, "2");
    let count = glances(&news);
    assert!(count >= 5, "{news:?}");
    let used: Vec<_> = news
        .iter()
        .filter_map(|news| if let News::Glance(glance) = news { glance.used.first() } else { None })
        .collect();
    assert!(used.iter().all(|used| **used == (0, Bytes(GIB))), "{used:?}");
    let calls = driver.calls();
    let of = |name: &str| calls.iter().filter(|call| call.starts_with(name)).count();
    assert!(of("nvmlDeviceGetMemoryInfo") >= count + 2);
    assert!(of("nvmlDeviceGetComputeRunningProcesses") < count, "{calls:?}");
}

#[test]
fn a_driver_that_answers_slowly_is_asked_less_often() {
    let slow = "faults: [(call: \"nvmlDeviceGetMemoryInfo*\", hang_ms: 40)]";
    let driver = FakeDriver::new(&format!("(gpus: [(base: {GIB})], {slow})"));
    let count = glances(&stream(&driver, "2"));
    assert!(count <= 1, "40 ms for each: one in two seconds, not twenty: {count}");
}

/// The peaks of a stream's first line of them, or none within three readings.
fn peaks(driver: &FakeDriver) -> Option<Vec<(u32, u32, Bytes)>> {
    let mut sample = driver.oomdoctor(&["sample", "--interval", "0.05", "--glance", "0.05", "--count", "3"]);
    let mut sample = sample.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(sample.stdout.take().unwrap()).split(b'\n').map(Result::unwrap);
    let news = lines.enumerate().map(|(number, line)| News::parse(&line, number == 0).unwrap());
    let peaks = news.filter_map(|news| if let News::Peaks(told) = news { Some(told.peaks) } else { None }).last();
    sample.wait().unwrap();
    peaks
}

#[test]
fn the_drivers_own_count_of_a_peak_is_read_where_root_enabled_it() {
    let sleeper = Sleeper::start();
    let scenario = |peak: &str| {
        let row = format!("(gpu: 0, pid: {}, bytes: Some({}), {peak})", sleeper.pid(), 5 * GIB);
        format!("(gpus: [(base: 0)], processes: [{row}])")
    };
    let driver = FakeDriver::new(&scenario(&format!("peak: Some({})", 20 * GIB)));
    assert_eq!(peaks(&driver), Some(vec![(0, sleeper.pid(), Bytes(20 * GIB))]));
    assert_eq!(peaks(&FakeDriver::new(&scenario(""))), None);
}
