"""Which errors are out-of-memory errors."""

import sys
import unittest

from support import TORCH_TEXT, Framework, error_class

from oomdoctor._verdict import find_out_of_memory

OUT_OF_MEMORY = [
    Framework.torch_oom(TORCH_TEXT),
    Framework.torch_oom("HIP out of memory. Tried to allocate 20.00 MiB."),
    Framework.torch_oom("XPU out of memory. Tried to allocate 5.86 GiB. GPU 0 has a total capacity of 15.91 GiB."),
    Framework.torch_oom("Allocation on device "),
    Framework.torch_cuda_oom(TORCH_TEXT),
    error_class("my.package.MyOutOfMemory", Framework.torch_oom)("no text that tells"),
    RuntimeError(
        "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity; 6.20 GiB already allocated)"
    ),
    RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call"),
    RuntimeError("cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/generic/THCStorage.cu:58"),
    RuntimeError("CUDA driver error: out of memory"),
    RuntimeError("Triton Error [CUDA]: out of memory"),
    RuntimeError("HIP out of memory. Tried to allocate 256.00 MiB"),
    RuntimeError("HIP error: out of memory"),
    RuntimeError(
        "MPS backend out of memory (MPS allocated: 17.72 GiB, other allocations: 384.00 KiB, max allowed: 18.13 GiB)."
    ),
    RuntimeError("Invalid buffer size: 74.51 GiB"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
        "400000000000000 bytes. Error code 12 (Cannot allocate memory)"
    ),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:72] data. DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."
    ),
    RuntimeError("Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"),
    RuntimeError(
        "Caught OutOfMemoryError in replica 1 on device 1.\nOriginal Traceback (most recent call last):\n" + TORCH_TEXT
    ),
    Framework.torch_accelerator("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in https://docs.nvidia.com"),
    Framework.torch_nccl(
        "NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled cuda error\nLast error:\nCuda failure 2 'out of memory'"
    ),
    Framework.torch_spawn(
        '\n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  File "t.py", line 3\n'
        "torch.OutOfMemoryError: " + TORCH_TEXT
    ),
    Framework.jax("RESOURCE_EXHAUSTED: Out of memory allocating 40000000000000 bytes."),
    Framework.jax("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 21474836480 bytes."),
    Framework.jaxlib("RESOURCE_EXHAUSTED: Failed to allocate request for 10.00GiB (10737418240B) on device ordinal 0"),
    Framework.jaxlib("INTERNAL: Failed to load in-memory CUBIN: CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4294967296 bytes."),
    RuntimeError("Bad StatusOr access: RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 2.00G."),
    ValueError("RESOURCE_EXHAUSTED: Out of memory allocating 4294967296 bytes."),
    Framework.tensorflow_exhausted(
        "{{function_node __wrapped__Fill_device_/job:localhost/replica:0/task:0/device:GPU:0}} OOM when allocating tensor with "
        "shape[10000000,1000000] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Fill]"
    ),
    Framework.tensorflow_exhausted("failed to allocate memory [Op:Mul]"),
    Framework.tensorflow_exhausted("SameWorkerRecvDone unable to allocate output tensor. Key: /job:localhost/replica:0/task:0"),
    Framework.tensorflow_internal("Failed copying input tensor from CPU:0 to GPU:0: Dst tensor is not initialized."),
    Framework.tensorflow_internal("CUDA runtime implicit initialization on GPU:0 failed. Status: out of memory"),
    Framework.cupy_oom("Out of memory allocating 8,000,000,000 bytes (allocated so far: 1,000,000,000 bytes)."),
    Framework.cupy_runtime("cudaErrorMemoryAllocation: out of memory"),
    Framework.cupy_driver("CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    Framework.cupy_cublas("CUBLAS_STATUS_ALLOC_FAILED"),
]

OTHER = [
    ValueError("CUDA out of memory"),
    Exception("torch.OutOfMemoryError: CUDA out of memory."),
    RuntimeError("CUDA error: device-side assert triggered"),
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
    RuntimeError("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"),
    RuntimeError("DataLoader worker (pid 4242) exited unexpectedly with exit code 1."),
    RuntimeError("the shipment is out of memory cards"),
    RuntimeError("CUDA kernel k: out of shared memory, 147456 bytes asked, 101376 there"),
    RuntimeError("maximum recursion depth exceeded"),
    RecursionError("maximum recursion depth exceeded while handling CUDA out of memory"),
    NotImplementedError("CUDA out of memory recovery"),
    RuntimeError("expected error 'CUDA out of memory' but got 'shape mismatch'"),
    RuntimeError("Command failed: pytest\n test_oom PASSED (simulated: CUDA out of memory. Tried to allocate 2.00 GiB)\n"),
    RuntimeError("no gpu found, and worker on device cpu was killed: host out of memory"),
    RuntimeError("docker: device mapper: out of memory for inode cache"),
    RuntimeError("job 17 failed on node b12: torch.OutOfMemoryError: " + TORCH_TEXT),
    RuntimeError("x" * (10 << 20)),
    RuntimeError(""),
    MemoryError(),
    error_class("__main__.OutOfMemoryError")("made by somebody else"),
    error_class("triton.runtime.errors.OutOfResources")(
        "out of resource: shared memory, Required: 147456, Hardware limit: 101376"
    ),
    Framework.torch_accelerator("CUDA error: an illegal memory access was encountered"),
    Framework.torch_spawn("\n\n-- Process 1 terminated with the following error:\nValueError: no"),
    Framework.jax("INVALID_ARGUMENT: Executable expected parameter 0 of size 16 but got buffer with incompatible size 8"),
    Framework.jax("RESOURCE_EXHAUSTED: Received message larger than max (8388608 vs. 4194304)"),
    Framework.tensorflow_exhausted("/data/checkpoint.tmp; No space left on device"),
    Framework.tensorflow_exhausted("/data/shard-1; Too many open files"),
    Framework.tensorflow_internal("Blas GEMM launch failed : a.shape=(32, 64), b.shape=(64, 10)"),
    Framework.cupy_runtime("cudaErrorInvalidDevice: invalid device ordinal"),
    KeyboardInterrupt(),
    SystemExit(1),
    None,
    "CUDA out of memory",
]


class Unreadable(RuntimeError):
    def __str__(self):
        raise ValueError("no text")


class Recognition(unittest.TestCase):
    def test_out_of_memory_errors_of_each_framework_are_recognized(self):
        for error in OUT_OF_MEMORY:
            with self.subTest(error=repr(error)):
                self.assertIs(find_out_of_memory(error), error)

    def test_other_errors_are_not(self):
        for error in OTHER + [Unreadable()]:
            with self.subTest(error=type(error)):
                self.assertIsNone(find_out_of_memory(error))

    def test_one_that_caused_the_error_is_found(self):
        oom = Framework.torch_oom(TORCH_TEXT)
        self.assertIs(find_out_of_memory(raised(ValueError("step failed"), cause=oom)), oom)
        self.assertIs(find_out_of_memory(raised(OSError("report failed"), context=oom)), oom)
        self.assertIs(find_out_of_memory(raised(OSError("b"), context=raised(ValueError("a"), cause=oom))), oom)

    def test_one_that_python_does_not_print_is_not_found(self):
        error = raised(ValueError("cleaned up"), context=Framework.torch_oom(TORCH_TEXT))
        error.__suppress_context__ = True
        self.assertIsNone(find_out_of_memory(error))

    def test_an_error_that_ends_the_program_on_purpose_is_left_alone(self):
        for ending in (KeyboardInterrupt(), SystemExit(1)):
            self.assertIsNone(find_out_of_memory(raised(ending, context=Framework.torch_oom(TORCH_TEXT))))

    def test_members_of_a_group_are_searched(self):
        oom = Framework.jax("RESOURCE_EXHAUSTED: Out of memory allocating 4 bytes.")
        group = error_class("exceptiongroup.ExceptionGroup")("2 sub-exceptions")
        inner = error_class("exceptiongroup.ExceptionGroup")("1 sub-exception")
        inner.exceptions = (raised(OSError("b"), cause=oom),)
        group.exceptions = (ValueError("a"), inner)
        self.assertIs(find_out_of_memory(group), oom)
        inner.exceptions = (OSError("b"),)
        self.assertIsNone(find_out_of_memory(group))

    @unittest.skipIf(sys.version_info < (3, 11), "this Python has no ExceptionGroup")
    def test_a_group_of_python_itself_is_searched(self):
        oom = Framework.cupy_oom("Out of memory allocating 4 bytes (allocated so far: 0 bytes).")
        self.assertIs(find_out_of_memory(ExceptionGroup("tasks", [ValueError("a"), oom])), oom)  # noqa: F821

    def test_a_ring_of_causes_ends(self):
        first, second = ValueError("a"), ValueError("b")
        first.__cause__, second.__cause__ = second, first
        self.assertIsNone(find_out_of_memory(first))

    def test_a_long_chain_is_searched_to_its_end(self):
        oom = error = Framework.torch_oom(TORCH_TEXT)
        for _ in range(5000):
            error = raised(ValueError("retry"), context=error)
        self.assertIs(find_out_of_memory(error), oom)


def raised(error, cause=None, context=None):
    """Return `error` as `raise error from cause`, or raised while `context` was handled, would leave it."""
    error.__context__ = context
    if cause is not None:
        error.__cause__ = cause
    return error


if __name__ == "__main__":
    unittest.main()
