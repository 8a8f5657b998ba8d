"""Recognizes an out-of-memory error, asks the program for the verdict on it, and prints that.

No framework is imported here: classes are recognized by their names, errors by their text. Names and texts were read or raised in
torch 2.15.0, jax 0.10.2, tensorflow-cpu 2.21.0 and cupy-cuda12x 14.2.0, and read in torch 2.1.2 and 2.4.1 (checked 2026-11-22).
"""

import os
import sys

__all__ = ["find_out_of_memory", "print_verdict"]

# A driver that hangs must not keep a failed job alive for longer than this.
TIMEOUT_SECONDS = 20.0

# How long a killed program may take to disappear. One that is stuck in the driver cannot be killed and is left behind.
KILL_SECONDS = 1.0

# So much of what the program says on stderr is repeated.
_LONGEST_TROUBLE = 300

# Nobody reads a longer command line, and the system limits the size of an argument.
_LONGEST_COMMAND_LINE = 4096

# A command line with one of these may hold a secret, which must not get into the job's log. `--max-tokens` and `--tokenizer` do not.
_SECRET_TEXT = (
    r"token(?!s\b|iz)|secret|passw|credential|api[-_]?key|access[-_]?key|\b(?:hf_|sk-|gh[pousr]_|glpat-|AKIA)\w|://[^/\s]*@"
)

# Errors that end a program on purpose. What they interrupted is not asked about, even if that was an out-of-memory error.
_NOT_FAILURES = (KeyboardInterrupt, SystemExit, GeneratorExit)

# Classes that always mean out of memory.
_OUT_OF_MEMORY_CLASSES = frozenset(
    [
        "torch.OutOfMemoryError",  # since 2.5; AcceleratorError and plain RuntimeError are decided by their text
        "torch.cuda.OutOfMemoryError",  # 1.13 to 2.4
        "cupy.cuda.memory.OutOfMemoryError",
    ]
)

# Text that means out of memory in an error of these packages. PyTorch also raises RuntimeError itself for the CPU, MPS, cuBLAS and
# cuDNN, and so did all of its versions before 1.13; see `_LINE_PREFIX`.
_DEVICE_ERROR_PACKAGES = frozenset(["torch", "cupy", "cupy_backends"])
_OUT_OF_MEMORY = r"out[ _]of[ _](?:(?:device|gpu|host|video)[ _])?memory|outof(?:device)?memory"
_DEVICE_TEXT = (
    # "CUDA out of memory.", "MPS backend out of memory", "HIP error: out of memory", "CUDA_ERROR_OUT_OF_MEMORY",
    # "Cuda failure 2 'out of memory'", "cuda runtime error (2) : out of memory", "Triton Error [CUDA]: out of memory"
    r"(?:\b|_)(?:cuda|cu|hip|rocm|xpu|sycl|mps|npu|mlu|musa|hpu|vulkan|nccl|gpu|device)(?:\b|_|error|failure)[^\n]{0,200}?(?:"
    + _OUT_OF_MEMORY
    + ")"
)
_ALLOCATOR_TEXT = (
    r"CU(?:BLAS|DNN|SOLVER|SPARSE|FFT)_(?:STATUS_)?ALLOC_FAILED|HIP(?:BLAS|SPARSE|SOLVER|FFT)_(?:STATUS_)?ALLOC_FAILED"
    r"|cudaErrorMemoryAllocation|hipErrorOutOfMemory|DefaultCPUAllocator: (?:can't allocate|not enough) memory|C10 Out of Memory"
    r"|Invalid buffer size: [\d.]+ [KMGT]i?B"  # MPS: one buffer larger than Metal allows
    r"|(?:UR_RESULT|PI|ZE_RESULT)_ERROR_OUT_OF_(?:DEVICE_MEMORY|HOST_MEMORY|RESOURCES)"
)

# What may stand before such a text on its line in a RuntimeError: the class in a traceback that the error carries, the condition of
# an assertion in C++, the name of what failed. In the middle of a sentence the text is a quotation.
_AT_LINE_START = (
    r"(?:CUDA|HIP|XPU|SYCL|MPS|NPU|MLU|MUSA|HPU|NCCL|Triton|cuDNN|cuBLAS|OpenCL)\b[^\n]{0,60}?(?:"
    + _OUT_OF_MEMORY
    + "|"
    + _ALLOCATOR_TEXT
    + r")|DefaultCPUAllocator: (?:can't allocate|not enough) memory|Invalid buffer size: [\d.]+ [KMGT]i?B"
    r"|Native API [^\n]{0,60}_ERROR_OUT_OF_|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory"
    r"|RESOURCE_EXHAUSTED: "
)
_LINE_PREFIX = r"(?:^|\n)(?:[\w.]+(?:Error|Exception): |\[enforce fail[^\]\n]*\] [^.\n]{0,40}\. |Bad StatusOr access: )?"

# No error is searched further than this from either end of its text: a compiler's output can be megabytes long.
_SEARCHED = 64 << 10

# JAX and TensorFlow name the status RESOURCE_EXHAUSTED, which also covers full disks, too many open files and oversized messages.
_MEMORY_WORDS = r"\bOOM\b|memory|\balloc"

# TensorFlow's other errors: a failed copy to a full GPU is an InternalError.
_TENSORFLOW_TEXT = _OUT_OF_MEMORY + r"|\bOOM when allocating|Dst tensor is not initialized|failed to allocate memory"

# Where launchers put the rank of a process: torchrun, Open MPI, Slurm.
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")

# Set on an error that has had its verdict: IPython reports one error in several ways, and a thread's error can come up again in
# the main thread. Keeping the error itself would keep its frames alive, and with them the memory of their tensors.
_MARK = "_oomdoctor_has_verdict"


class _Printed:
    """What this process has printed. Threads that fail alike get one verdict, and a driver that hangs is waited for once."""

    is_busy = False
    has_timed_out = False
    texts = set()


def find_out_of_memory(error):
    """Return the out-of-memory error in what Python prints for `error`: itself, its causes and contexts, or a group's members."""
    if not isinstance(error, BaseException) or isinstance(error, _NOT_FAILURES):
        return None
    seen = set()
    waiting = [error]
    while waiting:
        candidate = waiting.pop()
        if not isinstance(candidate, BaseException) or id(candidate) in seen:
            continue
        seen.add(id(candidate))
        if _is_out_of_memory(candidate):
            return candidate
        if candidate.__cause__ is not None:
            waiting.append(candidate.__cause__)
        elif not candidate.__suppress_context__:
            waiting.append(candidate.__context__)
        members = getattr(candidate, "exceptions", None)  # ExceptionGroup, also the backport of Python 3.8 to 3.10
        if isinstance(members, (tuple, list)):
            waiting.extend(reversed(members))
    return None


def _is_out_of_memory(error):
    classes = type(error).__mro__
    if any("{}.{}".format(kind.__module__, kind.__qualname__) in _OUT_OF_MEMORY_CLASSES for kind in classes):
        return True
    packages = {str(kind.__module__).partition(".")[0] for kind in classes}
    try:
        text = str(error)
    except Exception:
        return False
    if len(text) > 2 * _SEARCHED:
        text = text[:_SEARCHED] + "\n" + text[-_SEARCHED:]
    import re

    def has(pattern):
        return re.search(pattern, text, re.IGNORECASE) is not None

    if "tensorflow" in packages:
        if any(kind.__name__ == "ResourceExhaustedError" for kind in classes):
            return has(_MEMORY_WORDS)
        return has(_TENSORFLOW_TEXT)
    # Old releases of JAX, and PyTorch/XLA, raise the builtin classes with XLA's text.
    is_plain = type(error) in (RuntimeError, ValueError)
    is_plain_xla_error = is_plain and has(_LINE_PREFIX + "RESOURCE_EXHAUSTED: ")
    if packages & {"jax", "jaxlib"} or is_plain_xla_error:
        return has(_OUT_OF_MEMORY) or (has(r"\bRESOURCE_EXHAUSTED\b") and has(_MEMORY_WORDS))
    if packages & _DEVICE_ERROR_PACKAGES:
        return has(_DEVICE_TEXT) or has(_ALLOCATOR_TEXT)
    # Python's own subclasses, such as RecursionError, and those of other libraries say what they mean by their class.
    return type(error) is RuntimeError and has(_LINE_PREFIX + "(?:" + _AT_LINE_START + ")")


def print_verdict(error, in_shell=False):
    """Print the verdict on stderr if `error` is an out-of-memory error, once for each error.

    `in_shell` is true where the process lives on after the error, as in IPython and Jupyter.
    """
    out_of_memory = find_out_of_memory(error)
    if out_of_memory is None or vars(out_of_memory).get(_MARK):
        return
    # Else the package that the script itself imports still has to.
    if _prints_verdict():
        vars(out_of_memory)[_MARK] = True
    if sys.stderr is None or _is_jax_on_cpu(out_of_memory):
        return
    # A cell that is run again is asked about again.
    text = hash(_text_of(out_of_memory))
    if _Printed.is_busy or (text in _Printed.texts and not in_shell):
        return
    _Printed.is_busy = True
    _Printed.texts.add(text)
    try:
        _print_verdict(error, out_of_memory, in_shell)
    finally:
        _Printed.is_busy = False


def _prints_verdict():
    from . import hook

    return hook.prints_verdict


def _print_verdict(error, out_of_memory, in_shell):
    try:
        # The traceback must be out before the program may take its time: Python 3.8 buffers stderr in files.
        sys.stderr.flush()
    except Exception:
        pass
    log = _traceback_text(error, out_of_memory)
    recording = sys.modules.get(__package__ + "._recording")
    if recording is not None:
        recording.write_at_failure(log)
    if _Printed.has_timed_out or not _prints_verdict():
        return
    header = _header(error, out_of_memory)
    if in_shell:
        _print(_verdict_text(log, None, header, _how_to_free(out_of_memory)))
    else:
        _print(_verdict_text(log, _command_line(), header, ""))


def _text_of(error):
    try:
        return str(error)[:_SEARCHED]
    except Exception:
        return ""


def _is_jax_on_cpu(error):
    """Return whether JAX ran out of system memory, which its message does not tell from VRAM."""
    jax = sys.modules.get("jax")
    if jax is None or not any(str(kind.__module__).startswith("jax") for kind in type(error).__mro__):
        return False
    try:
        return jax.default_backend() == "cpu"
    except Exception:
        return False


def _how_to_free(out_of_memory):
    """Return how to free what the failed cell allocated.

    IPython keeps the last traceback, and so the frames of the failed cell, until the next error. Deleting sys.last_traceback or
    running a cell without an error frees nothing (tried in ipykernel 7.4.0 with IPython 9.18.1, 2026-11-22).
    """
    is_torch = "torch" in sys.modules and not str(type(out_of_memory).__module__).startswith(("jax", "tensorflow", "cupy"))
    commands = "import gc; gc.collect()" + ("; torch.cuda.empty_cache()" if is_torch else "")
    return "The traceback keeps the failed cell's tensors allocated. To free them, run 1/0 in one cell, then: {}\n".format(
        commands
    )


def _traceback_text(error, out_of_memory):
    """Return what Python prints for `error`, chained errors included."""
    message = "{}.{}: {}\n".format(type(out_of_memory).__module__, type(out_of_memory).__qualname__, _text_of(out_of_memory))
    try:
        import traceback

        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        # Little system memory may be left, or a frame's source is unreadable. The message alone still says what ran out.
        return message
    # Python prints only the first members of a large group.
    return text if message.rstrip() in text else text + message


def _command_line():
    """Return the command that started this process, or None; the steps of the verdict show it with their change made.

    A rank has none: its own command is not what a person typed, and the program finds the launcher by the PID.
    """
    if rank() is not None or "-c" in sys.argv[:1] or not sys.argv[:1] or not sys.argv[0]:
        return None
    import re
    import shlex
    import shutil

    # orig_argv came with Python 3.10.
    words = list(getattr(sys, "orig_argv", None) or [sys.executable] + sys.argv)
    name = os.path.basename(words[0])
    if shutil.which(name) == words[0]:
        words[0] = name
    line = shlex.join(words)
    if len(line) > _LONGEST_COMMAND_LINE or re.search(_SECRET_TEXT, line, re.IGNORECASE):
        return None
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:  # The program reads UTF-8 alone.
        return None
    return line


def _verdict_text(log, command_line, header, how_to_free):
    from ._program import find_program

    program = find_program()
    if program is None:
        chosen = os.environ.get("OOMDOCTOR_PROGRAM")
        if chosen:
            return "oomdoctor: no program at OOMDOCTOR_PROGRAM={}\n".format(chosen)
        return "oomdoctor: program not found; reinstall it with: pip install --force-reinstall oomdoctor\n"
    command = [program, "diagnose", "--brief", "--run-pid", str(os.getpid())]
    if command_line is not None:
        command += ["--command", command_line]
    command.append("-")
    try:
        exit_code, verdict, trouble = _run(command, log.encode("utf-8", "backslashreplace"))
    except OSError as error:
        return "oomdoctor: cannot run {}: {}\n".format(program, error.strerror or error)
    if exit_code is None:
        _Printed.has_timed_out = True
        return "oomdoctor: no verdict within {:g} s\n".format(TIMEOUT_SECONDS)
    if exit_code < 0:
        return "oomdoctor: the program was ended by signal {}\n".format(-exit_code)
    if exit_code == 2:  # An older program without these options, or unreadable settings.
        return "oomdoctor: no verdict: {}\n".format(trouble or "{} diagnose failed".format(program))
    # 1: the program finds no out-of-memory error in the text.
    if exit_code != 0 or not verdict.strip():
        return ""
    return "\n{}\n{}\n{}".format(header, verdict.rstrip("\n"), how_to_free)


def _run(command, log):
    """Run `command` with `log` on its stdin; return its exit code, None at the time limit, its output and its last word on stderr."""
    import subprocess

    def start(close_fds):
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            close_fds=close_fds,
        )

    try:
        # Python 3.10 and newer use vfork here, which copies no page tables.
        process = start(close_fds=True)
    except OSError as error:
        import errno

        if error.errno != errno.ENOMEM:
            raise
        # Python 3.8 and 3.9 fork, which a process with a large memory may not be able to. Without close_fds they use posix_spawn.
        process = start(close_fds=False)
    try:
        output, errors = process.communicate(log, timeout=TIMEOUT_SECONDS)
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        trouble = lines[-1][:_LONGEST_TROUBLE] if lines else ""
        return process.returncode, output.decode("utf-8", "replace"), trouble.partition("oomdoctor: ")[2] or trouble
    except subprocess.TimeoutExpired:
        return None, "", ""
    finally:
        _end(process)


def _end(process):
    """Leave nothing of `process` behind: not the program, if it still runs, and not its pipes."""
    import subprocess

    for pipe in (process.stdin, process.stdout, process.stderr):
        try:
            pipe.close()
        except OSError:
            pass
    if process.poll() is not None:
        return
    process.kill()
    try:
        process.wait(KILL_SECONDS)
    except subprocess.TimeoutExpired:
        # It is stuck in the driver. Without an exit status Python would warn about a program that still runs.
        process.returncode = -9


def rank():
    """Return the rank of this process in a distributed job as text, or None."""
    for variable in _RANK_VARIABLES:
        value = os.environ.get(variable, "")
        if value.isascii() and value.isdigit() and not (variable == "SLURM_PROCID" and _is_only_slurm_task()):
            return value
    return None


def _is_only_slurm_task():
    return os.environ.get("SLURM_NTASKS", "1") == "1"


def _header(error, out_of_memory):
    """Return the line above the verdict. Every rank prints its own: each has its own GPU, and the ranks need not fail alike."""
    own_rank = rank()
    header = "oomdoctor" if own_rank is None else "oomdoctor, rank {}".format(own_rank)
    if _is_only_context(error, out_of_memory):
        header += ", on the earlier {}".format(type(out_of_memory).__name__)
    header += ":"
    if _has_color():
        header = "\033[1m" + header + "\033[0m"
    return header


def _is_only_context(error, out_of_memory):
    """Return whether `error` was raised while the program handled `out_of_memory`: then it may have ended the program by itself."""
    seen = set()
    while error is not None and error is not out_of_memory and id(error) not in seen:
        seen.add(id(error))
        if error.__cause__ is None and error.__context__ is not None:
            return not getattr(error, "exceptions", None)
        error = error.__cause__
    return False


def _has_color():
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


def _print(text):
    if not text:
        return
    try:
        sys.stderr.write(text)
    except UnicodeEncodeError:
        sys.stderr.write(text.encode("ascii", "replace").decode("ascii"))
    sys.stderr.flush()
