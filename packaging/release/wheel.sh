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
