#!/usr/bin/env bash
# Completes names of machines in a real bash, with the package bash-completion where that is installed and without it.
#
#   sudo apt install bash-completion        (Debian 12: bash 5.2, bash-completion 2.11)
#   cargo build && tests/parts/completions.sh [target/debug/oomdoctor]
#
# Exits with 1 at the first thing that is not as it should be.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "${1:-target/debug/oomdoctor}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME=$folder
mkdir -m 700 "$folder/.ssh"
printf 'Host zgpu1 zgpu2 *.lab !old\n  HostName 10.0.0.1\nHost zbig-box\nHost *\n' > "$folder/.ssh/config"
"$program" completions bash > "$folder/completions"

# The answers to words, of which the last is completed, as bash calls it.
cat > "$folder/ask" <<'A'
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_oomdoctor oomdoctor "${@: -1}" "${@: -2:1}"
printf '%s\n' "${COMPREPLY[@]}" | sort | paste -s -d ' '
A
ask() { bash --noprofile --norc -c '[ -z "$0" ] || . "$0"; . "$1"; . "${@:2:1}" "${@:3}"' "$with" "$folder/completions" "$folder/ask" "$@"; }
is() {
  local wanted=$1 said
  shift
  said=$(ask "$@")
  [ "$said" = "$wanted" ] || { echo "$*: '$said' and not '$wanted'" >&2; exit 1; }
}
package=/usr/share/bash-completion/bash_completion
for with in "" "$package"; do
  [ -z "$with" ] || [ -e "$with" ] || { echo "bash-completion is not installed: not tried"; continue; }
  echo "== ${with:-without the package}"
  is 'zgpu1 zgpu2' oomdoctor ps --host zg
  is 'zgpu1,zgpu1 zgpu1,zgpu2' oomdoctor ps --host zgpu1,zg
  is 'ada@zgpu1 ada@zgpu2' oomdoctor fit x --host ada@zg
  is 'zgpu1 zgpu2' oomdoctor ps --host = zg
  is 'zbig-box' oomdoctor --host zb
  is '' oomdoctor --host nosuchmachine
done
echo "all as it should be"
