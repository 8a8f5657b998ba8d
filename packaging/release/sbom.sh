# shellcheck shell=bash
# shellcheck disable=SC2154
# The lists of what is linked into each program, as CycloneDX JSON.

# cargo-cyclonedx is the CycloneDX project's own tool and is released regularly (0.5.9; checked 2026-11-22).
cyclonedx_version=0.5.9

make_sbom() {
  local target
  if ! has_cargo_tool cargo-cyclonedx "$cyclonedx_version"; then
    not_done SBOM "cargo-cyclonedx (cargo install --locked cargo-cyclonedx, or --fetch-tools)"
    return
  fi
  if ! has python3; then
    not_done SBOM "python3 (apt install python3)"
    return
  fi
  for target in "${targets[@]}"; do
    make_sbom_of "$target" || failed "SBOM of $target"
  done
}

# The tool writes beside Cargo.toml, so it works on an unpacked crate instead of the checkout.
make_sbom_of() {
  local target=$1 source file
  file=$out/$(sbom_name "$target")
  source=$(unpacked_crate) || return 1
  (
    cd "$source"
    cargo cyclonedx --format json --spec-version 1.5 --target "$target" --no-build-deps --override-filename sbom --quiet
  ) || return 1
  # The folder that the crate was unpacked into says nothing to a reader, and differs from run to run.
  sed "s|path+file://$source|path+file:///oomdoctor|g" "$source/sbom.json" >"$work/sbom.json"
  keep_linked "$target" "$file" || return 1
  made "$file" - "-"
}

keep_linked() {
  local linked
  linked=$(cargo tree --locked "${cargo_network[@]}" --edges normal,no-proc-macro --target "$1" --prefix none --format '{p}' |
    sed 's/ (.*//; s/ v/ /' | sort -u) || return 1
  python3 packaging/release/sbom.py "$work/sbom.json" "$2" "$version" <<<"$linked"
}
