#!/usr/bin/env python3
"""Write docs/sim-functions.md: what the driver simulator does in each function that it exports.

    tools/sim_functions.py            write the page
    tools/sim_functions.py --check    exit 1 if the page differs

The functions are those of sim/core/calls.h and sim/core/unsupported.h. PARTIAL below names those
that do a part of what a real driver does.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/sim-functions.md"

# By the name of the function, without a version: what it does not do.
PARTIAL = {
    "cuArray3DCreate": "formats with one number a channel; no sparse arrays",
    "cuArrayCreate": "formats with one number a channel",
    "cuCtxGetExecAffinity": "no multi-process service",
    "cuDeviceGetExecAffinitySupport": "no multi-process service",
    "cuGetExportTable": "knows no table: `CUDA_ERROR_NOT_FOUND`",
    "cuGraphAddKernelNode": "the node exists, and a launch of the graph fails",
    "cuGraphAddNode": "no nodes of semaphores and of memory operations of streams",
    "cuGraphConditionalHandleCreate": "the handle keeps its default value: no kernel sets it",
    "cuGraphInstantiateWithFlags": "no launch from the device",
    "cuGraphInstantiateWithParams": "no launch from the device",
    "cuGraphLaunch": "a graph with a kernel fails, unless `launches=ignore`",
    "cuGraphUpload": "has no effect",
    "cuLaunchCooperativeKernel": "fails, unless `launches=ignore`",
    "cuLaunchKernel": "fails, unless `launches=ignore`",
    "cuLaunchKernelEx": "fails, unless `launches=ignore`",
    "cuLibraryGetGlobal": "variables of cubins only",
    "cuLibraryGetKernel": "accepts every name, if the image is not a cubin",
    "cuLibraryGetManaged": "finds none",
    "cuLibraryGetModule": "`CUDA_ERROR_NOT_SUPPORTED`",
    "cuLibraryLoadData": "code is stored, not compiled",
    "cuLibraryLoadFromFile": "code is stored, not compiled",
    "cuLinkAddFile": "`CUDA_ERROR_NOT_SUPPORTED`",
    "cuLinkComplete": "returns a single input unchanged; more are `CUDA_ERROR_NOT_SUPPORTED`",
    "cuMemAdvise": "stored, without effect",
    "cuMemDiscardAndPrefetchBatchAsync": "stored, without effect",
    "cuMemDiscardBatchAsync": "without effect",
    "cuMemPrefetchAsync": "stored, without effect",
    "cuMemPrefetchBatchAsync": "stored, without effect",
    "cuModuleGetFunction": "accepts every name, if the image is not a cubin",
    "cuModuleGetGlobal": "variables of cubins only",
    "cuModuleLoad": "code is stored, not compiled",
    "cuModuleLoadData": "code is stored, not compiled",
    "cuModuleLoadDataEx": "code is stored, not compiled; its options have no effect",
    "cuModuleLoadFatBinary": "code is stored, not compiled",
    "cuFuncGetParamInfo": "kernels of cubins only",
    "cuKernelGetParamInfo": "kernels of cubins only",
    "cuOccupancyMaxActiveClusters": "estimated: it knows no groups of processors",
    "cuOccupancyMaxPotentialClusterSize": "always 8",
    "cuProfilerStart": "has no effect",
    "cuProfilerStop": "has no effect",
    "cuSurfObjectCreate": "no kernel reads it",
    "cuTensorMapEncodeIm2col": "checked; the bytes are not those of a device",
    "cuTensorMapEncodeTiled": "checked; the bytes are not those of a device",
    "cuTexObjectCreate": "no kernel reads it",
}

HEAD = """# Functions of the driver simulator

The functions that the simulator's `libcuda.so.1` exports ([sim.md](sim.md)). All versions of a function, and its form
for per-thread streams, behave alike. `tools/sim_functions.py` writes this page.

- **Real**: it does what a driver does, on memory of the host.
- **Partial**: it does a part of that.
- **Refused**: it exists, and returns `CUDA_ERROR_NOT_SUPPORTED`.

A function that is not here is not found.
"""


def names_in(path):
    """Return the names of the functions that a list of calls has, each once."""
    text = (ROOT / path).read_text()
    return sorted(set(re.findall(r"^    [XZA]\((cu\w+), \d+, cu\w+", text, re.M)))


def wrapped(names):
    """Return names as lines of at most 120 characters."""
    lines, line = [], ""
    for name in names:
        word = f"`{name}`, "
        if len(line) + len(word) > 120:
            lines.append(line.rstrip())
            line = ""
        line += word
    return "\n".join([*lines, line.rstrip(", ")]) + "\n"


def page():
    """Return the text of the page."""
    calls = names_in("sim/core/calls.h")
    refused = [name for name in names_in("sim/core/unsupported.h") if name not in calls]
    if unknown := sorted(set(PARTIAL) - set(calls)):
        sys.exit(f"PARTIAL names no functions of the simulator: {unknown}")
    real = [name for name in calls if name not in PARTIAL]
    rows = "".join(f"| `{name}` | {PARTIAL[name]} |\n" for name in sorted(PARTIAL))
    return (
        f"{HEAD}\n## Real: {len(real)}\n\n{wrapped(real)}"
        f"\n## Partial: {len(PARTIAL)}\n\n| function | |\n|---|---|\n{rows}"
        f"\n## Refused: {len(refused)}\n\n{wrapped(refused)}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    text = page()
    if not parser.parse_args().check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        print("docs/sim-functions.md differs: run tools/sim_functions.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
