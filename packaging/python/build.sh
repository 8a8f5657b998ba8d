#!/bin/sh
# usage: build.sh [--binary PROGRAM] [--no-ipython] [OUT]
#
# Builds the wheel into OUT (target/wheels by default), installs it into fresh environments with pip, uv and pipx, runs the program
# there, and runs the tests of the hook against the installed package. Prints sizes; fails if anything fails.
#
#   --binary PROGRAM   pack this program instead of building one. The wheel's tag then comes from the program, which may also be for
#                      another architecture; such a wheel is packed but not tested.
#   --no-ipython       do not install IPython, for a machine without a network. Its tests are then skipped.
#
# The platform tag is that of the oldest glibc which the program runs with: this machine's, or 2.28 where zig is installed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
binary='' out='' ipython=yes
while [ $# -gt 0 ]; do
  case $1 in
    --binary) binary=${2:?--binary needs a program}; shift 2 ;;
    --no-ipython) ipython=no; shift ;;
    -*) echo "build.sh: unknown option $1" >&2; exit 2 ;;
    *) out=$1; shift ;;
  esac
done
out=${out:-"${CARGO_TARGET_DIR:-$repository/target}/wheels"}
mkdir -p "$out"
out=$(cd "$out" && pwd)
if [ -n "$binary" ]; then
  binary=$(cd "$(dirname "$binary")" && pwd)/$(basename "$binary")
fi
python=${PYTHON:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say() { printf '== %s\n' "$*"; }
has() { command -v "$1" > /dev/null 2>&1; }
fail() { echo "build.sh: $*" >&2; exit 1; }

has maturin || fail 'needs maturin: pip install maturin'

# Every build starts in an empty folder: a wheel of an earlier build must not be taken for this one.
build_wheel() {
  if [ -n "$binary" ]; then
    "$python" "$here/repack.py" "$binary" "$scratch/wheel" > /dev/null
    return
  fi
  set -- build --release --out "$scratch/wheel"
  if has zig || "$python" -c 'import ziglang' 2> /dev/null; then
    set -- "$@" --zig --compatibility manylinux_2_28
  fi
  # In this folder maturin finds pyproject.toml; with --manifest-path it would look beside Cargo.toml, and leave the package out.
  (cd "$here" && maturin "$@")
}

is_for_this_machine() {
  case $1 in
    *"$(uname -m).whl") return 0 ;;
    *) return 1 ;;
  esac
}

check_contents() {
  "$python" - "$1" << 'EOF'
import re, sys, zipfile

wheel = zipfile.ZipFile(sys.argv[1])
names = wheel.namelist()
for ending in ("oomdoctor/hook.py", "oomdoctor/py.typed", ".data/scripts/oomdoctor", "licenses/LICENSE-MIT", "licenses/LICENSE-APACHE"):
    if not any(name.endswith(ending) for name in names):
        sys.exit("build.sh: the wheel lacks " + ending)
extra = [name for name in names if not re.match(r"oomdoctor/[^/]+$|oomdoctor-[^/]+\.(data|dist-info)/", name)]
if extra:
    sys.exit("build.sh: the wheel has files that do not belong there: " + ", ".join(extra))
EOF
}

# Runs the commands that every installation must pass; the arguments are what starts the program.
check_program() {
  "$@" --version | grep -q "^oomdoctor $version\$" || fail "$* --version is not $version"
  "$@" diagnose --no-live "$scratch/crash.log" > "$scratch/answer" || fail "$* diagnose failed"
  grep -q '2\.5 GiB' "$scratch/answer" || fail "$* diagnose lacks the figure of the log"
}

check_pip() {
  "$python" -m venv "$scratch/venv"
  "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
  check_program "$scratch/venv/bin/oomdoctor"
  check_program "$scratch/venv/bin/python" -m oomdoctor
}

check_pip_target() {
  PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --disable-pip-version-check --no-index \
    --target "$scratch/target" "$wheel"
  check_program env PYTHONPATH="$scratch/target" "$python" -m oomdoctor
}

check_uv() {
  has uv || { say 'uv: not tested, it is not installed (pip install uv)'; return; }
  home="$scratch/uv"
  mkdir -p "$home"
  for_uv() {
    env HOME="$home" UV_CACHE_DIR="$home/cache" UV_TOOL_DIR="$home/tools" UV_TOOL_BIN_DIR="$home/bin" UV_OFFLINE=1 UV_NO_CONFIG=1 \
      UV_PYTHON_DOWNLOADS=never UV_PYTHON="$("$python" -c 'import sys; print(sys.executable)')" uv --quiet "$@"
  }
  check_program for_uv tool run --no-index --from "$wheel" oomdoctor
  for_uv tool install --no-index "$wheel"
  check_program "$home/bin/oomdoctor"
}

check_pipx() {
  has pipx || { say 'pipx: not tested, it is not installed (pip install pipx)'; return; }
  home="$scratch/pipx"
  mkdir -p "$home"
  # pipx asks the index for its own shared pip first; without a network it uses the one that comes with venv.
  for_pipx() {
    env HOME="$home" PIPX_HOME="$home/pipx" PIPX_BIN_DIR="$home/bin" PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
      PIPX_DEFAULT_PYTHON="$("$python" -c 'import sys; print(sys.executable)')" pipx "$@" 2> "$home/log" || { cat "$home/log" >&2; return 1; }
  }
  check_program for_pipx run --spec "$wheel" oomdoctor
}

check_hook() {
  if [ $ipython = yes ]; then
    "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check ipython ipykernel jupyter_client ||
      say 'IPython: not tested, it could not be installed'
  fi
  env -u PYTHONPATH OOMDOCTOR_TEST_INSTALLED=1 "$scratch/venv/bin/python" -m unittest discover -s "$here/tests"
}

cat > "$scratch/crash.log" << 'EOF'
Traceback (most recent call last):
  File "train.py", line 88, in forward
    return self.attention(x)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.06 GiB is free. Including non-PyTorch memory, this process has 22.58 GiB memory in use. Of the allocated memory 22.05 GiB is allocated by PyTorch, and 41.88 MiB is reserved by PyTorch but unallocated.
EOF
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$repository/Cargo.toml" | head -n 1)

say 'build'
build_wheel
wheel=$(ls "$scratch"/wheel/*.whl)
check_contents "$wheel"
cp "$wheel" "$out/"
# Not here, where Python would import the package from the source.
cd "$scratch"
if is_for_this_machine "$wheel"; then
  say 'pip install'
  check_pip
  check_pip_target
  say 'uv'
  check_uv
  say 'pipx'
  check_pipx
  say 'hook'
  check_hook
else
  say "not tested: $(basename "$wheel") is not for $(uname -m)"
fi
say "$(basename "$wheel"): $(wc -c < "$wheel") bytes"
