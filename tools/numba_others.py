#!/usr/bin/env python3
"""numba_others.py -- the tests of the other two Numbas under their managers and under Tarn.

    numba_others.py mlir SOURCES [--memory] [--pattern P] [--out FILE]
                                       numba-cuda-mlir's own tests; those about memory
    numba_others.py built-in [...]     those about memory of the target in Numba
    numba_others.py [...] --manager M --out FILE                    one manager alone
    numba_others.py compare mlir|built-in NUMBA.json TARN.json      two such files

What numba_suite.py does for numba-cuda: each module in a process of its own, compared test
by test. The Python that runs this has to have the Numba in question, and Tarn. SOURCES are
numba-cuda-mlir's, or their folder `tests` alone: the wheel has no tests. They need pytest 8,
filecheck, cffi and ml-dtypes; docs/numba.md has the commands.

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
)  # fmt: skip

# Minutes each, so that they come first: hundreds of kernels to compile, in one process.
MLIR_LONG = ("test_datetime", "test_builtin_broadcasted_binops", "test_jit_compat",
             "test_libdevice", "test_atomics", "numba_cuda_tests.cudapy.test_atomics",
             "test_array_reductions")  # fmt: skip

# It counts what waits in the list of Numba's own manager. numba-cuda skips it where the
# environment names a manager; numba-cuda-mlir's copy does not, so no plugin passes it.
MLIR_FAILURES = frozenset(
    ["numba_cuda_tests/cudapy/test_cuda_array_interface.py"
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
        self.failed = set()  # tests with a part that failed: a later part may well pass

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
        if report.nodeid in self.failed:
            return
        if report.outcome == "failed":
            self.failed.add(report.nodeid)
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
    import numba_cuda_mlir.cuda  # noqa: F401  two modules count on others to have done so
    import pytest

    with open(path, "w") as lines:
        options = ["-q", "-p", "no:cacheprovider", f"--rootdir={root}"]
        # Not their options, which ask for a plugin that runs tests again.
        options += ["-o", "addopts=", "--continue-on-collection-errors", file]
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


def mlir_tests(folder):
    inside = os.path.join(folder, "tests")
    return os.path.abspath(inside if os.path.isdir(inside) else folder)


def mlir_modules(folder):
    root = pathlib.Path(folder)
    found = (p.relative_to(root).with_suffix("") for p in root.rglob("test_*.py"))
    left_out = {"benchmarks", "doc_examples"}  # as by their own norecursedirs
    names = sorted(".".join(p.parts) for p in found if not left_out & set(p.parts))
    return sorted(names, key=lambda name: name not in MLIR_LONG)


def use_simulator_by_path():
    """The ctypes binding opens the file that a variable names."""
    if os.environ.get("TARN_DRIVER") == "sim":
        path = os.path.join(numba_suite.simulator_folder(), "libcuda.so.1")
        os.environ["NUMBA_CUDA_DRIVER"] = path


def mlir_run(arguments):
    """The modules to run, and how a Python runs one of them."""
    root = mlir_tests(arguments.sources)
    names = mlir_modules(root)
    if arguments.memory:
        names = [n for n in names if n.removeprefix("numba_cuda_tests.") in MEMORY]

    def command(name, path):
        file = os.path.join(root, *name.split(".")) + ".py"
        return [os.path.abspath(__file__), "pytest", root, file, path]

    return names, command


def built_in_run(_):
    use_simulator_by_path()

    def command(name, path):
        return [os.path.abspath(__file__), "unittest", name, path]

    return built_in_modules(), command


EXPECTED = {"mlir": (MLIR_SKIPS, MLIR_FAILURES), "built-in": (BUILT_IN_SKIPS, frozenset())}


def run_command(arguments):
    make = mlir_run if arguments.which == "mlir" else built_in_run
    names, command = make(arguments)
    names = [name for name in names if arguments.pattern in name]
    if not names:
        sys.exit(f"numba_others.py: no module has {arguments.pattern!r} in its name")
    runs = []
    for manager in [arguments.manager] if arguments.manager else ["numba", "tarn"]:
        path = pathlib.Path(arguments.out) if arguments.out else None
        if path and not arguments.manager:
            path = path.with_stem(f"{path.stem}-{manager}")
        runs.append(
            numba_suite.run_all(manager, names, arguments.jobs, command, out=path,
                                timeout=arguments.timeout)
        )  # fmt: skip
    if arguments.manager:
        return 1 if runs[0]["broken"] or not runs[0]["tests"] else 0
    return numba_suite.report(*runs, arguments.junit, *EXPECTED[arguments.which])


def compare_command(arguments):
    runs = (json.loads(pathlib.Path(p).read_text()) for p in (arguments.one, arguments.other))
    return numba_suite.report(*runs, arguments.junit, *EXPECTED[arguments.numba])


def main(argv):
    if argv[:1] == ["pytest"]:
        return run_pytest(*argv[1:])
    if argv[:1] == ["unittest"]:
        return run_built_in(*argv[1:])
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    which = parser.add_subparsers(dest="which", required=True)
    mlir = which.add_parser("mlir")
    mlir.add_argument("sources")
    mlir.add_argument("--memory", action="store_true", help="modules about memory alone")
    for sub in mlir, which.add_parser("built-in"):
        sub.add_argument("--manager", choices=["numba", "tarn"], help="one instead of both")
        sub.add_argument("--out", metavar="FILE", help="write the outcomes as JSON")
        sub.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
        sub.add_argument("--pattern", default="", help="modules with this in their names")
        sub.add_argument("--timeout", type=int, default=numba_suite.TIMEOUT_S, metavar="S",
                         help="seconds that a module may take")  # fmt: skip
    compare = which.add_parser("compare")
    compare.add_argument("numba", choices=sorted(EXPECTED))
    compare.add_argument("one")
    compare.add_argument("other")
    for sub in which.choices.values():
        sub.add_argument("--junit", metavar="FILE", help="the comparison as JUnit XML")
    arguments = parser.parse_args(argv)
    return compare_command(arguments) if arguments.which == "compare" else run_command(arguments)


if sys.argv[1:2] == ["unittest"]:  # also in the children that tests start
    keep_from_newer_names()
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
