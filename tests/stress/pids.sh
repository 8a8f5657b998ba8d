#!/bin/sh
# Never the wrong process, with real ones: 10,000 rounds in a PID namespace of 400 PIDs (Linux 6.14 or newer, where
# pid_max is the namespace's own). Prints a table. ROUNDS and SEED may be given; not root: a user namespace is made.
set -eu
cd "$(dirname "$0")/../.."
cargo test --quiet --no-run --test integration
[ "$(id -u)" = 0 ] && own= || own="--user --map-root-user"
# shellcheck disable=SC2086
exec unshare $own --pid --fork --mount-proc sh -eu -c '
    echo 400 > /proc/sys/kernel/pid_max || { echo "this kernel does not let a namespace have its own pid_max" >&2; exit 1; }
    exec cargo test --quiet --test integration real_processes_with_reused_pids -- --ignored --nocapture'
