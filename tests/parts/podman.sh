#!/usr/bin/env bash
# Reads the logs of exited containers from a real Podman, with folders of its own. Needs root.
#
#   sudo apt install podman busybox-static runc        (Debian 12: Podman 4.3.1; runc where crun refuses the cgroups)
#   cargo build && sudo tests/parts/podman.sh [target/debug/oomdoctor]
#
# Exits with 1 at the first thing that is not as it should be.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "${1:-target/debug/oomdoctor}")
folder=$(mktemp -d)
export XDG_CONFIG_HOME=$folder/none XDG_STATE_HOME=$folder/state HOME=$folder
unset CONTAINER_HOST CONTAINER_CONNECTION
# The settings are in files, so that oomdoctor's own calls use them, too.
export CONTAINERS_STORAGE_CONF=$folder/storage.conf CONTAINERS_CONF=$folder/containers.conf
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s/store"\nrunroot = "%s/run"\n' "$folder" "$folder" > "$CONTAINERS_STORAGE_CONF"
printf '[containers]\ndefault_ulimits = ["nofile=1000:1000", "nproc=1000:1000"]\n[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "%s"\n' \
  "${RUNTIME:-runc}" > "$CONTAINERS_CONF"
finish() {
  podman rm --force --all >/dev/null 2>&1 || true
  rm -rf "$folder"
}
trap finish EXIT

mkdir -p "$folder/root/bin"
cp /bin/busybox "$folder/root/bin/busybox"
for applet in sh echo; do ln -s busybox "$folder/root/bin/$applet"; done
tar -C "$folder/root" -c . | podman import - tiny >/dev/null 2>&1
in_a_container() { podman run --network=none "$@" >/dev/null 2>"$folder/said" || true; }
failure="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.06 GiB is free."
in_a_container --name trainer tiny /bin/sh -c "echo '$failure' >&2; exit 1"
in_a_container --name fine tiny /bin/sh -c 'echo done'

field() { python3 -c "import json, sys; found = json.load(sys.stdin); print($1)"; }
"$program" sources podman --json > "$folder/found.json" || true
of() { field "[one['oom'] for one in found['sources'] if one['id'] == 'podman:$1']" < "$folder/found.json"; }
[ "$(of trainer)" = "['yes']" ] || { echo "podman:trainer is $(of trainer): $(cat "$folder/said" "$folder/found.json")" >&2; exit 1; }
[ "$(of fine)" = "['no']" ] || { echo "podman:fine is $(of fine)" >&2; exit 1; }
memory() { "$program" diagnose --no-live --json --from "podman:$1" | field "found['memory']"; }
[ "$(memory trainer)" = gpu ] || { echo "podman:trainer: $(memory trainer)" >&2; exit 1; }
echo "podman: all as it should be"
