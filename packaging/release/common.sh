# shellcheck shell=bash
# Names, facts from Cargo.toml, and the list of results that is printed at the end.
# The variables without a value here are set by packaging/release.sh.
# shellcheck disable=SC2034,SC2154

# The oldest glibc that a release must run on: that of manylinux_2_28 (Debian 10, RHEL 8, Ubuntu 18.10).
glibc_limit=2.28
# crates.io refuses a crate above 10 MiB (doc.rust-lang.org/cargo/reference/publishing.html, checked 2026-11-22).
crate_limit=10485760

# Reads a field of the [package] table of Cargo.toml; empty where it is not set.
package_field() {
  sed -n '/^\[package\]/,/^\[/s/^'"$1"' = "\(.*\)"$/\1/p' Cargo.toml
}

version=$(package_field version)
repository=$(package_field repository)
summary=$(package_field description)
# .invalid never resolves (RFC 2606): a recipe with it cannot be published by mistake.
address=${repository:-https://repository-not-set.invalid/oomdoctor}
download_address=$address/releases/download/v$version

archive_name() { echo "oomdoctor-$version-$1"; }
deb_name() { echo "oomdoctor_${version}_$(deb_architecture "$1").deb"; }
rpm_name() { echo "oomdoctor-$version-1.${1%%-*}.rpm"; }
sbom_name() { echo "oomdoctor-$version-$1.cdx.json"; }
crate_name() { echo "oomdoctor-$version.crate"; }

deb_architecture() {
  case $1 in
    x86_64-*) echo amd64 ;;
    aarch64-*) echo arm64 ;;
    *) echo "no Debian architecture is known for $1" >&2; return 1 ;;
  esac
}

print_names() {
  local target
  for target in "${targets[@]}"; do
    echo "$(archive_name "$target").tar.gz"
    deb_name "$target"
    rpm_name "$target"
    sbom_name "$target"
  done
  crate_name
  printf '%s\n' SHA256SUMS homebrew/oomdoctor.rb aur/oomdoctor-bin/PKGBUILD aur/oomdoctor/PKGBUILD nix/oomdoctor.nix
}

prepare_work_folder() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  # makepkg runs as another user and has to reach its folder below this one.
  chmod 755 "$work"
  target_folder=${CARGO_TARGET_DIR:-$repository_root/target}
  PATH=$target_folder/release-tools/bin:$PATH
  rows=$work/rows missing=$work/missing failures=$work/failures
  # Without leave to use the network, cargo takes what it has.
  cargo_network=(--offline)
  if [ "$can_fetch" = 1 ]; then cargo_network=(); fi
  touch "$rows" "$missing" "$failures"
  host=$(rustc -vV | sed -n 's/^host: //p')
  # Every file in a result carries the time of the commit, so that the same commit gives the same bytes.
  if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)
  fi
  export SOURCE_DATE_EPOCH
}

is_chosen() {
  local stage
  for stage in "${chosen_stages[@]}"; do
    [ "$stage" != "$1" ] || return 0
  done
  return 1
}

heading() { printf '\n== %s\n' "$1"; }

# made FILE GLIBC TRIED: one line of the final table. TRIED is "yes", or why not.
made() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$rows"; echo "made ${1#"$out"/} (installed and ran: $3)"; }
not_done() { printf '%s: needs %s\n' "$1" "$2" >>"$missing"; echo "not done: $1: needs $2"; }
failed() { echo "$1" >>"$failures"; echo "FAILED: $1" >&2; }

has() { command -v "$1" >/dev/null 2>&1; }

# has_cargo_tool NAME VERSION: true if the tool is here, or could be fetched.
has_cargo_tool() {
  has "$1" && return 0
  [ "$can_fetch" = 1 ] || return 1
  # Without its own target folder, a cross-built CARGO_BUILD_TARGET would reach the tool as well.
  CARGO_TARGET_DIR=$target_folder/release-tools/build \
    cargo install --locked --version "$2" --root "$target_folder/release-tools" "$1"
}

# The newest glibc that a program's symbols ask for, such as 2.28; readelf reads every architecture.
glibc_of() {
  readelf --version-info --wide "$1" | grep -o 'GLIBC_[0-9][0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -1
}

is_newer_glibc() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | tail -1)" = "$1" ]; }

program_of() { echo "$work/programs/$1/release/oomdoctor"; }
has_program() { [ -x "$(program_of "$1")" ]; }

print_table() {
  local file glibc tried size
  heading results
  printf '%-58s %10s  %-6s %s\n' artifact bytes glibc "installed and ran"
  while IFS=$'\t' read -r file glibc tried; do
    size=$(stat -c %s "$file")
    printf '%-58s %10s  %-6s %s\n' "${file#"$out"/}" "$size" "$glibc" "$tried"
  done <"$rows"
  if [ -z "$repository" ]; then
    echo
    echo "Cargo.toml has no repository: the recipes point at $address and cannot be published."
  fi
  if [ -s "$missing" ]; then
    echo
    sed 's/^/not done: /' "$missing"
  fi
}

exit_by_outcome() {
  if [ -s "$failures" ]; then
    echo
    sed 's/^/FAILED: /' "$failures" >&2
    exit 1
  fi
  if [ "$is_strict" = 1 ]; then
    if [ -s "$missing" ] || [ -z "$repository" ]; then exit 1; fi
  fi
}
