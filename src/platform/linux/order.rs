//! Owns what the sampling child is asked for, as its arguments. They do not go through the parser of the command line: to
//! build its description of every command takes longer than the driver's first answers, and memory that the child would keep.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use crate::platform::contract::Sampling;

/// The word that the child's arguments begin with.
const SAMPLER: &str = "sampler";

/// What a sampling child does.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Order {
    pub sampling: Sampling,
    /// It ends after so many readings; `None`: when nobody reads them any more.
    pub count: Option<u64>,
    /// It reads its interval from standard input, and writes only the rows that changed since the reading before.
    pub is_paced: bool,
}

impl Order {
    /// The arguments for a child of this program.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let Sampling { nvml_library, device_folder, system_folder, process_folder, windows, interval, glance } =
            &self.sampling;
        let values = [
            ("--interval", Some(seconds(*interval))),
            ("--device-folder", Some(device_folder.clone().into_os_string())),
            ("--nvml-library", nvml_library.clone().map(PathBuf::into_os_string)),
            ("--sys-folder", system_folder.clone().map(PathBuf::into_os_string)),
            ("--proc-folder", process_folder.clone().map(PathBuf::into_os_string)),
            ("--glance", glance.map(seconds)),
            ("--count", self.count.map(|count| count.to_string().into())),
            ("--windows", windows.then(|| "1".into())),
            ("--paced", self.is_paced.then(|| "1".into())),
        ];
        let given = values.into_iter().filter_map(|(name, value)| Some([OsString::from(name), value?]));
        std::iter::once(OsString::from(SAMPLER)).chain(given.flatten()).collect()
    }

    /// The order in the arguments of this process; `None` if they are a person's.
    pub(crate) fn parse(arguments: &[OsString]) -> Option<Order> {
        let (first, rest) = arguments.split_first()?;
        if first != SAMPLER || rest.is_empty() {
            return None;
        }
        let mut order = Order::default();
        let sampling = &mut order.sampling;
        for pair in rest.chunks(2) {
            let [name, value] = pair else { return None };
            match name.to_str()? {
                "--interval" => sampling.interval = duration(value)?,
                "--device-folder" => sampling.device_folder = value.into(),
                "--nvml-library" => sampling.nvml_library = Some(value.into()),
                "--sys-folder" => sampling.system_folder = Some(value.into()),
                "--proc-folder" => sampling.process_folder = Some(value.into()),
                "--glance" => sampling.glance = Some(duration(value)?),
                "--count" => order.count = Some(value.to_str()?.parse().ok()?),
                "--windows" => sampling.windows = true,
                "--paced" => order.is_paced = true,
                _ => return None,
            }
        }
        Some(order)
    }
}

fn seconds(duration: Duration) -> OsString {
    duration.as_secs_f64().to_string().into()
}

fn duration(seconds: &OsStr) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.to_str()?.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn an_order_arrives_as_it_was_given_and_a_persons_arguments_are_none() {
        let whole = Order {
            sampling: Sampling {
                nvml_library: Some("/a b/libnvidia-ml.so.1".into()),
                device_folder: PathBuf::from(OsString::from_vec(b"/dev\xff".to_vec())),
                system_folder: Some("/s".into()),
                process_folder: Some("/p".into()),
                windows: true,
                interval: Duration::from_millis(50),
                glance: Some(Duration::from_millis(200)),
            },
            count: Some(2),
            is_paced: true,
        };
        let device_folder = PathBuf::from("/dev");
        let interval = Duration::from_secs(1);
        let least = Order { sampling: Sampling { device_folder, interval, ..Sampling::default() }, ..Order::default() };
        for order in [whole, least] {
            assert_eq!(Order::parse(&order.arguments()), Some(order));
        }
        for typed in
            [&["sampler"][..], &["sample", "--count", "1"], &["sampler", "crash.log"], &["sampler", "--x", "y"], &[]]
        {
            let typed: Vec<OsString> = typed.iter().map(OsString::from).collect();
            assert_eq!(Order::parse(&typed), None, "{typed:?}");
        }
    }
}
