#!/usr/bin/env bash
# Reads failed logs out of real tmux and GNU screen sessions, on servers of their own.
#
#   sudo apt install tmux screen        (Debian 12: tmux 3.3a, screen 4.9.0)
#   cargo build && tests/parts/panes.sh [target/debug/oomdoctor]
#
# Exits with 1 at the first thing that is not as it should be.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "${1:-target/debug/oomdoctor}")
folder=$(mktemp -d)
export TMUX_TMPDIR=$folder/tmux SCREENDIR=$folder/screen XDG_CONFIG_HOME=$folder/none XDG_STATE_HOME=$folder/state HOME=$folder
mkdir -p "$TMUX_TMPDIR" "$SCREENDIR" && chmod 700 "$SCREENDIR"
finish() {
  tmux kill-server 2>/dev/null || true
  screen -S parts -X quit >/dev/null 2>&1 || true
  rm -rf "$folder"
}
trap finish EXIT
unset TMUX TMUX_PANE STY WINDOW

# Long enough to be wrapped in a pane of 60 columns.
failure="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.06 GiB is free. größer"
printf '%s\n' 'epoch 1 step 200' "$failure" > "$folder/failure.txt"

# Waits until a command succeeds.
until_true() {
  for _ in $(seq 100); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done
  echo "never true: $*" >&2
  return 1
}
ask() { printf '%s' "$1" | python3 -c "import json, sys; found = json.load(sys.stdin)['sources']; $2"; }

echo "== tmux"
tmux new-session -d -x 60 -y 20 -s work "exec bash --norc --noprofile"
for typed in 'export HF_TOKEN=hf_secret' "cat $folder/failure.txt" 'echo later'; do tmux send-keys -t work "$typed" Enter; done
shows() { tmux capture-pane -p -t work | grep "$1"; }
until_true shows '^later'
# The pane in which the program itself runs is left out.
tmux split-window -t work "bash --norc --noprofile -c '$program sources --json > $folder/own.json; touch $folder/done; exec sleep 1000'"
until_true test -e "$folder/done"
ask "$(cat "$folder/own.json")" "
panes = [one for one in found if one['kind'] == 'tmux']
assert [one['oom'] for one in panes] == ['yes'], panes"
# From outside the server its pane is found, too; wrapped lines are joined.
id=$(ask "$("$program" sources --json || true)" "print(next(one['id'] for one in found if one['oom'] == 'yes'))")
"$program" diagnose --no-live --json --from "$id" > "$folder/diagnosis.json"
python3 - "$folder/diagnosis.json" <<'P'
import json, sys
diagnosis = json.load(open(sys.argv[1]))
assert diagnosis["facts"]["requested_bytes"] == int(2.5 * 2**30), diagnosis["facts"]
assert "größer" in diagnosis["matches"][0]["text"], diagnosis["matches"]
# The prompt, the step, the failure: the commands above and below are left out.
assert diagnosis["matches"][0]["line"] == 3, diagnosis["matches"]
P
tmux kill-server
"$program" sources tmux --json > "$folder/none.json" || true
ask "$(cat "$folder/none.json")" "assert not found, found"

echo "== screen"
screen -dmS parts -t work bash --norc --noprofile
until_true screen -S parts -Q windows
screen -S parts -p 0 -X stuff "cat $folder/failure.txt
"
screen -S parts -X screen -t doctor bash --norc --noprofile -c "$program sources screen --json > $folder/screen.json; touch $folder/screen-done; exec sleep 1000"
until_true test -e "$folder/screen-done"
ask "$(cat "$folder/screen.json")" "
assert [one['oom'] for one in found if one['kind'] == 'screen'] == ['yes'], found"
echo "all as it should be"
