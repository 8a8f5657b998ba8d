//! Owns the question whose GPUs a log is about, where a machine has those of several makers.

use crate::advice::input::Situation;
use crate::gpu::{Device, Nature, Snapshot, Vendor};
use crate::knowledge::{Diagnosis, Run};
use crate::memory::visible::Counted;

/// Whose GPU the run was on, where that is known not to be NVIDIA's.
pub(crate) fn maker(diagnosis: &Diagnosis) -> Option<&'static str> {
    let run = &diagnosis.run;
    match run.maker.as_deref() {
        Some("XPU" | "SYCL") => Some("Intel"),
        Some("HIP" | "hip" | "ROCm") => Some("AMD"),
        // Ascend's NPUs and others, whose memory is not read.
        Some(other) => Some(maker_of_accelerator(other)),
        None if are_cards_of(run, &["AMD", "Radeon"]) => Some("AMD"),
        None if are_cards_of(run, &["Intel", "Arc"]) => Some("Intel"),
        None => None,
    }
}

fn maker_of_accelerator(word: &str) -> &'static str {
    match word {
        "NPU" => "Ascend",
        "MLU" => "Cambricon",
        "MUSA" => "Moore Threads",
        "HPU" => "Gaudi",
        _ => "Enflame",
    }
}

fn are_cards_of(run: &Run, words: &[&str]) -> bool {
    !run.cards.is_empty() && run.cards.iter().all(|card| words.iter().any(|word| card.name.contains(word)))
}

fn vendor(maker: Option<&str>) -> Vendor {
    match maker {
        Some("AMD") => Vendor::Amd,
        Some("Intel") => Vendor::Intel,
        None => Vendor::Nvidia,
        Some(_) => Vendor::Unknown,
    }
}

/// The GPU as programs count it.
pub(crate) fn counted(device: &Device) -> Counted {
    match device.vendor {
        Vendor::Amd => Counted::Rocm(device.ordinal),
        Vendor::Intel => Counted::LevelZero(device.ordinal),
        Vendor::Nvidia | Vendor::Unknown => Counted::Cuda {
            index: device.index,
            uuid: device.uuid.known().cloned(),
            is_instance: device.nature == Some(Nature::MigInstance),
        },
    }
}

/// This machine with the GPUs of the log's maker alone; `None` where that leaves nothing out. A capacity says nothing
/// across makers: an integrated GPU has the system memory, which may be as large as the GPU that the log names. A log that names
/// no maker is of CUDA.
pub(crate) fn of_the_logs_make(situation: &Situation<'_>) -> Option<Snapshot> {
    let snapshot = situation.snapshot?;
    let maker = maker(situation.diagnosis);
    let is_of_it = snapshot.devices.iter().any(|device| device.vendor == vendor(maker));
    let is_of_another = snapshot.devices.iter().any(|device| device.vendor != vendor(maker));
    // Without a GPU of a maker that the log names, the log is from elsewhere, and `other_maker` says so.
    if !is_of_another || maker.is_some() && !is_of_it {
        return None;
    }
    let devices = snapshot.devices.iter().filter(|device| device.vendor == vendor(maker)).cloned().collect();
    Some(Snapshot { devices, ..snapshot.clone() })
}

/// Whether a run as this log's may use the GPU. Some readings of other machines do not tell makers, and then it is NVIDIA's.
pub(crate) fn may_run_on(diagnosis: &Diagnosis, device: &Device) -> bool {
    device.vendor == Vendor::Nvidia || device.vendor == vendor(maker(diagnosis))
}

/// Why the log is from elsewhere, if its GPU's maker has made none of this machine's.
pub(super) fn other_maker(diagnosis: &Diagnosis, devices: &[Device]) -> Option<String> {
    let maker = maker(diagnosis)?;
    let made_one = devices.iter().any(|device| device.vendor == vendor(Some(maker)));
    let here = match devices.first().map(|device| device.vendor) {
        Some(Vendor::Amd) => "AMD's",
        Some(Vendor::Intel) => "Intel's",
        _ => "NVIDIA's",
    };
    (!made_one).then(|| format!("it ran on an {maker} GPU, here there are {here}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::advise;
    use crate::advice::testing::torch_oom;
    use crate::gpu::testing::{device, snapshot};

    /// GPU 0 of one maker and GPU 1 of another, both of 24 GiB.
    fn two_makers(first: Vendor, second: Vendor) -> Snapshot {
        let made_by = |index, vendor| Device { vendor, ..device(index, vec![]) };
        Snapshot { devices: vec![made_by(0, first), made_by(1, second)], ..snapshot(0) }
    }

    fn kept(diagnosis: &Diagnosis, here: &Snapshot) -> Option<Vec<u32>> {
        let reduced = of_the_logs_make(&Situation { snapshot: Some(here), ..Situation::alone(diagnosis) })?;
        Some(reduced.devices.iter().map(|device| device.index).collect())
    }

    #[test]
    fn a_gpu_of_another_maker_is_not_the_logs() {
        let cuda = torch_oom(&[]);
        let mut rocm = torch_oom(&[]);
        rocm.run.maker = Some("HIP".into());
        let both = two_makers(Vendor::Nvidia, Vendor::Amd);
        assert_eq!(kept(&cuda, &both), Some(vec![0]));
        assert_eq!(kept(&rocm, &both), Some(vec![1]));
        assert_eq!(kept(&cuda, &two_makers(Vendor::Amd, Vendor::Intel)), Some(vec![]));
        assert_eq!(kept(&cuda, &two_makers(Vendor::Nvidia, Vendor::Nvidia)), None);
    }

    #[test]
    fn a_run_of_cuda_is_not_sent_to_another_makers_gpu() {
        let cuda = torch_oom(&[]);
        let here = two_makers(Vendor::Nvidia, Vendor::Amd);
        let may: Vec<bool> = here.devices.iter().map(|device| may_run_on(&cuda, device)).collect();
        assert_eq!(may, [true, false]);
    }

    /// Of two GPUs of one maker, which are numbered 1 and 2 behind one of NVIDIA's, the log means the one of ROCm's number.
    #[test]
    fn the_logs_number_is_that_of_its_makers_libraries() {
        let mut rocm = torch_oom(&[]);
        rocm.run.maker = Some("HIP".into());
        let amd = |index, ordinal| Device { vendor: Vendor::Amd, ordinal: Some(ordinal), ..device(index, vec![]) };
        let here = Snapshot { devices: vec![device(0, vec![]), amd(1, 1), amd(2, 0)], ..snapshot(0) };
        for (number, index) in [(1, 1), (0, 2)] {
            rocm.facts.device = Some(number);
            rocm.run.devices = Some(2);
            let advice = advise(&Situation { snapshot: Some(&here), ..Situation::alone(&rocm) });
            assert_eq!(advice.ledger.and_then(|ledger| ledger.device), Some(index));
        }
        rocm.facts.device = Some(2);
        let advice = advise(&Situation { snapshot: Some(&here), ..Situation::alone(&rocm) });
        assert_eq!(advice.verdict.same_machine, Some(false), "there are two of that maker");
    }

    #[test]
    fn an_advice_is_about_the_gpu_of_the_logs_maker_alone() {
        let cuda = torch_oom(&[]);
        let here = two_makers(Vendor::Nvidia, Vendor::Intel);
        let advice = advise(&Situation { snapshot: Some(&here), ..Situation::alone(&cuda) });
        assert_eq!(advice.verdict.gpu_candidates, Vec::<u32>::new(), "there is only one that it can be");
    }

    #[test]
    fn a_log_of_a_maker_without_a_gpu_here_is_from_elsewhere() {
        let mut rocm = torch_oom(&[]);
        rocm.run.maker = Some("HIP".into());
        let here = two_makers(Vendor::Nvidia, Vendor::Nvidia);
        let advice = advise(&Situation { snapshot: Some(&here), ..Situation::alone(&rocm) });
        assert_eq!(advice.verdict.same_machine, Some(false));
    }
}
