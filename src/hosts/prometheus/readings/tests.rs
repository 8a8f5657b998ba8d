//! Owns the tests of the readings: what each exporter prints, joined with the labels that Prometheus adds, and any samples.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::super::answer::understood;
use super::super::families::WINDOWS;
use super::*;
use crate::text::is_harmful;

const NOW: f64 = 1_795_176_000.0;
const H100: &str = r#"modelName="NVIDIA H100 80GB HBM3""#;

/// Samples in the text format of an exporter, with the labels that Prometheus adds to them.
fn scraped(target: &str, text: &str) -> Vec<Sample> {
    let line = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let (metric, labels) = series.trim_end_matches('}').split_once('{')?;
        let labels = format!("{labels},{target}");
        let labels = labels.trim_start_matches(',').split("\",").filter_map(|label| label.split_once("=\""));
        let labels = labels.map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned()));
        let metric = metric.trim().to_owned();
        Some(Sample { metric, labels: labels.collect(), evaluated: NOW, value: value.parse().ok()? })
    };
    text.lines().filter_map(line).collect()
}

/// When each figure of used memory was taken, so many seconds ago.
fn taken(samples: &[Sample], seconds: f64) -> Vec<Sample> {
    let used = |sample: &&Sample| known(&sample.metric).is_some_and(|(_, metric)| metric.role == Role::Used);
    let taken = |sample: &Sample| Sample { metric: String::new(), value: NOW - seconds, ..sample.clone() };
    samples.iter().filter(used).map(taken).collect()
}

fn read(samples: Vec<Sample>) -> Vec<HostReading> {
    let taken = taken(&samples, 12.0);
    readings(&Answers { current: samples, taken, ..Answers::default() })
}

fn names(readings: &[HostReading]) -> Vec<&str> {
    readings.iter().map(|reading| reading.name.as_str()).collect()
}

fn devices(reading: &HostReading) -> &[Device] {
    &reading.snapshot().expect("a reading").devices
}

fn users(reading: &HostReading) -> Vec<(usize, Option<&str>, Option<u64>)> {
    let user = |user: &DeviceUser| user.idle_for.map(|time| time.as_secs());
    reading.users.iter().map(|one| (one.device, one.name.as_deref(), user(one))).collect()
}

fn dcgm(gpu: u32, more: &str, used: &str, free: &str) -> String {
    let labels = format!(r#"gpu="{gpu}",UUID="GPU-{gpu}a",device="nvidia{gpu}",{H100},Hostname="gpu-1"{more}"#);
    format!("DCGM_FI_DEV_FB_USED{{{labels}}} {used}\nDCGM_FI_DEV_FB_FREE{{{labels}}} {free}\n")
}

const TARGET: &str = r#"job="dcgm",instance="10.0.0.1:9400""#;

/// The format of dcgm-exporter 3.3 and 4.2, from whose README this is.
#[test]
fn a_total_that_the_exporter_does_not_tell_is_a_lower_bound() {
    let readings = read(scraped(TARGET, &dcgm(0, "", "70000", "10500")));
    let memory = &devices(&readings[0])[0].memory;
    assert_eq!(memory.used_bytes.value(), Some(Bytes::mib(70000)));
    assert_eq!(memory.free_bytes.value(), Some(Bytes::mib(10500)));
    assert!(memory.total_bytes.reason().unwrap().contains("≥ 78.6 GiB"), "{:?}", memory.total_bytes);
    assert_eq!(readings[0].age, Some(Duration::from_secs(12)));
    assert_eq!(readings[0].snapshot().unwrap().taken_at, moment(NOW - 12.0).unwrap());
}

/// The metrics of the default list of dcgm-exporter 4.5.3, May 2026, after "Rename Hostname label to hostname" (#655).
#[test]
fn with_what_is_reserved_the_total_is_known() {
    let labels = format!(r#"gpu="3",UUID="GPU-3a",{H100},hostname="gpu-1",DCGM_FI_DRIVER_VERSION="580.65.06""#);
    let text = format!(
        "DCGM_FI_DEV_FB_USED{{{labels}}} 70000\nDCGM_FI_DEV_FB_FREE{{{labels}}} 11000\n\
         DCGM_FI_DEV_FB_RESERVED{{{labels}}} 559\nDCGM_FI_DEV_GPU_UTIL{{{labels}}} 97\n\
         DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0.3\nDCGM_FI_DEV_GPU_TEMP{{{labels}}} 61\n\
         DCGM_FI_DEV_POWER_USAGE{{{labels}}} 512.345"
    );
    let readings = read(scraped(TARGET, &text));
    assert_eq!(names(&readings), ["gpu-1"]);
    let device = &devices(&readings[0])[0];
    assert_eq!(device.index, 3);
    assert_eq!(device.memory.total_bytes.value(), Some(Bytes::mib(81559)));
    assert_eq!(device.utilization_percent.value(), Some(97));
    assert_eq!((device.temperature_celsius.value(), device.power_watts.value()), (Some(61), Some(512)));
    let version = "580.65.06".to_owned();
    assert_eq!(readings[0].snapshot().unwrap().driver, Driver::Available { version, cuda_version: None });
}

#[test]
fn the_exporters_own_pod_uses_no_gpu() {
    let own = format!(r#"{TARGET},pod="watcher-x7",namespace="monitoring",container="exporter""#);
    let exported = r#",exported_pod="llama-0",exported_namespace="ml",exported_container="train""#;
    let text = dcgm(0, exported, "70000", "10500") + &dcgm(1, "", "500", "80000");
    let current = scraped(&own, &text);
    let targets = scraped(&own, "up{} 1");
    let found = readings(&Answers { current: current.clone(), targets, ..Answers::default() });
    assert_eq!(users(&found[0]), [(0, Some("pod ml/llama-0 (train)"), None)]);
    // Where its labels win, a GPU without a pod still has the target's.
    let honored = dcgm(0, r#",pod="llama-0",namespace="ml",container="train""#, "70000", "10500");
    let found = read(scraped(TARGET, &honored));
    assert_eq!(users(&found[0]), [(0, Some("pod ml/llama-0 (train)"), None)]);
    let found =
        read(scraped(r#"job="d",instance="10.0.0.1:9400",pod="nvidia-dcgm-exporter-8x""#, &dcgm(1, "", "5", "8")));
    assert_eq!(users(&found[0]), []);
}

#[test]
fn a_pod_that_shares_a_gpu_is_a_user_and_one_that_has_ended_is_none() {
    let pod = |name: &str| format!(r#",pod="{name}",namespace="ml""#);
    let old = scraped(TARGET, &dcgm(0, &pod("ended"), "70000", "500"));
    let current = scraped(TARGET, &(dcgm(0, &pod("a"), "3000", "78000") + &dcgm(0, &pod("b"), "3000", "78000")));
    let taken = [taken(&old, 200.0), taken(&current, 5.0)].concat();
    let found = readings(&Answers { current: [old, current].concat(), taken, ..Answers::default() });
    assert_eq!(devices(&found[0]).len(), 1);
    assert_eq!(devices(&found[0])[0].memory.used_bytes.value(), Some(Bytes::mib(3000)));
    assert_eq!(devices(&found[0])[0].memory.free_bytes.value(), Some(Bytes::mib(78000)));
    assert_eq!(users(&found[0]), [(0, Some("pod ml/a"), None), (0, Some("pod ml/b"), None)]);
    assert_eq!(found[0].age, Some(Duration::from_secs(5)));
}

#[test]
fn an_exporter_that_was_restarted_at_another_address_is_the_same_machine() {
    let old = scraped(r#"job="dcgm",instance="10.2.0.8:9400""#, &dcgm(0, "", "70000", "500"));
    let new = scraped(TARGET, &dcgm(0, "", "3000", "78000"));
    let taken = [taken(&old, 100.0), taken(&new, 5.0)].concat();
    let found = readings(&Answers { current: [old, new].concat(), taken, ..Answers::default() });
    assert_eq!(names(&found), ["gpu-1"]);
    assert_eq!(devices(&found[0]).len(), 1);
    assert_eq!(devices(&found[0])[0].memory.used_bytes.value(), Some(Bytes::mib(3000)));
}

#[test]
fn an_idle_gpu_is_told_with_its_pod_or_above_1_gib() {
    let pod = r#",pod="llama-0",namespace="ml""#;
    let text = dcgm(0, pod, "70000", "500") + &dcgm(1, "", "500", "80000") + &dcgm(2, "", "2000", "79000");
    let current = scraped(TARGET, &text);
    let nothing = |sample: &Sample| Sample { metric: String::new(), value: 0.0, ..sample.clone() };
    let all: Vec<Sample> = current.iter().map(nothing).collect();
    let longer = all.iter().filter(|sample| sample.labels["gpu"] == "0").cloned().collect();
    let idle = vec![(WINDOWS[0], all), (WINDOWS[1], longer)];
    let found = readings(&Answers { current, idle, ..Answers::default() });
    assert_eq!(users(&found[0]), [(0, Some("pod ml/llama-0"), Some(3600)), (2, None, Some(300))]);
    assert_eq!(found[0].age, None);
}

#[test]
fn instances_of_a_split_gpu_have_their_own_memory() {
    let instance = |id: u32| format!(r#",GPU_I_PROFILE="1g.10gb",GPU_I_ID="{id}""#);
    let text = dcgm(0, &instance(7), "9000", "700") + &dcgm(0, &instance(8), "100", "9600") + &dcgm(0, "", "9100", "9");
    let found = read(scraped(TARGET, &text));
    let natures: Vec<_> = devices(&found[0]).iter().map(|device| device.nature).collect();
    assert_eq!(natures, [Some(Nature::Split), Some(Nature::MigInstance), Some(Nature::MigInstance)]);
    let first = &devices(&found[0])[1];
    assert_eq!(first.name.known().unwrap(), "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
    assert_eq!((first.index, first.uuid.known()), (0, None));
    assert_eq!(first.memory.used_bytes.value(), Some(Bytes::mib(9000)));
}

/// Cut from nvidia_gpu_exporter 1.14.0, internal/integration/testdata, an H100 under load, read in November 2026.
#[test]
fn nvidia_gpu_exporter_tells_bytes_processes_and_when_it_asked() {
    const UUID: &str = "df6e7a7c-7314-46f8-abc4-b88b36dcf3aa";
    let text = format!(
        r#"nvidia_smi_gpu_info{{compute_cap="9.0",cuda_version="13.1",driver_version="590.48.01",index="4",name="NVIDIA H100 80GB HBM3",pci_bus_id="00000000:00:09.0",uuid="{UUID}"}} 1
        nvidia_smi_memory_free_bytes{{uuid="{UUID}"}} 6.4238911488e+10
        nvidia_smi_memory_reserved_bytes{{uuid="{UUID}"}} 5.02267904e+08
        nvidia_smi_memory_total_bytes{{uuid="{UUID}"}} 8.5520809984e+10
        nvidia_smi_memory_used_bytes{{uuid="{UUID}"}} 2.0780679168e+10
        nvidia_smi_temperature_gpu{{uuid="{UUID}"}} 59
        nvidia_smi_utilization_gpu_ratio{{uuid="{UUID}"}} 1
        nvidia_smi_compute_app_used_memory_bytes{{pid="11327",process_name="/root/tools/memhog",uuid="{UUID}"}} 2.690646016e+09
        nvidia_smi_mig_memory_used_bytes{{gpu_instance_id="3",uuid="{UUID}"}} 1.0e+09
        nvidia_smi_mig_memory_total_bytes{{gpu_instance_id="3",uuid="{UUID}"}} 1.0e+10
        nvidia_smi_mig_memory_reserved_bytes{{gpu_instance_id="3",uuid="{UUID}"}} 1.0e+09
        nvidia_smi_last_collect_success_timestamp_seconds{{}} {}"#,
        NOW - 90.0
    );
    let found = read(scraped(r#"job="nvidia",instance="10.0.0.3:9835""#, &text));
    assert_eq!(names(&found), ["10.0.0.3"]);
    let (gpu, instance) = (&devices(&found[0])[0], &devices(&found[0])[1]);
    assert_eq!((gpu.index, gpu.uuid.known().unwrap().as_str()), (4, format!("GPU-{UUID}").as_str()));
    assert_eq!(gpu.memory.total_bytes.value(), Some(Bytes(85_520_809_984)));
    assert_eq!(gpu.utilization_percent.value(), Some(100));
    assert_eq!((gpu.processes[0].pid, gpu.processes[0].proved), (11327, false));
    assert_eq!(gpu.processes[0].used_bytes.value(), Some(Bytes(2_690_646_016)));
    assert_eq!((instance.index, instance.nature), (4, Some(Nature::MigInstance)));
    assert_eq!(instance.memory.free_bytes.value(), Some(Bytes(8_000_000_000)));
    // Scraped 12 s ago, but the exporter had asked the driver long before.
    assert_eq!(found[0].age, Some(Duration::from_secs(90)));
}

/// all-smi's labels until 2025, and since then.
#[test]
fn all_smi_names_its_machine_and_tells_no_free_memory() {
    for (uuid, index) in [("uuid", "index"), ("gpu_uuid", "gpu_index")] {
        let labels = format!(r#"gpu="NVIDIA A100",exported_instance="gpu-4",{uuid}="GPU-9",{index}="1""#);
        let text = format!(
            "all_smi_gpu_memory_used_bytes{{{labels}}} 8589934592\nall_smi_gpu_memory_total_bytes{{{labels}}} 42949672960\n\
             all_smi_gpu_utilization{{{labels}}} 42.5"
        );
        let found = read(scraped(r#"job="a",instance="10.0.0.4:9090""#, &text));
        assert_eq!(names(&found), ["gpu-4"]);
        let device = &devices(&found[0])[0];
        assert_eq!((device.index, device.name.known().unwrap().as_str()), (1, "NVIDIA A100"));
        assert_eq!(device.memory.total_bytes.value(), Some(Bytes::gib(40)));
        assert!(device.memory.free_bytes.reason().unwrap().contains("≤ 32.0 GiB"), "{:?}", device.memory.free_bytes);
    }
}

/// python/ray/dashboard/modules/reporter/gpu_providers.py of Ray, read in November 2026.
#[test]
fn rays_number_of_an_instance_holds_that_of_its_gpu() {
    let labels = r#"ip="10.0.0.5",GpuIndex="2001",GpuDeviceName="NVIDIA A100-SXM4-40GB MIG 1g.5gb""#;
    let text = format!("ray_node_gram_used{{{labels}}} 1024\nray_node_gpus_utilization{{{labels}}} -1");
    let found = read(scraped(r#"job="ray",instance="10.0.0.5:44217""#, &text));
    let device = &devices(&found[0])[0];
    assert_eq!((device.index, device.nature), (2, Some(Nature::MigInstance)));
    assert_eq!(device.utilization_percent, Reading::NotAvailable);
}

/// The same folder; the unit is MiB, although bytes are declared.
#[test]
fn ray_counts_in_mib_and_its_figures_add_up() {
    let labels = r#"ip="10.0.0.5",GpuIndex="0",GpuDeviceName="NVIDIA H100",SessionName="s",Version="2.53""#;
    let text = format!("ray_node_gram_used{{{labels}}} 1024\nray_node_gram_available{{{labels}}} 80535");
    let ray = scraped(r#"job="ray",instance="10.0.0.5:44217""#, &text);
    let found = read(ray.clone());
    assert_eq!(names(&found), ["10.0.0.5"]);
    assert_eq!(devices(&found[0])[0].memory.total_bytes.value(), Some(Bytes::mib(81559)));
    // The same GPU, as DCGM shows it on the same machine.
    let both = scraped(r#"job="dcgm",instance="10.0.0.5:9400""#, &dcgm(0, "", "1030", "80000"));
    let found = read([ray, both].concat());
    assert_eq!(names(&found), ["gpu-1"]);
    assert_eq!(devices(&found[0]).len(), 1);
    assert_eq!(devices(&found[0])[0].memory.used_bytes.value(), Some(Bytes::mib(1030)));
}

#[test]
fn machines_behind_one_address_stay_apart() {
    let gpu = |host: &str, uuid: &str| {
        format!(r#"DCGM_FI_DEV_FB_USED{{gpu="0",UUID="GPU-{uuid}",Hostname="{host}"}} 1"#) + "\n"
    };
    let found = read(scraped(TARGET, &(gpu("gpu-1", "1a") + &gpu("gpu-2", "2a"))));
    assert_eq!(names(&found), ["gpu-1", "gpu-2"]);
}

#[test]
fn figures_that_no_gpu_can_have_are_unknown() {
    for value in ["-1", "9223372036854775792", "NaN", "1e300"] {
        let found = read(scraped(TARGET, &dcgm(0, "", value, "500")));
        let used = found.first().map(|reading| devices(reading)[0].memory.used_bytes.clone());
        assert!(used.is_none_or(|used| used == Reading::NotAvailable), "{value}");
    }
}

#[test]
fn a_machine_whose_exporter_fell_silent_is_one_line() {
    let current = scraped(TARGET, &dcgm(0, "", "1", "2"));
    let gone = r#"gpu="0",UUID="GPU-9a",hostname="gpu-9",job="dcgm",instance="10.0.0.9:9400""#;
    let silent = scraped(gone, "DCGM_FI_DEV_FB_USED{} 1\n");
    // GPU 1 of a machine that answers: a second exporter there is down.
    let silent =
        [silent, scraped(r#"hostname="gpu-1",instance="10.0.0.1:9100""#, "DCGM_FI_DEV_FB_USED{} 1\n")].concat();
    let found = readings(&Answers { current, silent, ..Answers::default() });
    assert_eq!(names(&found), ["gpu-1", "gpu-9"]);
    assert!(found[1].seen.is_err());
}

/// Labels that matter, with any values, on metrics that matter.
fn any_samples() -> impl Strategy<Value = Vec<Sample>> {
    let metrics: Vec<&str> = FAMILIES.iter().flat_map(|family| family.metrics).map(|metric| metric.name).collect();
    let names = [
        "gpu",
        "UUID",
        "uuid",
        "gpu_uuid",
        "GpuIndex",
        "gpu_index",
        "index",
        "GPU_I_ID",
        "mig_uuid",
        "instance",
        "job",
        "Hostname",
        "hostname",
        "exported_instance",
        "node",
        "pod",
        "exported_pod",
        "namespace",
        "container",
        "hpc_job",
        "pid",
        "process_name",
        "modelName",
        "ip",
    ];
    let value = prop_oneof![any::<String>(), "[01]", "(GPU-)?[ab]", "10\\.0\\.0\\.[12](:9400)?", "\\PC{0,4}"];
    let labels = btree_map(proptest::sample::select(names.to_vec()).prop_map(str::to_owned), value, 0..8);
    let number = prop_oneof![any::<f64>(), 0.0..100_000.0];
    let sample = (proptest::sample::select(metrics), labels, any::<f64>(), number)
        .prop_map(|(metric, labels, evaluated, value)| Sample { metric: metric.to_owned(), labels, evaluated, value });
    vec(sample, 0..24)
}

proptest! {
    #[test]
    fn any_samples_become_harmless_readings(current in any_samples(), more in any_samples(), offset in -1e10..1e10) {
        let answers = Answers {
            taken: taken(&current, offset),
            idle: vec![(WINDOWS[0], more.clone()), (WINDOWS[1], current.clone())],
            targets: more.clone(),
            silent: more,
            current,
        };
        let found = readings(&answers);
        for reading in &found {
            prop_assert!(reading.name.as_str().parse::<HostName>().is_ok(), "{:?}", reading.name);
            let names = reading.users.iter().filter_map(|user| user.name.as_deref());
            prop_assert!(names.flat_map(str::chars).all(|character| !is_harmful(character)));
            let count = reading.snapshot().map_or(0, |snapshot| snapshot.devices.len());
            prop_assert!(reading.users.iter().all(|user| user.device < count));
            prop_assert_eq!(reading.snapshot().cloned(), reading.snapshot().cloned().map(Snapshot::harmless));
        }
        // A machine appears once.
        let mut names = names(&found);
        names.dedup();
        prop_assert_eq!(names.len(), found.len());
    }

    #[test]
    fn no_bytes_make_an_answer_panic(status in 0_u16..700, body in vec(any::<u8>(), 0..200), cut in 0_usize..200) {
        let _ = understood(status, None, &body);
        let whole = br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"ray_node_gram_used","GpuIndex":"0"},"value":[1795176000.5,"1.5e3"]}]},"warnings":["x"]}"#;
        let mut changed = whole.to_vec();
        if let (Some(byte), Some(new)) = (changed.get_mut(cut), body.first()) {
            *byte = *new;
        }
        if let Ok(told) = understood(status, None, &changed) {
            let _ = readings(&Answers { current: told.samples, ..Answers::default() });
        }
    }
}
