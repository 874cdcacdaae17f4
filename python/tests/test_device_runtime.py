"""tarn.nrt.use_device_runtime(): numba-cuda's kernels on Tarn's device runtime.

Kernels do not run on the simulator, but they compile and link there. tests/nrt/device_test.c tests
the source, and on a GPU tests/gpu/nrt_decref.py.
"""

import pathlib
import re
import runpy

import pytest
from numba_support import fork, fork_code, run, run_code

pytest.importorskip("numba_cuda")

import tarn
import tarn.nrt

SOURCE = pathlib.Path(tarn.nrt.__file__).with_name("device.cu")
ON = {"NUMBA_CUDA_ENABLE_NRT": "1"}

KERNEL = """
import sys
import numpy as np
import tarn.nrt
from numba import cuda

def work(out):
    a = np.empty(8)
    out[0] = a[1:].size

def linked_with(kernel):
    (overload,) = kernel.overloads.values()
    return sorted(file.name for file in overload.library._linking_files)
"""


def refusal(code, **environment):
    """Return the message of the RuntimeError with which a program ends."""
    done = fork(KERNEL + code, **ON, **environment)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr.strip().splitlines()[-1]


HEADER = pathlib.Path(tarn.get_include()) / "tarn/nrt_device.cuh"


def ptx(text=None):
    """The source, or a text, compiled for the oldest GPU that this NVRTC knows."""
    from cuda.bindings import nvrtc

    _, architectures = nvrtc.nvrtcGetSupportedArchs()
    _, program = nvrtc.nvrtcCreateProgram(
        text.encode() if text else SOURCE.read_bytes(), b"device.cu", 0, [], []
    )
    options = [b"-arch=compute_%d" % min(architectures), b"-rdc=true"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    # The test writes to it, so it is longer than one byte: objects of one byte are shared.
    log = b" " * (size + 1)
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode(errors="replace")
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * (size + 1)
    nvrtc.nvrtcGetPTX(program, text)
    return text.decode(errors="replace")


def test_it_compiles_and_has_all_that_numba_cuda_calls_or_declares():
    from numba.cuda.memory_management import nrt, nrt_context

    header = (pathlib.Path(nrt.get_include()) / "nrt.cuh").read_text()
    declared = set(re.findall(r'extern "C" __device__ [^(;]*?\b(NRT_\w+)\s*\(', header))
    called = set(re.findall(r'"(NRT_\w+)"', pathlib.Path(nrt_context.__file__).read_text()))
    assert {"NRT_decref", "NRT_MemInfo_new_varsize"} <= declared
    assert {"NRT_decref", "NRT_MemInfo_alloc_safe_aligned"} <= called
    text = ptx()
    there = set(re.findall(r"\.visible \.func\s+(?:\(.*?\)\s*)?(NRT_\w+)", text, re.S))
    # The table of functions is for typed dicts and lists, which kernels cannot have.
    assert (declared | called) - there == {"NRT_get_api"}
    assert ".entry NRT_MemSys_set(" in text and "TheMSys" in text


def test_the_header_declares_what_the_source_has():
    declared = set(
        re.findall(r"\b(NRT_\w+)\(", re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S))
    )
    defined = set(
        re.findall(r"^(?:__device__|__global__) .*?\b(NRT_\w+)\(", SOURCE.read_text(), re.M)
    )
    assert declared == defined
    assert "NRT_MemInfo_new" in declared
    # In one text the compiler compares the declarations.
    assert "TheMSys" in ptx(HEADER.read_text() + SOURCE.read_text())


USER = """
__device__ void end(void *, size_t, void *) {}
__global__ void work(size_t *out)
{
    NRT_MemInfo *mi = NRT_MemInfo_alloc_dtor(64, end);
    if (mi)
        *out = mi->size;
    NRT_decref(mi);
}
"""


def test_device_code_of_a_user_compiles_with_the_header():
    assert ".extern .func  (.param .b64 func_retval0) NRT_MemInfo_alloc_dtor" in ptx(
        HEADER.read_text() + USER
    )


def test_the_probe_for_a_gpu_compiles():
    path = pathlib.Path(__file__).resolve().parents[2] / "tests/gpu/nrt_device_kinds.py"
    assert "probe_resize" in ptx(runpy.run_path(str(path))["PROBE"])


def test_importing_and_asking_import_no_numba():
    code = "import sys, tarn.nrt; print(tarn.nrt.device_runtime_in_use(), 'numba' in sys.modules)"
    assert run_code(code) == "False False"


def test_a_kernel_is_linked_with_it_and_twice_is_no_error():
    code = """
tarn.nrt.use_device_runtime()
tarn.nrt.use_device_runtime()
print(tarn.nrt.device_runtime_in_use(), linked_with(cuda.jit("void(int64[:])")(work)))
"""
    assert fork_code(KERNEL + code, **ON) == "True ['tarn/nrt/device.cu']"


def test_filled_blocks_link_as_well():
    code = """
tarn.nrt.use_device_runtime()
print(linked_with(cuda.jit("void(int64[:])")(work)))
"""
    assert run_code(KERNEL + code, NUMBA_DEBUG_NRT="1", **ON) == "['tarn/nrt/device.cu']"


def test_after_a_kernel_was_linked_it_is_too_late():
    words = refusal("""
kernel = cuda.jit("void(int64[:])")(work)
assert linked_with(kernel) == ["nrt.cu"]
tarn.nrt.use_device_runtime()
""")
    assert words == (
        "RuntimeError: tarn.nrt: too late, numba-cuda has linked 1 function(s) with its own "
        "device runtime"
    )


def test_a_linked_kernel_is_found_after_gc_freeze():
    words = refusal("""
import gc
kernel = cuda.jit("void(int64[:])")(work)
gc.freeze()
tarn.nrt.use_device_runtime()
""")
    assert words.startswith("RuntimeError: tarn.nrt: too late, numba-cuda has linked ")


def test_gc_freeze_alone_links_nothing():
    code = """
import gc
import numba.cuda.dispatcher
gc.freeze()
tarn.nrt.use_device_runtime()
print(tarn.nrt.device_runtime_in_use())
"""
    assert run_code(KERNEL + code, **ON) == "True"


def test_without_numba_cuda_there_is_nothing_to_replace():
    words = refusal("""
sys.modules["numba.cuda.memory_management.nrt"] = None
tarn.nrt.use_device_runtime()
""")
    words = words.partition("RuntimeError: ")[2]
    assert words.startswith("tarn.nrt: numba-cuda with a device runtime is not installed")


def test_a_numba_cuda_that_keeps_it_elsewhere_is_not_known():
    words = refusal("""
import numba.cuda.codegen
del numba.cuda.codegen.NRT_LIBRARY
tarn.nrt.use_device_runtime()
""")
    assert "RuntimeError: tarn.nrt: numba-cuda " in words and "is not supported" in words
    assert "(found in numba.cuda.memory_management.nrt, numba.cuda.dispatcher)" in words


def test_a_numba_cuda_with_another_layout_is_not_known(tmp_path):
    from numba.cuda.memory_management import nrt

    header = (pathlib.Path(nrt.get_include()) / "nrt.cuh").read_text()
    assert "  void* dtor_info;\n" in header
    (tmp_path / "nrt.cuh").write_text(header.replace("  void* dtor_info;\n", ""))
    words = refusal(f"""
import numba.cuda.memory_management.nrt as nrt
nrt.get_include = lambda: {str(tmp_path)!r}
tarn.nrt.use_device_runtime()
""")
    assert words.endswith(
        "is not supported: MemInfo in nrt.cuh has the fields refct, dtor, data, size, "
        "not refct, dtor, dtor_info, data, size"
    )


def test_the_simulator_of_numba_has_none():
    words = refusal("tarn.nrt.use_device_runtime()", NUMBA_ENABLE_CUDASIM="1")
    assert words.startswith("RuntimeError: tarn.nrt: ")


# The cache contains linked kernels, so each runtime must have its own entry.
def test_kernels_in_the_cache_are_kept_apart(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        KERNEL
        + """
if len(sys.argv) > 1:
    tarn.nrt.use_device_runtime()
kernel = cuda.jit("void(int64[:])", cache=True)(work)
print(sum(kernel.stats.cache_hits.values()), linked_with(kernel))
"""
    )
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), **ON}

    def hits(*arguments):
        done = run([str(program), *arguments], **cache)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    assert hits() == "0 ['nrt.cu']"
    assert hits("ours") == "0 ['tarn/nrt/device.cu']"
    assert hits("ours") == "1 ['tarn/nrt/device.cu']"
