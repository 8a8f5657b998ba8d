# shellcheck shell=bash
# shellcheck disable=SC2154
# The archives and the checksums of everything.

make_archives() {
  local target
  for target in "${targets[@]}"; do
    if has_program "$target" && [ -n "${extras:-}" ]; then make_archive "$target"; fi
  done
  check_binstall
}

make_archive() {
  local name folder file
  name=$(archive_name "$1")
  folder=$work/archives/$name
  file=$out/$name.tar.gz
  mkdir -p "$folder/extras"
  install -m 755 "$(program_of "$1")" "$folder/oomdoctor"
  install -m 644 "$extras"/oomdoctor.1 "$extras"/oomdoctor.bash "$extras"/_oomdoctor "$extras"/oomdoctor.fish "$folder/extras/"
  install -m 644 README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$folder/"
  pack_reproducibly "$work/archives" "$name" "$file"
  made "$file" "$(glibc_of "$(program_of "$1")")" "$(tried try_archive "$1" "$file")"
}

# The same files give the same bytes: sorted names, one time, no owner, and gzip without its own time.
pack_reproducibly() {
  tar --directory "$1" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mode='u+rw,go+r-w' \
    --mtime="@$SOURCE_DATE_EPOCH" --create "$2" | gzip -9 --no-name >"$3"
}

check_binstall() {
  if ! has python3; then
    not_done "check of the cargo-binstall template" "python3 (apt install python3)"
  elif ls "$out"/oomdoctor-"$version"-*.tar.gz >/dev/null 2>&1; then
    python3 packaging/release/binstall.py "$out" || failed "the cargo-binstall template names no archive"
  fi
}

make_checksums() {
  local file
  (
    cd "$out"
    rm -f SHA256SUMS ./*.sha256
    for file in *; do
      [ -f "$file" ] || continue
      sha256sum "$file" | tee "$work/sum" >>"$work/sums"
      cp "$work/sum" "$file.sha256"
    done
    cp "$work/sums" SHA256SUMS
    sha256sum --check --quiet SHA256SUMS
  ) || failed "checksums"
}
