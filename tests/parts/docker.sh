#!/usr/bin/env bash
# Reads the logs of exited containers from a real Docker daemon, one of its own with its own folders. Needs root.
#
#   sudo apt install docker.io        (Debian 12: Docker 20.10.24)
#   cargo build && sudo tests/parts/docker.sh [target/debug/oomdoctor]
#
# Exits with 1 at the first thing that is not as it should be.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "${1:-target/debug/oomdoctor}")
folder=$(mktemp -d)
export DOCKER_HOST=unix://$folder/socket XDG_CONFIG_HOME=$folder/none XDG_STATE_HOME=$folder/state HOME=$folder
finish() {
  docker ps --all --quiet 2>/dev/null | xargs --no-run-if-empty docker rm --force >/dev/null 2>&1 || true
  kill "$daemon" && wait "$daemon" || true
  rm -rf "$folder"
}
dockerd --iptables=false --bridge=none --storage-driver=vfs --data-root="$folder/data" --exec-root="$folder/exec" \
  --host="$DOCKER_HOST" --pidfile="$folder/pid" > "$folder/daemon.log" 2>&1 &
daemon=$!
trap finish EXIT
for _ in $(seq 100); do docker info >/dev/null 2>&1 && break; sleep 0.1; done

mkdir -p "$folder/root/bin"
# An image with this machine's shell and the libraries that it loads.
cp -L /bin/sh "$folder/root/bin/sh"
ldd /bin/sh | grep -o '/[^ ]*' | xargs cp -L --parents --target-directory="$folder/root"
tar -C "$folder/root" -c . | docker import - tiny >/dev/null
in_a_container() { docker run --network=none "$@" >/dev/null 2>&1 || true; }
failure="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.06 GiB is free."
in_a_container --name trainer tiny /bin/sh -c "echo '$failure' >&2; exit 1"
# Its memory limit ends this one before it has printed all.
in_a_container --name eater --memory 8m tiny /bin/sh -c \
  'x=aaaaaaaaaaaaaaaa; echo start; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do x=$x$x; done; echo ${#x}'
in_a_container --name fine tiny /bin/sh -c 'echo done'

field() { python3 -c "import json, sys; found = json.load(sys.stdin); print($1)"; }
"$program" sources docker --json > "$folder/found.json"
of() { field "[one['oom'] for one in found['sources'] if one['id'] == 'docker:$1']" < "$folder/found.json"; }
[ "$(of trainer)" = "['yes']" ] || { echo "docker:trainer is $(of trainer)" >&2; exit 1; }
# Docker now and then misses the kernel's event, and then says only that SIGKILL came.
case $(of eater) in "['yes']" | "['maybe']") ;; *) echo "docker:eater is $(of eater)" >&2; exit 1 ;; esac
[ "$(of fine)" != "['yes']" ] || { echo "docker:fine ran out of memory, it says" >&2; exit 1; }
memory() { "$program" diagnose --no-live --json --from "docker:$1" | field "found['memory']"; }
[ "$(memory trainer)" = gpu ] || { echo "docker:trainer: $(memory trainer)" >&2; exit 1; }
[ "$(memory eater)" = host ] || { echo "docker:eater: $(memory eater)" >&2; exit 1; }
echo "docker: all as it should be"
