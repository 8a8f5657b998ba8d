# shellcheck shell=bash
# shellcheck disable=SC2154
# The Debian packages and the RPMs.

# The versions that a release was last made with (crates.io, checked 2026-11-22).
cargo_deb_version=3.8.0
cargo_generate_rpm_version=0.21.1

make_packages() {
  local target
  for target in "${targets[@]}"; do
    if has_program "$target" && [ -n "${extras:-}" ]; then
      make_deb "$target" || failed "Debian package of $target"
      make_rpm "$target" || failed "RPM of $target"
    fi
  done
}

make_deb() {
  local file
  file=$out/$(deb_name "$1")
  if ! has_cargo_tool cargo-deb "$cargo_deb_version"; then
    not_done "$(basename "$file")" "cargo-deb (cargo install --locked cargo-deb, or --fetch-tools)"
    return 0
  fi
  with_program_in_place "$1" cargo deb --no-build --no-strip --locked --target "$1" --output "$file" || return 1
  made "$file" "$(glibc_of "$(program_of "$1")")" "$(tried try_deb "$1" "$file")"
}

make_rpm() {
  local file
  file=$out/$(rpm_name "$1")
  if ! has_cargo_tool cargo-generate-rpm "$cargo_generate_rpm_version"; then
    not_done "$(basename "$file")" "cargo-generate-rpm (cargo install --locked cargo-generate-rpm, or --fetch-tools)"
    return 0
  fi
  # xz is smaller than the zstd that is the default, and rpm reads it since before glibc 2.28.
  with_program_in_place "$1" cargo generate-rpm --target "$1" --target-dir "$work/packages" \
    --auto-req "$repository_root/packaging/release/find_requires.sh" --payload-compress xz --output "$file" || return 1
  made "$file" "$(glibc_of "$(program_of "$1")")" "$(tried try_rpm "$1" "$file")"
}

# Both tools take the program from TARGET/release below the target folder, whatever Cargo.toml calls it.
with_program_in_place() {
  local target=$1
  shift
  mkdir -p "$work/packages/$target/release"
  cp "$(program_of "$target")" "$work/packages/$target/release/oomdoctor"
  CARGO_TARGET_DIR=$work/packages "$@"
}
