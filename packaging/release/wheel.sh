# shellcheck shell=bash
# shellcheck disable=SC2154
# The wheel, made and tried by packaging/python/build.sh.

make_wheel() {
  local wheel
  if [ ! -x packaging/python/build.sh ]; then
    not_done wheel packaging/python/build.sh
    return
  fi
  if ! has_program "$host"; then
    not_done wheel "a program for $host"
    return
  fi
  packaging/python/build.sh --binary "$(program_of "$host")" "$out" || { failed wheel; return; }
  for wheel in "$out"/oomdoctor-"$version"-*.whl; do
    [ -e "$wheel" ] || { failed "no wheel in $out"; return; }
    made "$wheel" "$(glibc_of "$(program_of "$host")")" yes
  done
}

# The source distribution for PyPI: `pip install` builds it where there is no wheel, and then needs Rust.
make_sdist() {
  local file=$out/oomdoctor-$version.tar.gz
  if [ ! -e packaging/python/pyproject.toml ]; then
    not_done sdist packaging/python/pyproject.toml
  elif ! has maturin; then
    not_done sdist "maturin (pip install maturin)"
  else
    (cd packaging/python && maturin sdist --out "$out") || { failed sdist; return; }
    made "$file" - "$(tried try_sdist - "$file")"
  fi
}

# What cargo needs to build must be in it.
try_sdist() {
  local file
  for file in Cargo.toml Cargo.lock src/build.rs assets/demo.jsonl; do
    tar --list --file "$2" | grep -q "^oomdoctor-$version/$file\$" || says "the sdist lacks $file" || return 1
  done
}
