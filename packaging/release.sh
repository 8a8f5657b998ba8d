#!/usr/bin/env bash
# Makes a release and tries it: programs, the crate, archives, SBOMs, packages, the wheel, checksums, recipes.
# usage: packaging/release.sh [options]; --help lists them. packaging/README.md has the steps of a release.
set -euo pipefail
cd "$(dirname "$0")/.."
repository_root=$PWD
export LC_ALL=C TZ=UTC

# Each part defines functions and runs nothing.
# shellcheck source=packaging/release/common.sh
. packaging/release/common.sh
# shellcheck source=packaging/release/programs.sh
. packaging/release/programs.sh
# shellcheck source=packaging/release/archives.sh
. packaging/release/archives.sh
# shellcheck source=packaging/release/sbom.sh
. packaging/release/sbom.sh
# shellcheck source=packaging/release/packages.sh
. packaging/release/packages.sh
# shellcheck source=packaging/release/crate.sh
. packaging/release/crate.sh
# shellcheck source=packaging/release/recipes.sh
. packaging/release/recipes.sh
# shellcheck source=packaging/release/wheel.sh
. packaging/release/wheel.sh
# shellcheck source=packaging/release/roots.sh
. packaging/release/roots.sh

usage() {
  cat <<USAGE
usage: packaging/release.sh [options]
  --out DIR               where the results go (default: target/dist)
  --target TARGET         make this target only; can be repeated (default: ${release_targets[*]})
  --program TARGET=FILE   take this program instead of building one; can be repeated
  --only STAGE,STAGE      run these stages only, of: ${stages[*]}
  --no-try                make the results without installing and running them
  --allow-newer-glibc     package a program that needs a glibc newer than $glibc_limit (a local trial)
  --fetch-tools           install missing cargo tools into target/release-tools; needs the network
  --strict                fail when a result or its trial lacks a tool, or Cargo.toml has no repository
  --tag TAG               fail unless Cargo.toml has the version of this tag (v1.2.3)
  --names                 print the names of the results, and make nothing
USAGE
}

release_targets=(x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu)
stages=(programs crate archives sbom packages wheel sdist checksums recipes)
targets=()
chosen_stages=()
declare -A given_programs=()
out=target/dist
can_try=1 can_fetch=0 is_strict=0 allows_newer_glibc=0 only_names=0 tag=

while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2; shift ;;
    --target) targets+=("$2"); shift ;;
    --program) given_programs[${2%%=*}]=${2#*=}; shift ;;
    --only) IFS=, read -r -a chosen_stages <<<"$2"; shift ;;
    --no-try) can_try=0 ;;
    --allow-newer-glibc) allows_newer_glibc=1 ;;
    --fetch-tools) can_fetch=1 ;;
    --strict) is_strict=1 ;;
    --tag) tag=$2; shift ;;
    --names) only_names=1 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
[ ${#targets[@]} -gt 0 ] || targets=("${release_targets[@]}")
[ ${#chosen_stages[@]} -gt 0 ] || chosen_stages=("${stages[@]}")

if [ "$only_names" = 1 ]; then
  print_names
  exit 0
fi

if [ -n "$tag" ] && [ "$tag" != "v$version" ]; then
  echo "the tag is $tag, but Cargo.toml has version $version" >&2
  exit 2
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
prepare_work_folder
for stage in "${stages[@]}"; do
  if is_chosen "$stage"; then
    heading "$stage"
    "make_$stage"
  fi
done
print_table
exit_by_outcome
