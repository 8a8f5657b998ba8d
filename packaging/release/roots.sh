# shellcheck shell=bash
# shellcheck disable=SC2154
# Clean roots: folders that hold the C library and nothing else, in which a result is installed and run.

# tried FUNCTION TARGET FILE: prints "yes", or why not, for the final table. A function read_… checks without installing.
tried() {
  if [ "$can_try" = 0 ]; then
    echo "not tried"
    return
  fi
  : >"$work/need"
  if "$@" >&2; then
    case $1 in
      read_*) echo "no: checked, not built" ;;
      *) echo yes ;;
    esac
  elif [ -s "$work/need" ]; then
    not_done "trial of $(basename "$3")" "$(cat "$work/need")" >&2
    echo "no: needs $(cat "$work/need")"
  else
    failed "trial of $(basename "$3")"
    echo FAILED
  fi
}

# Says what a trial needs; the trial then counts as not done instead of failed.
needs() {
  echo "$1" >"$work/need"
  return 1
}

emulator_of() { echo "qemu-${1%%-*}-static"; }
library_folder_of() { echo "/usr/${1%%-*}-linux-gnu"; }
is_of_host() { [ "${1%%-*}" = "${host%%-*}" ]; }

# clean_root TARGET NAME: makes a new root and prints its path.
clean_root() {
  local root=$work/roots/$2
  [ "$(id -u)" = 0 ] || needs "root, for chroot" || return 1
  rm -rf "$root"
  mkdir -p "$root/tmp" "$root/home" "$root/proc" "$root/usr/bin"
  if is_of_host "$1"; then
    copy_libraries_of_host "$1" "$root" || return 1
  else
    copy_foreign_libraries "$1" "$root" || return 1
  fi
  echo "$root"
}

copy_libraries_of_host() {
  local library
  for library in $(ldd "$(program_of "$1")" | grep -o '/[^ ]*'); do
    cp --dereference --parents "$library" "$2/" || return 1
  done
}

copy_foreign_libraries() {
  local folder emulator package
  folder=$(library_folder_of "$1")
  emulator=$(emulator_of "$1")
  package=$(deb_architecture "$1")-cross
  has "$emulator" || needs "$emulator (apt install qemu-user-static)" || return 1
  [ -e "$folder/lib/libc.so.6" ] || needs "the C library (apt install libc6-$package libgcc-s1-$package)" || return 1
  mkdir -p "$2/lib" && cp --dereference "$folder"/lib/*.so.* "$2/lib/" &&
    cp "$(command -v "$emulator")" "$2/emulator"
}

# run_in ROOT TARGET PROGRAM ARGUMENT...: runs an installed program in a root, with an empty environment.
run_in() {
  local root=$1 target=$2
  shift 2
  if ! is_of_host "$target"; then set -- /emulator "$@"; fi
  # A container may forbid to mount; the root then has no /proc.
  if unshare --mount --pid --fork --mount-proc true 2>/dev/null; then
    env -i PATH=/usr/bin HOME=/home TERM=dumb "$(command -v unshare)" --mount --pid --fork --mount-proc --root="$root" "$@"
  else
    env -i PATH=/usr/bin HOME=/home TERM=dumb "$(command -v chroot)" "$root" "$@"
  fi
}

# `grep -q` stops reading at the first match, which pipefail would take for a failure of the program: none is used after a pipe.
#
# has_right_answers COMMAND...: compares what an installed program says with what is known. The command takes the arguments
# of oomdoctor, so it may be a program or `run_in ROOT TARGET PROGRAM`.
has_right_answers() {
  local log answer code
  log=$repository_root/packaging/release/oom.log
  [ "$("$@" --version)" = "oomdoctor $version" ] || says "--version: $("$@" --version 2>&1)" || return 1
  "$@" --help | grep diagnose >/dev/null || says "--help does not name diagnose" || return 1
  answer=$("$@" diagnose --no-live - <"$log") || says "diagnose ended with $?" || return 1
  case $answer in
    *2.5*) ;;
    *) says "diagnose does not name the 2.5 GiB that were requested: $answer" || return 1 ;;
  esac
  "$@" diagnose --no-live --json - <"$log" | grep '"requested_bytes":2684354560[,}]' >/dev/null ||
    says "diagnose --json has another request" || return 1
  code=0
  echo "step 1 loss 2.3" | "$@" diagnose --no-live - >/dev/null || code=$?
  [ "$code" = 1 ] || says "a log without a memory error ended with $code, not 1" || return 1
  "$@" kb list | grep pytorch/cuda-out-of-memory >/dev/null || says "kb list lacks an entry" || return 1
  code=0
  answer=$("$@" --nvml-library /nowhere ps 2>&1) || code=$?
  [ "$code" = 1 ] || says "ps without a driver ended with $code, not 1" || return 1
  # Without /proc, and under an emulator, the program cannot start itself a second time as the sampler.
  case $answer in
    *"/nowhere could not be loaded"* | *"sampler could not be run"*) ;;
    *) says "ps without a driver said: $answer" || return 1 ;;
  esac
}

says() {
  echo "wrong answer: $1" >&2
  return 1
}

# has_papers FOLDER: the manual page and the completions of a package, below its /usr/share.
has_papers() {
  local file
  for file in man/man1/oomdoctor.1 bash-completion/completions/oomdoctor fish/vendor_completions.d/oomdoctor.fish; do
    # Debian compresses the manual page.
    [ -s "$1/$file" ] || [ -s "$1/$file.gz" ] || says "no $file" || return 1
  done
  [ -s "$1/zsh/vendor-completions/_oomdoctor" ] || [ -s "$1/zsh/site-functions/_oomdoctor" ] || says "no zsh completion" || return 1
  grep -rqs 'Permission is hereby granted' "$1/doc/oomdoctor" "$1/licenses" || says "no license text" || return 1
}

try_archive() {
  local root
  root=$(clean_root "$1" "archive-$1") || return 1
  mkdir "$root/opt" && tar --directory "$root/opt" --extract --file "$2" || return 1
  [ -s "$root/opt/$(archive_name "$1")/extras/oomdoctor.1" ] || says "no manual page" || return 1
  has_right_answers run_in "$root" "$1" "/opt/$(archive_name "$1")/oomdoctor" || return 1
  # Once for each program: under an emulator this takes most of a minute.
  run_in "$root" "$1" "/opt/$(archive_name "$1")/oomdoctor" kb check >/dev/null || says "kb check failed"
}

try_deb() {
  local root
  has dpkg || needs "dpkg (apt install dpkg)" || return 1
  root=$(clean_root "$1" "deb-$1") || return 1
  make_dpkg_database "$1" "$root" || return 1
  dpkg --root="$root" --install "$2" || return 1
  dpkg --root="$root" --verify oomdoctor || return 1
  has_papers "$root/usr/share" || return 1
  has_right_answers run_in "$root" "$1" /usr/bin/oomdoctor || return 1
  dpkg --root="$root" --purge oomdoctor || return 1
  if find "$root" -name '*oomdoctor*' -not -path '*/var/*' | grep .; then says "files are left after removal" || return 1; fi
}

# dpkg checks the dependencies of the package against the C library whose files are in the root.
make_dpkg_database() {
  local name installed architecture
  architecture=$(deb_architecture "$1")
  mkdir -p "$2/var/lib/dpkg/info" "$2/var/lib/dpkg/updates" "$2/var/lib/dpkg/triggers" "$2/var/log" || return 1
  printf '%s\n' "$(dpkg --print-architecture)" "$architecture" | sort -u >"$2/var/lib/dpkg/arch"
  for name in libc6 libgcc-s1; do
    if is_of_host "$1"; then
      installed=$(dpkg-query --show --showformat '${Version}' "$name:$architecture") || return 1
    else
      installed=$(dpkg-query --show --showformat '${Version}' "$name-$architecture-cross") || return 1
    fi
    printf '%s\n' "Package: $name" "Status: install ok installed" "Architecture: $architecture" "Version: $installed" \
      "Multi-Arch: same" "Maintainer: copied from this machine" "Description: files of this machine" ""
    : >"$2/var/lib/dpkg/info/$name:$architecture.list"
  done >"$2/var/lib/dpkg/status"
}

try_rpm() {
  local root
  has rpm || needs "rpm (apt install rpm)" || return 1
  root=$(clean_root "$1" "rpm-$1") || return 1
  # The root has a C library, but no RPM that would say so: what the package requires is compared with the program instead.
  requires_libraries "$1" "$2" || return 1
  rpm --root "$root" --dbpath /var/lib/rpm --install --nodeps --ignorearch "$2" || return 1
  rpm --root "$root" --dbpath /var/lib/rpm --verify --nodeps oomdoctor || return 1
  has_papers "$root/usr/share" || return 1
  has_right_answers run_in "$root" "$1" /usr/bin/oomdoctor || return 1
  rpm --root "$root" --dbpath /var/lib/rpm --erase oomdoctor || return 1
  if find "$root" -type f -name '*oomdoctor*' | grep .; then says "files are left after removal" || return 1; fi
}

# An RPM without requirements would install on a system that is too old.
requires_libraries() {
  local wanted
  wanted="libc.so.6(GLIBC_$(glibc_of "$(program_of "$1")"))(64bit)"
  rpm --query --package --requires "$2" 2>/dev/null | grep -xF "$wanted" >/dev/null || says "the RPM does not require $wanted" || return 1
}
