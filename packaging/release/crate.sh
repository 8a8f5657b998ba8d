# shellcheck shell=bash
# shellcheck disable=SC2154
# The crate as crates.io would get it.

make_crate() {
  local file size
  file=$out/$(crate_name)
  pack_crate || { failed crate; return; }
  cp "$packed_crate" "$file"
  size=$(stat -c %s "$file")
  [ "$size" -lt "$crate_limit" ] || failed "the crate has $size bytes; crates.io takes $crate_limit"
  made "$file" - "$(tried try_crate - "$file")"
}

# A crate with changes that are not committed is good for a trial only.
pack_crate() {
  local dirty=(--allow-dirty)
  packed_crate=$work/crate-target/package/$(crate_name)
  [ ! -e "$packed_crate" ] || return 0
  if [ "$is_strict" = 1 ]; then dirty=(); fi
  cargo package --locked "${cargo_network[@]}" --no-verify --quiet "${dirty[@]}" --target-dir "$work/crate-target"
}

# Unpacks the crate once and prints its folder.
unpacked_crate() {
  local folder=$work/crate/oomdoctor-$version
  if [ ! -d "$folder" ]; then
    pack_crate >&2 && mkdir -p "$work/crate" && tar --directory "$work/crate" --extract --file "$packed_crate" || return 1
  fi
  echo "$folder"
}

# `cargo install` as a user would run it, without the optimizer to save time; the target folder is kept for the next run.
try_crate() {
  local folder
  folder=$(unpacked_crate) || return 1
  [ "$(find "$folder/knowledge" -type f | wc -l)" = "$(find knowledge -type f | wc -l)" ] ||
    says "the crate lacks files of knowledge/" || return 1
  cargo install --locked "${cargo_network[@]}" --debug --quiet --path "$folder" --root "$work/cargo-root" \
    --target-dir "$target_folder/release-crate" || return 1
  has_right_answers "$work/cargo-root/bin/oomdoctor"
}
