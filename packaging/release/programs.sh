# shellcheck shell=bash
# shellcheck disable=SC2154
# The programs: given, built in a container of an old glibc, or built with zig against one.

make_programs() {
  local target
  for target in "${targets[@]}"; do
    mkdir -p "$(dirname "$(program_of "$target")")"
    if [ -n "${given_programs[$target]:-}" ]; then
      install -m 755 "${given_programs[$target]}" "$(program_of "$target")"
    else
      build_program "$target" || failed "building the program for $target"
    fi
    if has_program "$target"; then check_program "$target"; fi
  done
  make_extras
}

build_program() {
  local target=$1 installed
  installed=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed 's/.* //')
  if [ "$target" = "$host" ] && [ -n "$installed" ] && ! is_newer_glibc "$installed" "$glibc_limit"; then
    cargo build --locked --release --bin oomdoctor --target "$target" || return 1
  elif has cargo-zigbuild && { has zig || python3 -m ziglang version >/dev/null 2>&1; }; then
    # The version behind the target is the glibc that zig links against (cargo-zigbuild's README, checked 2026-11-22).
    cargo zigbuild --locked --release --bin oomdoctor --target "$target.$glibc_limit" || return 1
  elif [ "$target" = "$host" ]; then
    echo "no zig here: this program will need glibc $installed, not $glibc_limit"
    cargo build --locked --release --bin oomdoctor --target "$target" || return 1
  else
    not_done "program for $target" "zig (pip install cargo-zigbuild ziglang; rustup target add $target), or --program"
    return 0
  fi
  install -m 755 "$target_folder/$target/release/oomdoctor" "$(program_of "$target")"
}

# A release must start on the oldest glibc that it names and stay below the size limit.
check_program() {
  local program glibc
  program=$(program_of "$1")
  glibc=$(glibc_of "$program")
  echo "$1: glibc $glibc"
  packaging/release/size.sh "$program" || failed "the program for $1 is too large"
  if is_newer_glibc "$glibc" "$glibc_limit"; then
    if [ "$allows_newer_glibc" = 1 ]; then
      not_done "release of $1" "a program for glibc $glibc_limit: this one needs $glibc"
    else
      failed "the program for $1 needs glibc $glibc; a release may need $glibc_limit at most"
      rm -f "$program"
    fi
  fi
}

# Completions and the manual page are the same for every target: the first program that runs here writes them.
make_extras() {
  local target
  extras=$target_folder/extras
  for target in "${targets[@]}"; do
    if has_program "$target" && "$(program_of "$target")" --version >/dev/null 2>&1; then
      packaging/extras.sh "$(program_of "$target")" "$extras"
      return
    fi
  done
  # The foreign program runs under qemu with the libraries of its cross package.
  for target in "${targets[@]}"; do
    if has_program "$target" && has "$(emulator_of "$target")"; then
      packaging/extras.sh "$(program_of "$target")" "$extras" "$(emulator_of "$target")" -L "$(library_folder_of "$target")"
      return
    fi
  done
  not_done "completions and manual page" "a program that runs here"
}
