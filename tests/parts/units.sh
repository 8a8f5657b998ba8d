#!/usr/bin/env bash
# Reads the log of a failed unit from a real `systemd --user` with a journal, both in namespaces of their own: the machine's
# /run and /var/log are covered by empty folders meanwhile. For machines that systemd did not start, such as a container.
# Needs root.
#
#   sudo apt install systemd dbus        (Debian 12: systemd 252)
#   cargo build && sudo tests/parts/units.sh [target/debug/oomdoctor]
#
# Exits with 1 at the first thing that is not as it should be.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ "${1:-}" != inside ]; then
  program=$(realpath "${1:-target/debug/oomdoctor}")
  if [ -d /run/systemd/system ]; then echo "systemd runs here: this is for machines without" >&2; exit 1; fi
  folder=$(mktemp -d)
  groups=(/sys/fs/cgroup/{systemd,unified}/user.slice/user-0.slice/user@0.service /sys/fs/cgroup/user.slice/user-0.slice/user@0.service)
  finish() {
    for group in "${groups[@]}"; do
      slice=${group%/user-0.slice/*}
      [ ! -d "$slice" ] || find "$slice" -depth -type d -exec rmdir {} \; 2>/dev/null || true
    done
    rm -rf "$folder"
  }
  trap finish EXIT
  # All that runs in the namespace ends with its first process.
  unshare --mount --pid --fork --kill-child --mount-proc "$0" inside "$folder" "$program"
  exit
fi

folder=$2 program=$3
mount --make-rprivate /
mount -t tmpfs none /run
mount -t tmpfs none /var/log
export XDG_RUNTIME_DIR=/run/person HOME=$folder XDG_CONFIG_HOME=$folder/config XDG_STATE_HOME=$folder/state
unset DBUS_SESSION_BUS_ADDRESS SUDO_UID SUDO_GID
mkdir -p /run/systemd/{system,journal} /run/log/journal "$XDG_RUNTIME_DIR/systemd" "$XDG_CONFIG_HOME/systemd/user"
chmod 700 "$XDG_RUNTIME_DIR"
failure="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB."
unit() { printf '[Service]\nExecStart=/bin/sh -c "%s"\n' "$2" > "$XDG_CONFIG_HOME/systemd/user/$1.service"; }
# The journal asks which unit a process is of while it still runs.
unit train "echo $failure; sleep 1; exit 1"
unit other "echo no such file; sleep 1; exit 1"
unit silent "exit 1"

# Waits until a command succeeds.
until_true() {
  for _ in $(seq 100); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done
  echo "never true: $*" >&2
  return 1
}
dbus-daemon --session --address=unix:path=$XDG_RUNTIME_DIR/bus --nofork --nopidfile > /run/bus.log 2>&1 &
/lib/systemd/systemd-journald > /run/journal.log 2>&1 &
until_true test -S /run/systemd/journal/stdout
# The journal tells a person's unit by its control group.
join() {
  for hierarchy in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
    [ -e "$hierarchy/cgroup.procs" ] || continue
    mkdir -p "$hierarchy/user.slice/user-0.slice/user@0.service/init.scope"
    echo "$BASHPID" > "$hierarchy/user.slice/user-0.slice/user@0.service/init.scope/cgroup.procs"
  done
}
(join; exec /lib/systemd/systemd --user --log-target=console > /run/manager.log 2>&1) &
until_true systemctl --user show -p Version
has_failed() { [ "$(systemctl --user show -p ActiveState --value "$1")" = failed ]; }
for name in train other silent; do systemctl --user start $name; done
for name in train other silent; do until_true has_failed $name; done
journalctl --sync

"$program" sources user-unit --json > "$folder/found.json" || true
python3 - "$folder/found.json" <<'P'
import json, sys
found = {one["id"]: one for one in json.load(open(sys.argv[1]))["sources"]}
train, other, silent = (found[f"user-unit:{name}.service"] for name in ("train", "other", "silent"))
assert train["oom"] == "yes" and train["ended_at"], train
assert other["oom"] == "no", other
assert silent["oom"] is None and silent["unreadable_reason"], silent
P
"$program" diagnose --no-live --json --from user-unit:train.service > "$folder/diagnosis.json"
python3 -c "import json, sys; found = json.load(open(sys.argv[1])); assert found['oom'] == 'yes', found" "$folder/diagnosis.json"
echo "units: all as it should be"
