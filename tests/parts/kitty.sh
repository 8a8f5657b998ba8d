#!/usr/bin/env bash
# Reads a failed log out of a window of a real kitty, on a display of its own.
#
#   sudo apt install kitty xvfb libgl1-mesa-dri        (Debian 12: kitty 0.26.5)
#   cargo build && tests/parts/kitty.sh [target/debug/oomdoctor]
#
# Exits with 1 at the first thing that is not as it should be.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "${1:-target/debug/oomdoctor}")
folder=$(mktemp -d)
export XDG_CONFIG_HOME=$folder/none XDG_STATE_HOME=$folder/state XDG_RUNTIME_DIR=$folder/run HOME=$folder LIBGL_ALWAYS_SOFTWARE=1
mkdir -p "$XDG_RUNTIME_DIR" && chmod 700 "$XDG_RUNTIME_DIR"
unset KITTY_LISTEN_ON KITTY_WINDOW_ID SSH_CONNECTION TMUX STY
kitty= display=
finish() {
  [ -z "$kitty" ] || kill "$kitty" 2>/dev/null || true
  [ -z "$display" ] || kill "$display" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT
Xvfb -displayfd 3 -screen 0 480x320x24 -nolisten tcp 3> "$folder/display" 2> "$folder/xvfb.log" &
display=$!
# Waits until a command succeeds.
until_true() {
  for _ in $(seq 200); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done
  echo "never true: $*" >&2
  return 1
}
until_true test -s "$folder/display"
socket=unix:$folder/kitty
start() {
  DISPLAY=:$(cat "$folder/display") kitty --config NONE -o remember_window_size=no -o initial_window_width=480 -o initial_window_height=320 -o cursor_blink_interval=0 -o enable_audio_bell=no "$@" bash --norc --noprofile > "$folder/kitty.log" 2>&1 &
  kitty=$!
}
ask() { python3 -c "import json, sys; found = json.load(sys.stdin)['sources']; $1"; }

start -o allow_remote_control=socket-only --listen-on "$socket"
until_true kitty @ --to "$socket" ls
failure="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.06 GiB is free. größer"
printf '%s\n' 'epoch 1 step 200' "$failure" > "$folder/failure.txt"
send() { kitty @ --to "$socket" send-text --match id:1 "$1\r"; }
send "export HF_TOKEN=hf_secret"
send "cat $folder/failure.txt"
send "echo later"
shows() { kitty @ --to "$socket" get-text --match id:1 --extent all | grep "$1"; }
until_true shows '^later'
# In a window of the same tab, which is left out itself.
kitty @ --to "$socket" launch --keep-focus bash --norc --noprofile -c \
  "for _ in 1 2 3 4 5; do $program sources kitty --json > $folder/found.json; grep -q kitty:1 $folder/found.json && break; done; $program diagnose --no-live --json --from kitty:1 > $folder/diagnosis.json; touch $folder/done; exec sleep 1000" > /dev/null
until_true test -e "$folder/done"
ask "assert [(one['id'], one['oom']) for one in found] == [('kitty:1', 'yes')], found" < "$folder/found.json"
python3 - "$folder/diagnosis.json" <<'P'
import json, sys
diagnosis = json.load(open(sys.argv[1]))
assert diagnosis["facts"]["requested_bytes"] == int(2.5 * 2**30), diagnosis["facts"]
# The prompt, the step, the failure: the commands above and below are left out, and wrapped lines are one.
assert diagnosis["matches"][0]["line"] == 3 and "größer" in diagnosis["matches"][0]["text"], diagnosis["matches"]
P
# Outside kitty it is found by its socket; without one, what to set is said.
sees() { KITTY_LISTEN_ON=$socket "$program" sources kitty --json > "$folder/outside.json" && grep kitty:1 "$folder/outside.json"; }
until_true sees
ask "assert found[0]['oom'] == 'yes', found" < "$folder/outside.json"
{ KITTY_WINDOW_ID=1 "$program" sources --json || true; } | ask "assert any('listen_on' in (one['unreadable_reason'] or '') for one in found), found"
{ KITTY_LISTEN_ON=unix:$folder/nobody "$program" sources kitty --json || true; } | ask "assert found[0]['unreadable_reason'], found"
echo "kitty: all as it should be"
