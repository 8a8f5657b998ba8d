# shellcheck shell=bash
# shellcheck disable=SC2154
# The wheels, made by packaging/python/build.sh. It also tries the wheel of this machine, with pip, uv, pipx and the hook's tests.

make_wheel() {
  local target
  if [ ! -x packaging/python/build.sh ]; then
    not_done wheel packaging/python/build.sh
  elif ! has maturin; then
    not_done wheel "maturin (pip install maturin)"
  else
    for target in "${targets[@]}"; do
      if has_program "$target"; then make_wheel_of "$target" || failed "wheel of $target"; fi
    done
  fi
}

make_wheel_of() {
  local folder=$work/wheels/$1 wheel answer
  mkdir -p "$folder"
  packaging/python/build.sh --binary "$(program_of "$1")" "$folder" || return 1
  wheel=$(find "$folder" -name "oomdoctor-$version-*.whl")
  [ -n "$wheel" ] || return 1
  cp "$wheel" "$out/"
  if is_of_host "$1"; then answer=yes; else answer=$(tried try_wheel "$1" "$wheel"); fi
  made "$out/$(basename "$wheel")" "$(glibc_of "$(program_of "$1")")" "$answer"
}

# A wheel of another architecture: pip would refuse it here, so its program is taken out and run.
try_wheel() {
  local root
  root=$(clean_root "$1" "wheel-$1") || return 1
  python3 -m zipfile -e "$2" "$work/wheels/unpacked-$1" || return 1
  install -m 755 "$work/wheels/unpacked-$1/oomdoctor-$version.data/scripts/oomdoctor" "$root/usr/bin/" || return 1
  has_right_answers run_in "$root" "$1" /usr/bin/oomdoctor
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

# pip builds it, without the optimizer to save time; the target folder is kept for the next run.
try_sdist() {
  local environment=$work/sdist offline=true
  if [ "$can_fetch" = 1 ]; then offline=false; fi
  python3 -m venv "$environment" || needs "venv (apt install python3-venv)" || return 1
  # Without its own environment for the build, which would be loaded from the index, pip takes the maturin that is here.
  PYTHONPATH=$(python3 -c 'import maturin, pathlib; print(pathlib.Path(maturin.__file__).parent.parent)') \
    CARGO_NET_OFFLINE=$offline CARGO_TARGET_DIR=$target_folder/release-sdist MATURIN_PEP517_ARGS="--profile dev" \
    "$environment/bin/pip" install --quiet --disable-pip-version-check --no-index --no-build-isolation "$2" || return 1
  has_right_answers "$environment/bin/oomdoctor"
}
