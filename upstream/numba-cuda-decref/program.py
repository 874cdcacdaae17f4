"""numba-cuda's NRT_decref ends one block in several threads. It needs g++, and no GPU.

The installed nrt.cu is compiled for the host, with threads that decrement in step as the lanes of a
warp do. tests/gpu/nrt_decref.py shows the same on a GPU.
"""

import importlib.util
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def counts(source):
    """Return how often a block ended, and how often elements did, with this runtime's source."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "threads"
        command = ["g++", "-std=c++17", "-w", "-pthread", f"-I{HERE / 'shim'}", f"-I{source}"]
        subprocess.run([*command, HERE / "threads.cpp", "-o", program], check=True)
        done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60)
    ends, elements = map(int, done.stdout.split())
    return ends, elements


if __name__ == "__main__":
    import numba_cuda

    found = importlib.util.find_spec("numba_cuda").submodule_search_locations[0]
    ends, elements = counts(pathlib.Path(found) / "numba/cuda/memory_management")
    print(
        f"{'fixed' if (ends, elements) == (1, 1) else 'shown'}: 16 releases end a block {ends} times, "
        f"the elements of a varsize block {elements} times "
        f"(numba-cuda {numba_cuda.__version__})"
    )
