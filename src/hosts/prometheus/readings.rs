//! Owns which machines and GPUs the samples of a Prometheus server describe. The same GPU may be shown by several exporters,
//! by one exporter before and after a restart, and once for each pod that shares it: it is one GPU here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;

use super::answer::{Labels, Sample};
use super::families::{FAMILIES, Metric, Role, Window, known};
use crate::gpu::{Device, DeviceMemory, Driver, GpuProcess, Host, Nature, ProcessKind, Reading, Snapshot};
use crate::hosts::{DeviceUser, HostName, HostReading, Through, Unavailable};
use crate::text::harmless;
use crate::units::{Bytes, WallTime, whole};

/// Who uses less of an idle GPU takes nothing away from anyone: a driver's context alone has some hundred MiB.
const WORTH_NAMING: Bytes = Bytes::gib(1);
/// No GPU has more memory. DCGM's marks for "no value" lie above.
const IMPLAUSIBLE: f64 = (1_u64 << 50) as f64;
/// A foreign name is shown up to so many characters.
const LONGEST_NAME: usize = 120;
/// No machine has more GPUs and MIG instances; more than these are left out.
const MOST_GPUS: usize = 512;
/// Samples of one scrape have the same time.
const SAME_SCRAPE: f64 = 0.5;

/// What the server said, all as of one moment.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    pub current: Vec<Sample>,
    /// Each value is the time at which the figure with these labels was taken.
    pub taken: Vec<Sample>,
    /// The GPUs that were idle over a window, the shortest window first.
    pub idle: Vec<(Window, Vec<Sample>)>,
    pub targets: Vec<Sample>,
    pub silent: Vec<Sample>,
}

/// The machines, in the order of their names.
pub fn readings(answers: &Answers) -> Vec<HostReading> {
    let context = Context::of(answers);
    let mut machines = Machines::default();
    for card in cards(answers, &context) {
        machines.take(card);
    }
    let mut readings: Vec<HostReading> =
        machines.machines.iter().map(|machine| machine.reading(answers, &context)).collect();
    readings.extend(silent(answers, &context, &machines));
    readings.sort_by(|one, other| one.name.cmp(&other.name));
    readings
}

/// Machines whose exporter has fallen silent within the hour.
fn silent(answers: &Answers, context: &Context, machines: &Machines) -> Vec<HostReading> {
    let origins = answers.silent.iter().map(|sample| Origin::of(&sample.labels, context));
    let unseen = origins.filter(|origin| machines.position(origin).is_none());
    let names: BTreeSet<HostName> = unseen.map(|origin| HostName::nearest(&origin.name)).collect();
    let why = Unavailable {
        why: "its GPU exporter does not answer Prometheus".to_owned(),
        what_to_do: Some("check that the machine is up".to_owned()),
    };
    let reading = |name| HostReading::unavailable(name, Through::Prometheus, why.clone());
    names.into_iter().map(reading).collect()
}

/// What a scrape asks: the labels `job` and `instance`.
type Target<'a> = (&'a str, &'a str);

/// What is known beside the figures.
struct Context<'a> {
    /// The labels that Prometheus gave to each exporter.
    targets: HashMap<Target<'a>, &'a Labels>,
    taken: HashMap<&'a Labels, f64>,
    idle: HashMap<(CardKey<'a>, Option<String>), Duration>,
    /// The labels that name a GPU, where its figures do not.
    infos: HashMap<CardKey<'a>, &'a Labels>,
    indices: HashMap<CardKey<'a>, u32>,
    collected: HashMap<Target<'a>, f64>,
    /// By the GPU's UUID.
    processes: HashMap<(String, Option<&'a str>), Vec<GpuProcess>>,
}

impl<'a> Context<'a> {
    fn of(answers: &'a Answers) -> Context<'a> {
        let targets = answers.targets.iter().map(|sample| (target(&sample.labels), &sample.labels)).collect();
        let mut context = Context {
            targets,
            taken: answers.taken.iter().map(|sample| (&sample.labels, sample.value)).collect(),
            idle: HashMap::new(),
            infos: HashMap::new(),
            indices: HashMap::new(),
            collected: HashMap::new(),
            processes: HashMap::new(),
        };
        for (window, samples) in &answers.idle {
            for sample in samples {
                let Some(key) = CardKey::of(&sample.labels) else { continue };
                context.idle.insert((key, context.user(&sample.labels)), window.length());
            }
        }
        for sample in &answers.current {
            let Some((_, metric)) = known(&sample.metric) else { continue };
            context.note(metric, sample);
        }
        context
    }

    fn note(&mut self, metric: &Metric, sample: &'a Sample) {
        if metric.role == Role::Collected {
            self.collected.insert(target(&sample.labels), sample.value);
            return;
        }
        let Some(key) = CardKey::of(&sample.labels) else { return };
        match metric.role {
            Role::Info => {
                self.infos.insert(key, &sample.labels);
            }
            Role::Index => {
                if let Some(index) = small(sample.value, 0.0..1024.0) {
                    self.indices.insert(key, index);
                }
            }
            Role::Process => {
                let processes = self.processes.entry((key.gpu, key.instance)).or_default();
                processes.extend(process(sample, metric.unit));
            }
            _ => {}
        }
    }

    /// The pod or the job that these labels name. A pod that Prometheus knows as the exporter's own uses no GPU.
    fn user(&self, labels: &Labels) -> Option<String> {
        let own = self.targets.get(&target(labels)).and_then(|own| label(own, &["pod"]));
        let told = label(labels, &["exported_pod", "pod_name"]);
        let scraped = label(labels, &["pod"]).filter(|pod| Some(*pod) != own && !pod.contains("dcgm-exporter"));
        if let Some(pod) = told.or(scraped) {
            let namespace = label(labels, &["exported_namespace", "pod_namespace", "namespace"]);
            let container = label(labels, &["exported_container", "container_name", "container"]);
            let namespace = namespace.map(|name| format!("{name}/")).unwrap_or_default();
            let container = container.map(|name| format!(" ({name})")).unwrap_or_default();
            return Some(clean(&format!("pod {namespace}{pod}{container}")));
        }
        label(labels, &["hpc_job", "exported_hpc_job"]).map(|job| clean(&format!("job {job}")))
    }
}

/// The figures of one GPU by one exporter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct CardKey<'a> {
    target: Target<'a>,
    /// The machine's name for itself, where one target tells of several.
    host: Option<&'a str>,
    /// Its UUID without "GPU-", or # and its index.
    gpu: String,
    /// The MIG instance.
    instance: Option<&'a str>,
}

impl<'a> CardKey<'a> {
    /// `None` where the labels name no GPU.
    fn of(labels: &'a Labels) -> Option<CardKey<'a>> {
        let gpu = match uuid(labels) {
            Some(uuid) => bare(uuid),
            None => format!("#{}", label(labels, &["GpuIndex", "gpu_index", "index", "gpu"])?),
        };
        let instance = label(labels, &["mig_uuid", "GPU_I_ID", "gpu_instance_id"]);
        Some(CardKey { target: target(labels), host: label(labels, &HOST_LABELS), gpu, instance })
    }

    fn is_uuid(&self) -> bool {
        !self.gpu.starts_with('#')
    }
}

/// How exporters call the machine that they run on. dcgm-exporter wrote "Hostname" until May 2026.
const HOST_LABELS: [&str; 3] = ["Hostname", "hostname", "exported_instance"];
/// How Prometheus calls the machine of a target, as its configuration has it.
const NODE_LABELS: [&str; 5] = ["node", "kubernetes_node", "nodename", "node_name", "host"];

/// The machine that a figure is of.
struct Origin {
    name: String,
    /// Whether the name is only the address at which the exporter was asked.
    is_address: bool,
    /// Other names that lead there.
    addresses: Vec<String>,
}

impl Origin {
    fn of(labels: &Labels, context: &Context) -> Origin {
        let own = context.targets.get(&target(labels)).and_then(|own| label(own, &["pod"]));
        // An exporter in a pod may take the pod's name for the machine's.
        let is_pod = |name: &&str| {
            Some(*name) == own || Some(*name) == label(labels, &["pod"]) || name.contains("dcgm-exporter-")
        };
        let named = label(labels, &HOST_LABELS).filter(|name| !is_pod(name)).or_else(|| label(labels, &NODE_LABELS));
        let address = label(labels, &["instance"]).map(without_port);
        let addresses = [address, label(labels, &["ip"])].into_iter().flatten();
        let leads_there = |address: &&str| {
            !address.eq_ignore_ascii_case("localhost") && !address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        };
        Origin {
            name: HostName::nearest(named.map(without_port).or(address).unwrap_or_default()).to_string(),
            is_address: named.is_none(),
            addresses: addresses.filter(leads_there).map(str::to_lowercase).collect(),
        }
    }
}

/// A GPU or a MIG instance.
struct Card<'a> {
    key: CardKey<'a>,
    origin: Origin,
    family: usize,
    /// Of the last figure of used memory.
    labels: &'a Labels,
    figures: BTreeMap<Role, f64>,
    /// When its oldest figure was taken, in seconds of the server's clock.
    taken: Option<f64>,
    users: BTreeSet<Option<String>>,
}

/// All GPUs as each exporter shows them, the best exporter's and then the latest first.
fn cards<'a>(answers: &'a Answers, context: &Context<'a>) -> Vec<Card<'a>> {
    let mut samples: BTreeMap<CardKey, Vec<(usize, &Metric, &Sample)>> = BTreeMap::new();
    for sample in &answers.current {
        let Some((family, metric)) = known(&sample.metric) else { continue };
        let is_figure = !matches!(metric.role, Role::Info | Role::Index | Role::Collected | Role::Process);
        if let Some(key) = CardKey::of(&sample.labels).filter(|_| is_figure) {
            samples.entry(key).or_default().push((family, metric, sample));
        }
    }
    let mut cards: Vec<Card> = samples.into_iter().filter_map(|(key, samples)| card(key, &samples, context)).collect();
    cards.sort_by(|one, other| {
        let taken = |card: &Card| card.taken.unwrap_or_default();
        one.family.cmp(&other.family).then(taken(other).total_cmp(&taken(one)))
    });
    cards
}

/// `None` where nothing tells how much of its memory is in use.
fn card<'a>(key: CardKey<'a>, samples: &[(usize, &Metric, &'a Sample)], context: &Context<'a>) -> Option<Card<'a>> {
    let of_role = |role| samples.iter().filter(move |(_, metric, _)| metric.role == role);
    let taken_of = |sample: &Sample| context.taken.get(&sample.labels).copied();
    let last = of_role(Role::Used).filter_map(|(_, _, sample)| taken_of(sample)).max_by(f64::total_cmp);
    // Series of a pod that has ended may still be answered for some minutes.
    let is_last = |sample: &Sample| last.is_none_or(|last| taken_of(sample).is_some_and(|at| last - at < SAME_SCRAPE));
    let used: Vec<_> = of_role(Role::Used).filter(|(_, _, sample)| is_last(sample)).collect();
    let (family, _, first) = used.first()?;
    let users: BTreeSet<Option<String>> = used.iter().map(|(_, _, sample)| context.user(&sample.labels)).collect();
    let mut figures = BTreeMap::new();
    for role in [Role::Used, Role::Free, Role::Total, Role::Reserved, Role::Utilization, Role::Temperature, Role::Power]
    {
        let stand_in = FAMILIES.get(*family).and_then(|family| family.stand_in);
        let mut all: Vec<_> = of_role(role).collect();
        prefer(&mut all, |(_, metric, _)| stand_in != Some(metric.name));
        prefer(&mut all, |(_, _, sample)| users.contains(&context.user(&sample.labels)));
        if role == Role::Used {
            prefer(&mut all, |(_, _, sample)| is_last(sample));
        }
        let values = all.iter().map(|(_, metric, sample)| sample.value * metric.unit);
        // Where copies of a series disagree, no more is promised than each of them has.
        let value = if role == Role::Free { values.min_by(f64::total_cmp) } else { values.max_by(f64::total_cmp) };
        figures.extend(value.map(|value| (role, value)));
    }
    let collected = context.collected.get(&key.target).copied();
    // An exporter may answer scrapes with figures from before.
    let taken = last.map(|last| collected.filter(|at| *at > 0.0).map_or(last, |collected| last.min(collected)));
    let labels = &first.labels;
    Some(Card { origin: Origin::of(labels, context), key, family: *family, labels, figures, taken, users })
}

/// Drops what does not fulfill the condition, unless nothing does.
fn prefer<T>(all: &mut Vec<T>, condition: impl Fn(&T) -> bool) {
    if all.iter().any(&condition) {
        all.retain(condition);
    }
}

#[derive(Default)]
struct Machines<'a> {
    machines: Vec<Machine<'a>>,
    /// The position of each by its names and addresses.
    positions: HashMap<String, usize>,
    /// The machine of each GPU that was taken, by UUID and MIG instance.
    seen: HashMap<(String, Option<&'a str>), usize>,
}

struct Machine<'a> {
    name: String,
    cards: Vec<Card<'a>>,
}

impl<'a> Machines<'a> {
    /// The machine is found by its name; by its address only where it has no other name, for a gateway's address stands for many.
    fn position(&self, origin: &Origin) -> Option<usize> {
        let by_address = origin.addresses.iter().filter(|_| origin.is_address);
        let own = origin.name.to_lowercase();
        std::iter::once(&own).chain(by_address).find_map(|name| self.positions.get(name)).copied()
    }

    fn take(&mut self, card: Card<'a>) {
        let identity = (card.key.gpu.clone(), card.key.instance);
        let seen = self.seen.get(&identity).filter(|_| card.key.is_uuid()).copied();
        let position = seen.or_else(|| self.position(&card.origin)).unwrap_or(self.machines.len());
        for name in std::iter::once(card.origin.name.to_lowercase()).chain(card.origin.addresses.iter().cloned()) {
            self.positions.entry(name).or_insert(position);
        }
        if seen.is_some() {
            return;
        }
        self.seen.insert(identity, position);
        match self.machines.get_mut(position) {
            Some(machine) => machine.take(card),
            None => self.machines.push(Machine { name: card.origin.name.clone(), cards: vec![card] }),
        }
    }
}

impl<'a> Machine<'a> {
    /// Takes a GPU, unless it has no UUID and may be one that is there.
    fn take(&mut self, card: Card<'a>) {
        let is_same =
            |other: &Card| other.key.instance == card.key.instance && index(other.labels) == index(card.labels);
        let is_new = card.key.is_uuid() || !self.cards.iter().any(is_same);
        if is_new && self.cards.len() < MOST_GPUS {
            self.cards.push(card);
        }
    }

    fn reading(&self, answers: &Answers, context: &Context) -> HostReading {
        let mut indices: Vec<Option<u32>> = self.cards.iter().map(|card| card.index(context)).collect();
        number_the_others(&self.cards, &mut indices);
        let mut order: Vec<(u32, &Card)> =
            indices.into_iter().map(Option::unwrap_or_default).zip(&self.cards).collect();
        order.sort_by(|(one, first), (other, second)| {
            one.cmp(other).then_with(|| first.key.instance.cmp(&second.key.instance))
        });
        let devices: Vec<Device> = order.iter().map(|(index, card)| card.device(*index, self, context)).collect();
        let users = order
            .iter()
            .zip(&devices)
            .enumerate()
            .flat_map(|(position, ((_, card), device))| card.users(position, device, context));
        let users = users.collect();
        let evaluated = answers.current.first().map(|sample| sample.evaluated);
        let taken = self.cards.iter().filter_map(|card| card.taken).min_by(f64::total_cmp);
        let age = evaluated.zip(taken).map(|(now, taken)| (now - taken).max(0.0));
        let taken_at = taken.or(evaluated).and_then(moment).unwrap_or(WallTime(Timestamp::UNIX_EPOCH));
        let name = HostName::nearest(&self.name);
        let snapshot = Snapshot {
            taken_at,
            host: Host { name: clean(&self.name), ..Host::default() },
            driver: self.driver(context),
            devices,
            holders: Vec::new(),
            launchers: Vec::new(),
            unseen_processes: 0,
            seen_from: Vec::new(),
        };
        HostReading {
            name,
            also: Vec::new(),
            boot_id: None,
            through: Through::Prometheus,
            seen: Ok((Box::new(snapshot.harmless()), None)),
            age: age.and_then(|age| Duration::try_from_secs_f64(age).ok()),
            users,
            allotment: None,
        }
    }

    fn driver(&self, context: &Context) -> Driver {
        let told = |names: &[&str]| self.cards.iter().find_map(|card| card.told(names, context)).map(clean);
        let version = told(&["DCGM_FI_DRIVER_VERSION", "driver_version"]).unwrap_or_default();
        Driver::Available { version, cuda_version: told(&["cuda_version"]) }
    }
}

/// Gives GPUs whose index nobody tells a free number, an instance that of its GPU.
fn number_the_others(cards: &[Card], indices: &mut [Option<u32>]) {
    let mut taken: BTreeSet<u32> = indices.iter().flatten().copied().collect();
    let mut of_gpu: HashMap<&str, u32> = HashMap::new();
    for (card, index) in cards.iter().zip(indices.iter()) {
        of_gpu.extend(index.map(|index| (card.key.gpu.as_str(), index)));
    }
    for (card, index) in cards.iter().zip(indices) {
        let next = || (0..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX);
        let number = index.unwrap_or_else(|| of_gpu.get(card.key.gpu.as_str()).copied().unwrap_or_else(next));
        of_gpu.insert(&card.key.gpu, number);
        taken.insert(number);
        *index = Some(number);
    }
}

impl Card<'_> {
    /// What its labels tell, or those that describe its GPU.
    fn told<'b>(&'b self, names: &[&str], context: &'b Context) -> Option<&'b str> {
        let info = context.infos.get(&self.gpu_key()).copied();
        label(self.labels, names).or_else(|| label(info?, names))
    }

    /// The same for the whole GPU.
    fn gpu_key(&self) -> CardKey<'_> {
        CardKey { instance: None, ..self.key.clone() }
    }

    fn index(&self, context: &Context) -> Option<u32> {
        let info = context.infos.get(&self.gpu_key()).copied();
        let counted = context.indices.get(&self.gpu_key()).copied();
        let index = index(self.labels).or_else(|| index(info?)).or(counted);
        if self.is_rays_instance() { index.map(|index| index / 1000) } else { index }
    }

    /// Whether this is a MIG instance as Ray shows it: its index is 1000 times the GPU's plus its own, its name tells that.
    fn is_rays_instance(&self) -> bool {
        label(self.labels, &["GpuDeviceName"]).is_some_and(|name| name.contains(" MIG "))
    }

    fn device(&self, index: u32, machine: &Machine, context: &Context) -> Device {
        let is_split = |other: &Card| other.key.gpu == self.key.gpu && other.key.instance.is_some();
        let nature = match self.key.instance {
            Some(_) => Some(Nature::MigInstance),
            None if self.is_rays_instance() => Some(Nature::MigInstance),
            None => machine.cards.iter().any(is_split).then_some(Nature::Split),
        };
        let name = self.told(&["modelName", "GpuDeviceName", "name", "gpu"], context);
        let name = name.filter(|name| name.parse::<u32>().is_err()).map(|name| {
            let profile = label(self.labels, &["GPU_I_PROFILE", "mig_profile", "profile"]);
            clean(&profile.map_or_else(|| name.to_owned(), |profile| format!("{name} MIG {profile}")))
        });
        let uuid = match self.key.instance {
            // The label of DCGM is its GPU's.
            Some(_) => label(self.labels, &["mig_uuid"]).map(clean),
            None => uuid(self.labels).map(full_uuid),
        };
        let identity = (self.key.gpu.clone(), self.key.instance);
        let figure = |role| self.figures.get(&role).copied();
        Device {
            index,
            memory: self.memory(),
            processes: context.processes.get(&identity).cloned().unwrap_or_default(),
            nature,
            uuid: reading(uuid),
            bus_id: reading(self.told(&["pci_bus_id"], context).map(clean)),
            name: reading(name),
            utilization_percent: reading(figure(Role::Utilization).and_then(|value| small(value, 0.0..100.5))),
            temperature_celsius: reading(figure(Role::Temperature).and_then(|value| small(value, 1.0..200.0))),
            power_watts: reading(figure(Role::Power).and_then(|value| small(value, 0.0..100_000.0))),
            ..Device::default()
        }
    }

    fn memory(&self) -> DeviceMemory {
        let figure = |role| self.figures.get(&role).copied().and_then(bytes);
        let (used, free) = (figure(Role::Used), figure(Role::Free));
        let (total, reserved) = (figure(Role::Total), figure(Role::Reserved));
        let both = used.zip(free).map(|(used, free)| used.plus(free));
        let adds_up = FAMILIES.get(self.family).is_some_and(|family| family.adds_up);
        let summed = both.zip(reserved.or(adds_up.then_some(Bytes::ZERO))).map(|(both, reserved)| both.plus(reserved));
        let total_bytes = match (total.or(summed), both) {
            (Some(total), _) => Reading::Known(total),
            (None, Some(both)) => Reading::Failed(format!("the exporter tells no total; used and free make ≥ {both}")),
            (None, None) => Reading::NotAvailable,
        };
        let most_free = total.zip(used).map(|(total, used)| total.less(used));
        let free_bytes = match (free, most_free, reserved) {
            (Some(free), ..) => Reading::Known(free),
            (None, Some(most), Some(reserved)) => Reading::Known(most.less(reserved)),
            (None, Some(most), None) => {
                Reading::Failed(format!("the exporter tells no free memory; total less used is ≤ {most}"))
            }
            _ => Reading::NotAvailable,
        };
        DeviceMemory { total_bytes, reserved_bytes: reading(reserved), used_bytes: reading(used), free_bytes }
    }

    fn users(&self, position: usize, device: &Device, context: &Context) -> Vec<DeviceUser> {
        let is_worth_naming = device.memory.used_bytes.value().is_some_and(|used| used > WORTH_NAMING);
        let users = self.users.iter().map(|name| DeviceUser {
            device: position,
            name: name.clone(),
            idle_for: context.idle.get(&(self.key.clone(), name.clone())).copied(),
        });
        let is_told = |user: &DeviceUser| match user.name {
            Some(_) => true,
            None => user.idle_for.is_some() && is_worth_naming && self.users.len() == 1,
        };
        users.filter(is_told).collect()
    }
}

/// A process of nvidia_gpu_exporter. Its start is unknown, so it is never more than shown.
fn process(sample: &Sample, unit: f64) -> Option<GpuProcess> {
    let pid = label(&sample.labels, &["pid"])?.parse().ok()?;
    let command = label(&sample.labels, &["process_name"]).map(clean);
    let used_bytes = reading(bytes(sample.value * unit));
    Some(GpuProcess { pid, kind: ProcessKind::Compute, used_bytes, command: reading(command), ..GpuProcess::default() })
}

fn target(labels: &Labels) -> Target<'_> {
    (label(labels, &["job"]).unwrap_or_default(), label(labels, &["instance"]).unwrap_or_default())
}

/// The first of these labels that has a value.
fn label<'a>(labels: &'a Labels, names: &[&str]) -> Option<&'a str> {
    names.iter().filter_map(|name| labels.get(*name)).map(String::as_str).find(|value| !value.is_empty())
}

fn uuid(labels: &Labels) -> Option<&str> {
    label(labels, &["UUID", "uuid", "gpu_uuid"])
}

fn index(labels: &Labels) -> Option<u32> {
    // all-smi's label `gpu` is the name of the GPU.
    ["GpuIndex", "gpu_index", "index", "gpu"].iter().find_map(|name| label(labels, &[name])?.parse().ok())
}

/// A UUID as all exporters have it: nvidia_gpu_exporter cuts "GPU-" off.
fn bare(uuid: &str) -> String {
    let lower = uuid.to_ascii_lowercase();
    lower.strip_prefix("gpu-").map(str::to_owned).unwrap_or(lower)
}

fn full_uuid(uuid: &str) -> String {
    let is_bare = uuid.len() == 36 && uuid.chars().all(|character| character.is_ascii_hexdigit() || character == '-');
    clean(&if is_bare { format!("GPU-{uuid}") } else { uuid.to_owned() })
}

fn without_port(address: &str) -> &str {
    match address.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')) => host,
        _ => address,
    }
}

fn clean(text: &str) -> String {
    let start: String = text.chars().take(LONGEST_NAME).collect();
    harmless(&start).into_owned()
}

fn reading<T>(value: Option<T>) -> Reading<T> {
    value.map_or(Reading::NotAvailable, Reading::Known)
}

fn bytes(value: f64) -> Option<Bytes> {
    (0.0..IMPLAUSIBLE).contains(&value).then(|| Bytes(whole(value)))
}

/// A figure in this range, rounded.
fn small(value: f64, range: std::ops::Range<f64>) -> Option<u32> {
    range.contains(&value).then(|| u32::try_from(whole(value)).ok()).flatten()
}

/// A moment of so many seconds since 1970.
fn moment(seconds: f64) -> Option<WallTime> {
    let milliseconds = i64::try_from(whole(seconds * 1000.0)).ok()?;
    Timestamp::from_millisecond(milliseconds).ok().map(WallTime)
}

#[cfg(test)]
mod tests;
