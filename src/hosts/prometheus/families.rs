//! Owns what exporters call the figures of a GPU, and the queries that ask for them. The names were checked in September to
//! November 2026 in dcgm-exporter 4.5.3, nvidia_gpu_exporter 1.14.0, all-smi (main of 2026) and Ray 2.5x.

use std::time::Duration;

/// A figure of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Used,
    Free,
    Total,
    Reserved,
    Utilization,
    Temperature,
    Power,
    /// Always 1: its labels name the GPU.
    Info,
    /// The driver's index.
    Index,
    /// When the exporter asked the driver last, in seconds of the exporter's clock.
    Collected,
    /// The memory of a process, which its labels name.
    Process,
}

#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub role: Role,
    /// What one of its units is in bytes, percent, degrees or watts.
    pub unit: f64,
}

/// The metrics of one exporter.
#[derive(Debug)]
pub struct Family {
    /// Its name for people.
    pub exporter: &'static str,
    pub metrics: &'static [Metric],
    /// A metric that is used where a GPU has no other of its role: MIG instances have no DCGM_FI_DEV_GPU_UTIL.
    pub stand_in: Option<&'static str>,
    /// Whether its free memory is total minus used by its own arithmetic, so that both add up to the total.
    pub adds_up: bool,
}

const MIB: f64 = 1_048_576.0;

const fn metric(role: Role, unit: f64, name: &'static str) -> Metric {
    Metric { name, role, unit }
}

/// The exporters, the one with the most precise figures first: it wins where several watch a GPU.
pub static FAMILIES: [Family; 4] = [
    Family {
        exporter: "DCGM exporter",
        metrics: &[
            metric(Role::Used, MIB, "DCGM_FI_DEV_FB_USED"),
            metric(Role::Free, MIB, "DCGM_FI_DEV_FB_FREE"),
            // In the default list since 4.3.1 (August 2025).
            metric(Role::Reserved, MIB, "DCGM_FI_DEV_FB_RESERVED"),
            metric(Role::Total, MIB, "DCGM_FI_DEV_FB_TOTAL"),
            metric(Role::Utilization, 1.0, "DCGM_FI_DEV_GPU_UTIL"),
            metric(Role::Utilization, 100.0, "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
            metric(Role::Temperature, 1.0, "DCGM_FI_DEV_GPU_TEMP"),
            metric(Role::Power, 1.0, "DCGM_FI_DEV_POWER_USAGE"),
        ],
        stand_in: Some("DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
        adds_up: false,
    },
    Family {
        exporter: "nvidia_gpu_exporter",
        metrics: &[
            metric(Role::Used, 1.0, "nvidia_smi_memory_used_bytes"),
            metric(Role::Free, 1.0, "nvidia_smi_memory_free_bytes"),
            metric(Role::Total, 1.0, "nvidia_smi_memory_total_bytes"),
            metric(Role::Reserved, 1.0, "nvidia_smi_memory_reserved_bytes"),
            metric(Role::Utilization, 100.0, "nvidia_smi_utilization_gpu_ratio"),
            metric(Role::Temperature, 1.0, "nvidia_smi_temperature_gpu"),
            metric(Role::Power, 1.0, "nvidia_smi_power_draw_watts"),
            metric(Role::Info, 1.0, "nvidia_smi_gpu_info"),
            metric(Role::Index, 1.0, "nvidia_smi_index"),
            metric(Role::Collected, 1.0, "nvidia_smi_last_collect_success_timestamp_seconds"),
            metric(Role::Process, 1.0, "nvidia_smi_compute_app_used_memory_bytes"),
            metric(Role::Used, 1.0, "nvidia_smi_mig_memory_used_bytes"),
            metric(Role::Free, 1.0, "nvidia_smi_mig_memory_free_bytes"),
            metric(Role::Total, 1.0, "nvidia_smi_mig_memory_total_bytes"),
            metric(Role::Reserved, 1.0, "nvidia_smi_mig_memory_reserved_bytes"),
            metric(Role::Utilization, 100.0, "nvidia_smi_mig_graphics_activity_ratio"),
        ],
        stand_in: None,
        adds_up: false,
    },
    Family {
        exporter: "all-smi",
        metrics: &[
            metric(Role::Used, 1.0, "all_smi_gpu_memory_used_bytes"),
            metric(Role::Total, 1.0, "all_smi_gpu_memory_total_bytes"),
            metric(Role::Utilization, 1.0, "all_smi_gpu_utilization"),
            metric(Role::Temperature, 1.0, "all_smi_gpu_temperature_celsius"),
            metric(Role::Power, 1.0, "all_smi_gpu_power_consumption_watts"),
            metric(Role::Info, 1.0, "all_smi_gpu_info"),
            metric(Role::Used, 1.0, "all_smi_mig_instance_memory_used_bytes"),
            metric(Role::Total, 1.0, "all_smi_mig_instance_memory_total_bytes"),
            metric(Role::Utilization, 1.0, "all_smi_mig_instance_utilization_gpu"),
        ],
        stand_in: None,
        adds_up: false,
    },
    Family {
        exporter: "Ray",
        metrics: &[
            // Declared as bytes; Ray's own dashboards multiply both by 1024².
            metric(Role::Used, MIB, "ray_node_gram_used"),
            metric(Role::Free, MIB, "ray_node_gram_available"),
            metric(Role::Utilization, 1.0, "ray_node_gpus_utilization"),
            metric(Role::Temperature, 1.0, "ray_node_gpu_temperature_celsius"),
            metric(Role::Power, 0.001, "ray_node_gpu_power_milliwatts"),
        ],
        stand_in: None,
        adds_up: true,
    },
];

/// A metric by its name, and the position of its family.
pub fn known(name: &str) -> Option<(usize, &'static Metric)> {
    FAMILIES.iter().enumerate().find_map(|(position, family)| {
        family.metrics.iter().find(|metric| metric.name == name).map(|metric| (position, metric))
    })
}

/// The windows over which a GPU is looked at, the shortest first.
pub const WINDOWS: [Window; 2] = [Window { name: "5m", minutes: 5 }, Window { name: "1h", minutes: 60 }];

#[derive(Clone, Copy, Debug)]
pub struct Window {
    name: &'static str,
    minutes: u64,
}

impl Window {
    pub fn length(self) -> Duration {
        Duration::from_secs(self.minutes * 60)
    }
}

/// Everything that is known of GPUs now.
pub fn current() -> String {
    let names: Vec<&str> = FAMILIES.iter().flat_map(|family| family.metrics).map(|metric| metric.name).collect();
    format!("{{__name__=~\"{}\"}}", names.join("|"))
}

/// When the figures were taken. The time of an instant value is only when the query was evaluated.
pub fn taken(is_there: impl Fn(&str) -> bool) -> String {
    any_of(&is_there, Role::Used, |metric, _| format!("timestamp({metric})"))
}

/// The GPUs at which every scrape of the window saw no activity. Those whose figures do not cover the window are left out: the
/// exporter has to be there at its start, and as densely before as in the last five minutes.
pub fn idle(window: Window, is_there: impl Fn(&str) -> bool) -> String {
    let (name, shortest) = (window.name, WINDOWS[0]);
    let times = window.minutes / shortest.minutes;
    any_of(&is_there, Role::Utilization, |metric, first| {
        let mut query = format!("max_over_time({metric}[{name}]) == 0 and {metric} offset {name}");
        if times > 1 {
            // Up to two scrapes of ten may be missing.
            let times = times * 8 / 10;
            query += &format!(
                " and count_over_time({metric}[{name}]) >= {times} * count_over_time({metric}[{}])",
                shortest.name
            );
        }
        if let Some(first) = first {
            query += &format!(" unless {first}");
        }
        query
    })
}

/// The exporters themselves with the labels that Prometheus gave them, such as the exporter's own pod.
pub fn targets(is_there: impl Fn(&str) -> bool) -> String {
    format!("up and on(job, instance) ({})", any_of(&is_there, Role::Used, |metric, _| metric.to_owned()))
}

/// GPUs that an exporter showed in the last hour, and whose exporter does not answer Prometheus now.
pub fn silent() -> String {
    any_of(&|_| true, Role::Used, |metric, _| format!("last_over_time({metric}[1h]) and on(job, instance) (up == 0)"))
}

/// Joins a query for each metric of a role that is there. The query of a stand-in is given the metric that it stands in for.
fn any_of(
    is_there: &impl Fn(&str) -> bool,
    role: Role,
    query: impl Fn(&'static str, Option<&'static str>) -> String,
) -> String {
    let mut queries = Vec::new();
    for family in &FAMILIES {
        let mut of_role =
            family.metrics.iter().filter(|metric| metric.role == role && is_there(metric.name)).peekable();
        let first = of_role.peek().map(|metric| metric.name);
        for metric in of_role {
            let stands_in_for = first.filter(|first| family.stand_in == Some(metric.name) && *first != metric.name);
            queries.push(query(metric.name, stands_in_for));
        }
    }
    queries.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_is_named_once() {
        let mut names: Vec<&str> =
            FAMILIES.iter().flat_map(|family| family.metrics).map(|metric| metric.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(FAMILIES.iter().all(|family| family.stand_in.is_none_or(|name| known(name).is_some())));
    }

    #[test]
    fn only_metrics_that_are_there_are_asked_for() {
        let ray = |name: &str| name.starts_with("ray_");
        assert_eq!(taken(ray), "timestamp(ray_node_gram_used)");
        let query = idle(WINDOWS[1], ray);
        assert!(query.starts_with("max_over_time(ray_node_gpus_utilization[1h]) == 0 and"), "{query}");
        assert!(!query.contains("DCGM"), "{query}");
    }

    #[test]
    fn the_activity_of_the_engine_stands_in_for_the_utilization() {
        let both = |name: &str| name.starts_with("DCGM_FI");
        assert!(idle(WINDOWS[0], both).ends_with("unless DCGM_FI_DEV_GPU_UTIL"));
        assert!(!idle(WINDOWS[0], |name| name == "DCGM_FI_PROF_GR_ENGINE_ACTIVE").contains("unless"));
    }
}
