#!/usr/bin/env python3
"""numba_others.py -- the tests of the other two Numbas under their managers and under Tarn.

    numba_others.py mlir TESTS [--memory] [--pattern P] [--out FILE]
                                       numba-cuda-mlir's own tests; those about memory
    numba_others.py built-in [...]     those about memory of the target in Numba

What numba_suite.py does for numba-cuda: each module in a process of its own, compared test
by test. The Python that runs this has to have the Numba in question, and Tarn. TESTS is the
folder `tests` of numba-cuda-mlir's sources, as its wheel has none; they need pytest.

The target in Numba takes the `_v2` of every name of the driver, and a driver of CUDA 13 has
some that it knows nothing of; it is kept from those, or no test could run.
"""

import argparse
import json
import os
import pathlib
import sys

import numba_suite

BUILT_IN = "numba.cuda.tests"
NEWER_IN_CUDA_13 = ("cuCtxGetDevice", "cuCtxSynchronize")

# Modules about memory that numba-cuda has no more, or never had.
MEMORY = (*numba_suite.QUICK, "cudadrv.test_init", "cudadrv.test_detect",
          "cudadrv.test_profiler", "cudadrv.test_streams", "cudapy.test_random",
          "cudapy.test_datetime")  # fmt: skip

# The six that look into Numba's own manager; Numba 0.56 has five of them in two classes.
BUILT_IN_SKIPS = frozenset(
    [f"{BUILT_IN}.cudadrv.test_deallocations.TestDeallocation.test_max_pending_{what}"
     for what in ("count", "bytes")]
    + [f"{BUILT_IN}.cudadrv.test_deallocations.TestDeferCleanup.test_{what}"
       for what in ("basic", "nested", "exception")]
    + [f"{BUILT_IN}.cudapy.test_cuda_array_interface.TestCudaArrayInterface.test_ownership"]
)  # fmt: skip
MLIR_SKIPS = frozenset(
    [f"numba_cuda_tests/cudadrv/test_deallocations.py::TestDeallocation::test_{what}"
     for what in ("max_pending_count", "max_pending_bytes", "defer_cleanup",
                  "nested_defer_cleanup", "exception")]
    + ["numba_cuda_tests/cudapy/test_cuda_array_interface.py"
       "::TestCudaArrayInterface::test_ownership"]
)  # fmt: skip


# --- one module, in a process of its own ------------------------------------------------


def keep_from_newer_names():
    """Before the first test: the ctypes binding is to see CUDA 12's names alone."""
    from numba.cuda.cudadrv import driver

    find = driver.Driver._find_api

    def find_api(self, name):
        return getattr(self.lib, name) if name in NEWER_IN_CUDA_13 else find(self, name)

    driver.Driver._find_api = find_api


class PytestRecorder:
    """A plugin of pytest that writes the lines that numba_suite.Recorder writes."""

    def __init__(self, lines):
        self.lines = lines

    def note(self, test, outcome, why=""):
        record = {"id": test, "outcome": outcome, "why": str(why).strip()[-400:]}
        self.lines.write(json.dumps(record) + "\n")
        self.lines.flush()

    def pytest_collection_finish(self, session):
        """As numba_suite.be_patient()."""
        for module in {item.module for item in session.items if hasattr(item, "module")}:
            if hasattr(module, "FUTURE_TIMEOUT"):
                module.FUTURE_TIMEOUT = numba_suite.TIMEOUT_S / 4

    def pytest_runtest_logstart(self, nodeid, location):
        self.note(nodeid, "begun")

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            outcome = {"passed": "pass", "skipped": "skip", "failed": "fail"}[report.outcome]
            if hasattr(report, "wasxfail"):
                outcome = f"expected failure: {report.outcome}"
            self.note(report.nodeid, outcome, self.reason(report))

    def pytest_collectreport(self, report):
        if report.failed:
            self.note(report.nodeid, "error", self.reason(report))

    @staticmethod
    def reason(report):
        crash = getattr(report.longrepr, "reprcrash", None)
        return crash.message if crash else str(report.longrepr or "")


def run_pytest(root, file, path):
    import pytest

    with open(path, "w") as lines:
        options = ["-q", "-p", "no:cacheprovider", f"--rootdir={root}", file]
        code = pytest.main(options, plugins=[PytestRecorder(lines)])
    ends = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return 0 if code in (*ends, pytest.ExitCode.NO_TESTS_COLLECTED) else int(code)


def run_built_in(module, path):
    numba_suite.run_here([f"{BUILT_IN}.{module}"], path)


# --- all modules ------------------------------------------------------------------------


def built_in_modules():
    import numba

    root = pathlib.Path(numba.__file__).parent / "cuda" / "tests"
    found = (".".join(p.relative_to(root).with_suffix("").parts) for p in root.rglob("test_*.py"))
    return sorted(name for name in found if name in MEMORY)


def mlir_modules(folder):
    root = pathlib.Path(folder)
    found = (p.relative_to(root).with_suffix("") for p in root.rglob("test_*.py"))
    return sorted(".".join(p.parts) for p in found if "benchmarks" not in p.parts)


def use_stand_in_by_path():
    """The ctypes binding opens the file that it is told."""
    if os.environ.get("TARN_DRIVER") == "sim":
        path = os.path.join(numba_suite.stand_in_folder(), "libcuda.so.1")
        os.environ["NUMBA_CUDA_DRIVER"] = path


def run_command(arguments):
    here = os.path.abspath(__file__)
    if arguments.which == "mlir":
        root = os.path.abspath(arguments.tests)
        names, skips = mlir_modules(root), MLIR_SKIPS
        if arguments.memory:
            names = [n for n in names if n.removeprefix("numba_cuda_tests.") in MEMORY]

        def command(name, path):
            file = os.path.join(root, *name.split(".")) + ".py"
            return [here, "pytest", root, file, path]
    else:
        use_stand_in_by_path()
        names, skips = built_in_modules(), BUILT_IN_SKIPS

        def command(name, path):
            return [here, "unittest", name, path]

    names = [name for name in names if arguments.pattern in name]
    if not names:
        sys.exit(f"numba_others.py: no module has {arguments.pattern!r} in its name")
    runs = [
        numba_suite.run_all(manager, names, arguments.jobs, command)
        for manager in ("numba", "tarn")
    ]
    if arguments.out:
        path = pathlib.Path(arguments.out)
        for run in runs:
            named = path.with_stem(f"{path.stem}-{run['manager']}")
            named.write_text(json.dumps(run, indent=1, sort_keys=True))
    return numba_suite.report(*runs, junit=arguments.junit, expected_skips=skips)


def main(argv):
    if argv[:1] == ["pytest"]:
        return run_pytest(*argv[1:])
    if argv[:1] == ["unittest"]:
        return run_built_in(*argv[1:])
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    which = parser.add_subparsers(dest="which", required=True)
    mlir = which.add_parser("mlir")
    mlir.add_argument("tests")
    mlir.add_argument("--memory", action="store_true", help="modules about memory alone")
    which.add_parser("built-in")
    for sub in which.choices.values():
        sub.add_argument("--junit", metavar="FILE", help="the comparison as JUnit XML")
        sub.add_argument("--out", metavar="FILE", help="write the outcomes as JSON")
        sub.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
        sub.add_argument("--pattern", default="", help="modules with this in their names")
    return run_command(parser.parse_args(argv))


if sys.argv[1:2] == ["unittest"]:  # also in the children that tests start
    keep_from_newer_names()
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
