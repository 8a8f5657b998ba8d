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

/// An unknown user of an idle GPU is told only above this: the context of a driver alone takes some hundred MiB.
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
    names.into_iter().map(|name| HostReading::unavailable(name, Through::Prometheus, why.clone())).collect()
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

    /// The pod in which the exporter of these labels runs, as Prometheus knows it.
    fn exporters_pod(&self, labels: &Labels) -> Option<&str> {
        label(self.targets.get(&target(labels))?, &["pod"])
    }

    /// The pod or the job that these labels name. A pod that Prometheus knows as the exporter's own uses no GPU.
    fn user(&self, labels: &Labels) -> Option<String> {
        let own = self.exporters_pod(labels);
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
        let own_name = label(labels, &HOST_LABELS).filter(|name| !is_name_of_a_pod(name, labels, context));
        let named = own_name.or_else(|| label(labels, &NODE_LABELS));
        let address = label(labels, &["instance"]).map(without_port);
        let addresses = [address, label(labels, &["ip"])].into_iter().flatten();
        Origin {
            name: HostName::nearest(named.map(without_port).or(address).unwrap_or_default()).to_string(),
            is_address: named.is_none(),
            addresses: addresses.filter(|address| !is_loopback(address)).map(str::to_lowercase).collect(),
        }
    }
}

/// Whether a machine's name is a pod's: an exporter in a pod may take the one for the other.
fn is_name_of_a_pod(name: &str, labels: &Labels, context: &Context) -> bool {
    let pods = [context.exporters_pod(labels), label(labels, &["pod"])];
    pods.contains(&Some(name)) || name.contains("dcgm-exporter-")
}

/// Whether this address leads to whichever machine uses it, so that it names none.
fn is_loopback(address: &str) -> bool {
    address.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
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
    let mut series: BTreeMap<CardKey, Vec<Series>> = BTreeMap::new();
    for sample in &answers.current {
        let Some((family, metric)) = known(&sample.metric) else { continue };
        if matches!(metric.role, Role::Info | Role::Index | Role::Collected | Role::Process) {
            continue;
        }
        if let Some(key) = CardKey::of(&sample.labels) {
            series.entry(key).or_default().push(Series { family, metric, sample });
        }
    }
    let mut cards: Vec<Card> = series.into_iter().filter_map(|(key, series)| card(key, &series, context)).collect();
    cards.sort_by(|one, other| {
        let (taken, others) = (one.taken.unwrap_or_default(), other.taken.unwrap_or_default());
        one.family.cmp(&other.family).then(others.total_cmp(&taken))
    });
    cards
}

/// A sample whose metric is known.
#[derive(Clone, Copy)]
struct Series<'a> {
    /// The position of the exporter in `FAMILIES`.
    family: usize,
    metric: &'static Metric,
    sample: &'a Sample,
}

impl Series<'_> {
    fn user(&self, context: &Context) -> Option<String> {
        context.user(&self.sample.labels)
    }

    fn taken(&self, context: &Context) -> Option<f64> {
        context.taken.get(&self.sample.labels).copied()
    }

    /// Whether it is of the last scrape, which was at `last`. The server still answers for some minutes with the series of a
    /// pod that has exited.
    fn is_of_scrape(&self, last: Option<f64>, context: &Context) -> bool {
        last.is_none_or(|last| self.taken(context).is_some_and(|at| last - at < SAME_SCRAPE))
    }
}

fn of_role<'s, 'a>(series: &'s [Series<'a>], role: Role) -> impl Iterator<Item = &'s Series<'a>> {
    series.iter().filter(move |one| one.metric.role == role)
}

/// `None` where nothing tells how much of its memory is in use.
fn card<'a>(key: CardKey<'a>, series: &[Series<'a>], context: &Context<'a>) -> Option<Card<'a>> {
    let last = of_role(series, Role::Used).filter_map(|one| one.taken(context)).max_by(f64::total_cmp);
    let used: Vec<&Series> = of_role(series, Role::Used).filter(|one| one.is_of_scrape(last, context)).collect();
    let Series { family, sample, .. } = *used.first()?;
    let users: BTreeSet<Option<String>> = used.iter().map(|one| one.user(context)).collect();
    let mut figures = BTreeMap::new();
    for role in [Role::Used, Role::Free, Role::Total, Role::Reserved, Role::Utilization, Role::Temperature, Role::Power]
    {
        let stand_in = FAMILIES.get(*family).and_then(|family| family.stand_in);
        let mut all: Vec<&Series> = of_role(series, role).collect();
        prefer(&mut all, |one| stand_in != Some(one.metric.name));
        prefer(&mut all, |one| users.contains(&one.user(context)));
        if role == Role::Used {
            prefer(&mut all, |one| one.is_of_scrape(last, context));
        }
        let values = all.iter().map(|one| one.sample.value * one.metric.unit);
        // Where copies of a series disagree, no more is promised than each of them has.
        let value = if role == Role::Free { values.min_by(f64::total_cmp) } else { values.max_by(f64::total_cmp) };
        figures.extend(value.map(|value| (role, value)));
    }
    let collected = context.collected.get(&key.target).copied();
    // An exporter may answer scrapes with figures from before.
    let taken = last.map(|last| collected.filter(|at| *at > 0.0).map_or(last, |collected| last.min(collected)));
    let labels = &sample.labels;
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
        let by_name = self.positions.get(&origin.name.to_lowercase()).copied();
        if by_name.is_some() || !origin.is_address {
            return by_name;
        }
        origin.addresses.iter().find_map(|address| self.positions.get(address)).copied()
    }

    fn take(&mut self, card: Card<'a>) {
        let identity = (card.key.gpu.clone(), card.key.instance);
        let seen = if card.key.is_uuid() { self.seen.get(&identity).copied() } else { None };
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
        let is_new = card.key.is_uuid() || !self.cards.iter().any(|other| other.may_be(&card));
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
            windows: None,
        };
        let seen = Ok((Box::new(snapshot.harmless()), None));
        HostReading {
            age: age.and_then(|age| Duration::try_from_secs_f64(age).ok()),
            users,
            ..HostReading::new(name, Through::Prometheus, seen)
        }
    }

    fn driver(&self, context: &Context) -> Driver {
        let version = self.told(&["DCGM_FI_DRIVER_VERSION", "driver_version"], context).unwrap_or_default();
        Driver::Available { version, cuda_version: self.told(&["cuda_version"], context) }
    }

    /// What the labels of its first GPU tell that has one of these.
    fn told(&self, names: &[&str], context: &Context) -> Option<String> {
        self.cards.iter().find_map(|card| card.told(names, context)).map(clean)
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
        let known = index.or_else(|| of_gpu.get(card.key.gpu.as_str()).copied());
        let number = known.or_else(|| (0..).find(|number| !taken.contains(number))).unwrap_or(u32::MAX);
        of_gpu.insert(&card.key.gpu, number);
        taken.insert(number);
        *index = Some(number);
    }
}

impl Card<'_> {
    /// Whether this is the same GPU as another one of its machine, as far as their indices tell.
    fn may_be(&self, other: &Card) -> bool {
        self.key.instance == other.key.instance && index(self.labels) == index(other.labels)
    }

    /// Whether this is a MIG instance of the other's GPU.
    fn is_instance_of(&self, other: &Card) -> bool {
        self.key.gpu == other.key.gpu && self.key.instance.is_some()
    }

    fn figure(&self, role: Role) -> Option<f64> {
        self.figures.get(&role).copied()
    }

    fn bytes(&self, role: Role) -> Option<Bytes> {
        self.figure(role).and_then(bytes)
    }

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
        let nature = match self.key.instance {
            Some(_) => Some(Nature::MigInstance),
            None if self.is_rays_instance() => Some(Nature::MigInstance),
            None => machine.cards.iter().any(|other| other.is_instance_of(self)).then_some(Nature::Split),
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
        Device {
            index,
            memory: self.memory(),
            processes: context.processes.get(&identity).cloned().unwrap_or_default().into(),
            nature,
            uuid: reading(uuid),
            bus_id: reading(self.told(&["pci_bus_id"], context).map(clean)),
            name: reading(name),
            utilization_percent: reading(self.figure(Role::Utilization).and_then(|value| small(value, 0.0..100.5))),
            temperature_celsius: reading(self.figure(Role::Temperature).and_then(|value| small(value, 1.0..200.0))),
            power_watts: reading(self.figure(Role::Power).and_then(|value| small(value, 0.0..100_000.0))),
            ..Device::default()
        }
    }

    fn memory(&self) -> DeviceMemory {
        let (used, free) = (self.bytes(Role::Used), self.bytes(Role::Free));
        let (total, reserved) = (self.bytes(Role::Total), self.bytes(Role::Reserved));
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
        // That nobody is named says something only where the whole GPU is idle and much of it in use.
        let is_worth_telling_unnamed = is_worth_naming && self.users.len() == 1;
        users.filter(|user| user.name.is_some() || user.idle_for.is_some() && is_worth_telling_unnamed).collect()
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
