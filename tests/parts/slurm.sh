#!/usr/bin/env bash
# Reads the nodes and a job of a real one-node Slurm with two GPUs that are empty files.
#
#   sudo apt install slurmctld slurmd slurm-client munge        (Debian 12: Slurm 22.05.8, munge 0.5.15)
#   cargo build && sudo tests/parts/slurm.sh [target/debug/oomdoctor]
#
# Runs in namespaces of its own over a copy-on-write root: configuration, keys and daemons are gone afterwards.
# Exits with 1 at the first thing that is not as it should be.
set -euo pipefail
if [ "${1:-}" != --inside ]; then
  cd "$(dirname "$0")/../.."
  exec unshare -m -p -n -u -f --mount-proc "$0" --inside "$(realpath "${1:-target/debug/oomdoctor}")" "$(realpath "$0")"
fi
if [ "${4:-}" != --root ]; then
  mount -t tmpfs tmpfs /mnt && cd /mnt && mkdir up work root
  mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/up,workdir=/mnt/work root
  for folder in proc dev sys; do mount --rbind /$folder root/$folder; done
  # Files on mounts below the root are not part of the overlay.
  cp "$2" root/oomdoctor.new && cp "$3" root/slurm.sh && rm -rf root/tmp && mkdir -m 1777 root/tmp
  exec chroot root /bin/bash /slurm.sh --inside /oomdoctor.new - --root
fi
program=/oomdoctor.new
export XDG_CONFIG_HOME=/none XDG_STATE_HOME=/none HOME=/root
cd /tmp
hostname gpu01 && echo "127.0.0.1 gpu01" >> /etc/hosts
# Slurm wants an address that is not loopback's.
ip link set lo up && ip addr add 10.9.9.1/32 dev lo
mkdir -p /run/munge /var/log/munge /var/lib/munge /etc/munge /run/slurm /var/spool/slurmd /var/spool/slurmctld /etc/slurm
rm -rf /var/spool/slurmctld/* /etc/munge/munge.key && /usr/sbin/mungekey -c -k /etc/munge/munge.key
chown -R munge: /run/munge /var/log/munge /var/lib/munge /etc/munge && chmod 755 /run/munge && chmod 600 /etc/munge/munge.key
su munge -s /bin/sh -c '/usr/sbin/munged --force'
cgroup=cgroup/v1
[ -e /sys/fs/cgroup/cgroup.controllers ] && cgroup=cgroup/v2
echo "CgroupPlugin=$cgroup" > /etc/slurm/cgroup.conf
cat > /etc/slurm/slurm.conf <<C
ClusterName=lab
SlurmctldHost=gpu01(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurm/ctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
GresTypes=gpu
ReturnToService=2
MailProg=/bin/true
NodeName=gpu01 NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 Gres=gpu:fake:2 State=UNKNOWN
NodeName=gpu[02-03] NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 Gres=gpu:fake:2 State=DOWN
PartitionName=debug Nodes=gpu01,gpu02 Default=YES MaxTime=60 State=UP
PartitionName=other Nodes=gpu03 MaxTime=60 State=UP
C
touch /tmp/g0 /tmp/g1 && echo 'NodeName=gpu01 Name=gpu Type=fake File=/tmp/g[0-1]' > /etc/slurm/gres.conf
slurmctld -D > ctld.log 2>&1 &
slurmd -D > slurmd.log 2>&1 &

# Waits until a command succeeds.
until_true() {
  for _ in $(seq 150); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done
  echo "never true: $*" >&2
  tail -n 5 ctld.log slurmd.log >&2
  return 1
}
# What the program says of machines: a Python expression over `hosts`, by name.
ask() {
  local test=$1
  shift
  "$program" ps --json "$@" > asked.json || true
  python3 - "$test" <<'P' || { cat asked.json; return 1; }
import json, sys
hosts = {one["host"]: one for one in json.load(open("asked.json"))["hosts"]}
assert eval(sys.argv[1]), sys.argv[1]
P
}
in_state() { scontrol -o show "$1" "$2" | grep -q "State=$3"; }

until_true in_state node gpu01 IDLE
echo "== nodes"
ask 'sorted(hosts) == ["gpu01", "gpu02", "gpu03"]' --slurm
ask 'sorted(hosts) == ["gpu01", "gpu02"]' --slurm=debug
ask 'hosts["gpu01"]["allotment"]["is_open"] and not hosts["gpu02"]["allotment"]["is_open"]' --slurm
ask '[hosts["gpu01"]["allotment"][key] for key in ("gpus", "given", "given_indices", "gpu_name")] == [2, 0, [], "fake"]' --slurm
ask 'hosts["gpu01"]["snapshot"] is None and "--job" in hosts["gpu01"]["unavailable"]' --slurm
ask '"nosuch" in hosts["slurm"]["unavailable"] or "not found" in hosts["slurm"]["unavailable"]' --slurm=nosuch

echo "== a running job"
install -m 755 "$program" /usr/local/bin/oomdoctor
cat > job.sh <<'J'
#!/bin/bash
#SBATCH --gres=gpu:1 --mem=200 -w gpu01 -J "train me"
#SBATCH -o /tmp/%x-%j.out
echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.06 GiB is free.'
while [ ! -e /tmp/finish ]; do sleep 0.2; done
exit 1
J
job=$(sbatch --parsable job.sh)
until_true in_state job "$job" RUNNING
ask 'hosts["gpu01"]["snapshot"]["host"]["name"] == "gpu01" and hosts["gpu01"]["boot_id"]' --job "$job"
ask "'slurm:$job' in hosts['gpu01']['snapshot']['seen_from']" --job "$job"
ask "[hosts['gpu01']['allotment']['given_to'][0][key] for key in ('source', 'name', 'user', 'gpus', 'devices', 'output')] == ['slurm:$job', 'train me', 'root', 1, ['0'], '/tmp/train me-$job.out']" --job "$job"
ask 'hosts["gpu01"]["allotment"]["given_indices"] == [0]' --slurm
ask 'len(hosts) == 3 and hosts["gpu01"]["snapshot"] and hosts["gpu01"]["allotment"]["given_to"]' --slurm --job "$job"
until_true eval "sstat -a -n -P -j $job -o MaxRSS | grep -q '[1-9]'"
ask "hosts['gpu01']['allotment']['given_to'][0]['sampled_ram']['bytes'] > 2**16" --job "$job"
ask "hosts['gpu01']['allotment']['given_to'][0]['sampled_ram']['step'].startswith('$job.')" --slurm --job "$job"
time "$program" ps --job "$job"

echo "== a job without oomdoctor on its node"
rm /usr/local/bin/oomdoctor
ask '"not installed" in hosts["gpu01"]["unavailable"]' --job "$job"

echo "== drained"
scontrol update nodename=gpu01 state=drain reason="fan broken"
ask 'not hosts["gpu01"]["allotment"]["is_open"] and "fan broken" in hosts["gpu01"]["allotment"]["state"]' --slurm
scontrol update nodename=gpu01 state=resume

echo "== a job that ended: its log is found"
touch /tmp/finish
until_true in_state job "$job" FAILED
ask "'--from slurm:$job' in hosts['slurm']['unavailable']" --job "$job"
"$program" diagnose --no-live --json --from "slurm:$job" > diagnosis.json || true
python3 -c 'import json; assert json.load(open("diagnosis.json"))["facts"]["requested_bytes"] == int(2.5 * 2**30)'
ask '"nvalid job" in hosts["slurm"]["unavailable"]' --job 99

echo "== a controller that is gone"
scontrol shutdown slurmctld 2>/dev/null || kill %1
until_true eval '! scontrol -t 1 ping'
ask 'hosts["slurm"]["snapshot"] is None and hosts["slurm"]["unavailable"]' --slurm
cat asked.json | grep unavailable
kill %2 2>/dev/null || true
echo "all as it should be"
