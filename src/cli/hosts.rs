//! Owns the options that name other machines, and where each value comes from: the option, a file, the setting `hosts`.

use std::io;
use std::path::PathBuf;

use clap::Args;

use super::settings::Global;
use crate::hosts::name::{JobId, Partition, PodName};
use crate::hosts::prometheus::Server;
use crate::hosts::{Asked, HostName, name};
use crate::platform::regular;

/// More than any list of machines has.
const LARGEST: u64 = 1 << 20;
/// Over these options in the help.
const ELSEWHERE: &str = "Other machines";

#[derive(Clone, Debug, Default, Args)]
pub struct HostArgs {
    /// Read these machines through ssh, as ~/.ssh/config names them
    #[arg(long, help_heading = ELSEWHERE, value_name = "NAME,…", value_delimiter = ',', value_hint = clap::ValueHint::Hostname)]
    host: Vec<HostName>,
    /// Read the machines that this file lists
    #[arg(long, help_heading = ELSEWHERE, value_name = "FILE")]
    hosts_file: Option<PathBuf>,
    /// Read the machines of the setting `hosts`
    #[arg(long, help_heading = ELSEWHERE)]
    hosts: bool,
    /// Copy this program to a machine that has none, for the time of the reading
    #[arg(long, help_heading = ELSEWHERE)]
    send: bool,
    /// Read the nodes of Slurm, or of one partition
    #[arg(long, help_heading = ELSEWHERE, value_name = "PARTITION", num_args = 0..=1, require_equals = true)]
    slurm: Option<Option<Partition>>,
    /// Look into this running job of Slurm
    #[arg(long, help_heading = ELSEWHERE, value_name = "ID")]
    job: Option<JobId>,
    /// Read the nodes and pods of Kubernetes through kubectl
    #[arg(long, help_heading = ELSEWHERE)]
    kube: bool,
    /// Look into this pod of Kubernetes
    #[arg(long, help_heading = ELSEWHERE, value_name = "NAMESPACE/POD")]
    pod: Option<PodName>,
    /// Ask a Prometheus server of this machine, such as http://127.0.0.1:9090
    #[arg(long, help_heading = ELSEWHERE, value_name = "URL")]
    prometheus: Option<Server>,
    /// Show other people's command lines there whole
    #[arg(long, help_heading = ELSEWHERE)]
    full: bool,
}

impl HostArgs {
    /// Which machines are meant. Fails if the file or the setting names none.
    pub(super) fn asked(&self, global: &Global) -> Result<Asked, String> {
        let mut hosts = self.host.clone();
        if let Some(path) = &self.hosts_file {
            let read =
                regular::read(path, LARGEST).and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
            let text = read.map_err(|error| format!("{} can't be read: {error}", path.display()))?;
            let listed = name::listed(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            if listed.is_empty() {
                return Err(format!("{} names no machine", path.display()));
            }
            hosts.extend(listed);
        }
        if self.hosts {
            if global.hosts.is_empty() {
                return Err("the setting `hosts` of config.ron names no machine; give --host gpu1,gpu2".to_owned());
            }
            hosts.extend(global.hosts.iter().cloned());
        }
        let mut seen = std::collections::BTreeSet::new();
        hosts.retain(|host| seen.insert(host.clone()));
        Ok(Asked {
            hosts,
            send: self.send,
            slurm: self.slurm.clone(),
            job: self.job.clone(),
            kubernetes: self.kube,
            pod: self.pod.clone(),
            prometheus: self.prometheus.clone(),
            full: self.full,
        })
    }
}
