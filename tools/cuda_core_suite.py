#!/usr/bin/env python3
"""Run cuda.core's own tests on the simulator, and count them by reason.

    tools/cuda_core_suite.py CHECKOUT                     with and without the shims
    tools/cuda_core_suite.py CHECKOUT --only shims --list -- -k pool
    tools/cuda_core_suite.py CHECKOUT --driver build/release/lib/tarn/sim/libcuda.so.1

CHECKOUT is a checkout of cuda-python of the release of the installed cuda-core, or of July 2026
(cuda-core 1.2). The repository keeps nothing of it. Run the script with a Python that has
cuda-core, cuda-bindings, the headers of nvidia-cuda-runtime, pytest and pytest-xdist; without
--driver, Tarn too. The shims (cuda_core_shims.py) replace what is not the driver's: the CUDA
runtime's device count, NVML and kernels that wait. Other kernels do not run. Exit 1 if fewer tests
pass with the shims than --least says.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import rmm_suite

HUNG_S = 300

# Processes that tests start import no plugin of pytest.
CHILDREN = """
import sys
if any("spawn_main" in word for word in sys.orig_argv):
    import cuda_core_shims
"""

# Parts of a failure's test and text, and the row of the table; the first one that occurs.
OTHER_RELEASE = "of another release than cuda.core"
REASONS = (
    (r'Function "(\w+)" not found', "missing function: {}"),
    (r"ImportError: cannot import name '(\w+)'", f"{OTHER_RELEASE}: {{}}"),
    (r"ModuleNotFoundError: No module named '([\w.]+)'", "package not installed: {}"),
    (r"worker '\w+' crashed", "crash or hang"),
    (r"(?i)nvml", "needs NVML"),
    (r"StreamCaptureUnsupported", "a capture that an earlier test left open"),
    (r"cudaError|cudaErrorSymbolNotFound", "needs the CUDA runtime"),
    (r"test_checkpoint", "needs checkpoints of processes"),
    (r"rdc_with_linker|num_args_error_handling", "needs the driver's compiler or linker"),
    (r"ltoir|load_rdc\[", "code that the simulator does not take for an image"),
    (r"CUDA_ERROR_NOT_SUPPORTED", "needs a kernel"),
    (r"memory_ipc", "the test closes a buffer before its queue has sent it"),
    (r"has been closed|has been destroyed|same GraphDefinition|package_contents"
     r"|test_optional_dependency|numba_debug|sample_launch_config", OTHER_RELEASE),
    (r"test_program_cache", "runs as root, or beside other tests"),
)  # fmt: skip


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--driver", type=pathlib.Path, help="the libcuda.so.1; default: Tarn's")
    parser.add_argument("--options", default="devices=3", help="TARN_SIM of the run")
    parser.add_argument("--jobs", type=int, default=4, help="processes, with pytest-xdist")
    parser.add_argument("--only", choices=("plain", "shims"), help="one of the two runs")
    parser.add_argument("--least", type=int, default=0, help="passes that are expected")
    parser.add_argument("--list", action="store_true", help="list the tests that fail")
    parser.add_argument("--out", type=pathlib.Path, help="write each test and its text")
    parser.add_argument("--log", type=pathlib.Path, help="write pytest's output to this file")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest")
    return parser.parse_intermixed_args()


def headers():
    """Return the folder with `include` of the CUDA headers that are installed, or None."""
    for place in sys.path:
        folder = pathlib.Path(place) / "nvidia/cu13"
        if (folder / "include/cuda.h").exists():
            return folder
    return None


def environment_of(options, place):
    tests = options.checkout.resolve() / "cuda_core/tests"
    helpers = options.checkout.resolve() / "cuda_python_test_helpers"
    here = pathlib.Path(__file__).resolve().parent
    driver = options.driver or pathlib.Path(rmm_suite.simulator())
    variables = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join([str(place), str(here)]),
        PYTHONDONTWRITEBYTECODE="1",
        SUITE_RESULTS=str(place / "results.json"),
        CUDA_CORE_SUITE_PATH=os.pathsep.join([str(tests), str(helpers)]),
        TARN_SIM=options.options,
        LD_LIBRARY_PATH=str(driver.resolve().parent),
    )
    if folder := headers():
        variables["CUDA_PATH"] = str(folder)
    return variables


def run(options, has_shims):
    """Run the tests; return {test: [outcome, why, text]}."""
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        (place / "suite_results.py").write_text(rmm_suite.PLUGIN)
        if has_shims:
            (place / "sitecustomize.py").write_text(CHILDREN)
        command = ["nice", "-n", "15", sys.executable, "-m", "pytest", "-q", "--no-header"]
        command += ["-p", "suite_results", "-p", "no:cacheprovider", "--tb=long", "-r", "N"]
        command += ["--durations=40"]
        command += ["-p", "cuda_core_shims"] if has_shims else []
        command += ["-n", str(options.jobs), "--dist", "worksteal"] if options.jobs > 1 else []
        command += ["-o", "addopts=", "-o", f"faulthandler_timeout={HUNG_S}"]
        command += ["-o", "faulthandler_exit_on_timeout=true"]
        command += ["--continue-on-collection-errors", *options.pytest]
        command += [] if any("tests/" in word for word in options.pytest) else ["tests"]
        log = options.log or place / "log"
        with open(log, "w") as file:
            subprocess.run(
                command,
                cwd=options.checkout / "cuda_core",
                env=environment_of(options, place),
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if not (place / "results.json").exists():
            sys.exit(log.read_text()[-4000:])
        return json.loads((place / "results.json").read_text())


def reason(test, outcome, why, text):
    """Return the row of the table for one test."""
    if outcome != "failed":
        return "passed" if outcome == "passed" else "skipped"
    for pattern, row in REASONS:
        if found := re.search(pattern, f"{test}\n{why}\n{text}"):
            return row.format(*found.groups())
    return f"other: {why.splitlines()[0][:100] if why else text[:100]}"


def rows_of(options, has_shims):
    """Run the tests, print their table, and return {test: row} and the results."""
    start = time.monotonic()
    results = run(options, has_shims)
    rows = {test: reason(test, *result) for test, result in results.items()}
    title = "with the shims" if has_shims else "without shims"
    rmm_suite.print_table(f"{title}, {time.monotonic() - start:.0f} s", rows)
    return rows, results


def main():
    options = arguments()
    rows = {}
    if options.only != "shims":
        rows, results = rows_of(options, False)
    if options.only != "plain":
        rows, results = rows_of(options, True)
    failed = {test: row for test, row in rows.items() if row not in ("passed", "skipped")}
    if options.list:
        for test, row in sorted(failed.items(), key=lambda item: item[1]):
            print(f"{row}: {test}")
    if options.out:
        options.out.write_text(json.dumps([(t, rows[t], *results[t]) for t in rows], indent=0))
    passes = list(rows.values()).count("passed")
    if passes < options.least:
        print(f"{passes} tests pass, and {options.least} are expected")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
