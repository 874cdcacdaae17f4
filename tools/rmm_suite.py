#!/usr/bin/env python3
"""Run RMM's own Python tests on Tarn, with `rmm` mapped to tarn.rmm, and count by reason.

    tools/rmm_suite.py CHECKOUT                       on the simulator
    tools/rmm_suite.py CHECKOUT --pageable            its devices access pageable host memory
    tools/rmm_suite.py CHECKOUT --driver libcuda.so.1 --rmm --jobs 8
                                                      on a GPU, beside RMM itself
    tools/rmm_suite.py CHECKOUT -- -k pool -x         the rest is for pytest

CHECKOUT is a checkout of RMM, or its folder of tests. The repository keeps nothing of it. Run the
script with a Python that has tarn, numba-cuda, numpy, cuda-bindings and pytest; --jobs needs
pytest-xdist. Tests of behaviours in which Tarn differs on purpose (docs/rmm-names.md) are rows of
their own. Exit 1 if a test ends with "missing name" or "other behaviour"; with --rmm, if it is one
that RMM passes.
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

RUNTIME = "needs the CUDA runtime"
MISSING = "missing name"
OTHER = "other behaviour"

# The beginnings of tests of behaviours in which Tarn differs on purpose, and the difference.
DECIDED = {
    "test_device_buffer.py::test_rmm_device_buffer[": "__cuda_array_interface__ has a stream",
    "test_device_buffer.py::test_rmm_device_buffer_bytes_roundtrip[hb4]": "to_device takes all items",
    "test_device_buffer.py::test_rmm_device_buffer_bytes_roundtrip[hb5]": "to_device takes all shapes",
}

# It runs in each process of the tests: RMM's names become Tarn's before any test is imported.
INSTALL = """
import tarn.rmm
tarn.rmm.install_as_rmm()
"""

# The first process writes the results; with pytest-xdist, others run the tests.
PLUGIN = """
import collections, json, os
results = collections.OrderedDict()

def pytest_runtest_logreport(report):
    before = results.get(report.nodeid)
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        results[report.nodeid] = ["failed", str(crash.message if crash else report.longrepr),
                                  str(report.longrepr)]
    elif report.skipped:
        results[report.nodeid] = ["skipped", str(report.longrepr[2]), ""]
    elif report.when == "call" and (before is None or before[0] == "passed"):
        results[report.nodeid] = ["passed", "", ""]

def pytest_collectreport(report):
    if report.failed:
        results[report.nodeid] = ["failed", str(report.longrepr).splitlines()[-1],
                                  str(report.longrepr)]
    elif report.skipped:
        results[report.nodeid] = ["skipped", str(report.longrepr[2]), ""]

def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):
        return
    with open(os.environ["SUITE_RESULTS"], "w") as file:
        json.dump(results, file)
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--driver", default="sim", help="TARN_DRIVER of the run")
    parser.add_argument("--pageable", action="store_true", help="TARN_SIM=attribute=88:1")
    parser.add_argument("--rmm", action="store_true", help="also run the tests on RMM itself")
    parser.add_argument("--jobs", type=int, default=1, help="processes, with pytest-xdist")
    parser.add_argument("--out", type=pathlib.Path, help="write a line for each test to this file")
    parser.add_argument("--list", action="store_true", help="list the tests that fail")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest")
    return parser.parse_intermixed_args()


def tests_of(checkout):
    """Return the folder of RMM's Python tests in a checkout."""
    for folder in (checkout / "python/rmm/rmm/tests", checkout / "python/rmm/tests", checkout):
        if (folder / "test_helpers.py").exists() or list(folder.glob("test_*.py")):
            return folder
    sys.exit(f"{checkout} has no Python tests of RMM")


def simulator():
    """Return the path of the driver simulator, for libraries that open a driver themselves."""
    import tarn

    return str(pathlib.Path(tarn.get_library_dir()) / "tarn/sim/libcuda.so.1")


def environment_of(options, place):
    """Return the environment variables of a run in the folder `place`."""
    variables = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH")])),
        SUITE_RESULTS=str(place / "results.json"),
        TARN_DRIVER=options.driver,
    )
    if options.driver == "sim":
        variables["NUMBA_CUDA_DRIVER"] = simulator()
        variables["LD_LIBRARY_PATH"] = str(pathlib.Path(simulator()).parent)
    if options.pageable:
        variables["TARN_SIM"] = "attribute=88:1"
    return variables


def run(options, install):
    """Run the tests on a copy, outside of the checkout; return {test: [outcome, why, text]}.

    `install` is the text that the processes of the tests run first.
    """
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        shutil.copytree(tests_of(options.checkout), place / "tests")
        (place / "rmm_results.py").write_text(install + PLUGIN)
        (place / "pytest.ini").write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "rmm_results", "--tb=short"]
        command += ["-p", "no:cacheprovider", "--no-header", "-r", "N"]
        command += ["-n", str(options.jobs)] if options.jobs > 1 else []
        command += ["--continue-on-collection-errors", *options.pytest, "tests"]
        done = subprocess.run(
            command,
            cwd=place,
            env=environment_of(options, place),
            capture_output=True,
            text=True,
            check=False,
        )
        if not (place / "results.json").exists():
            sys.exit(done.stdout[-4000:] + done.stderr[-4000:])
        return json.loads((place / "results.json").read_text())


def reason(test, outcome, why, text):
    """Return the row of the table for one test."""
    if outcome != "failed":
        return outcome if outcome == "passed" else f"skipped: {why.removeprefix('Skipped: ')}"
    for start, difference in DECIDED.items():
        if test.removeprefix("tests/").startswith(start):
            return f"decided: {difference}"
    if "cudaError" in text or "in cuda.bindings.runtime" in text:
        return RUNTIME
    if any(f"{name}: " in why for name in ("AttributeError", "ImportError", "ModuleNotFoundError")):
        return f"{MISSING}: {why.splitlines()[0][:80]}"
    return f"{OTHER}: {why.splitlines()[0][:100]}"


def is_defect(row):
    """Return whether a row of the table is a defect of Tarn."""
    return row.startswith((MISSING, OTHER))


def print_table(title, rows):
    """Print how many tests each row of the table has."""
    counts = collections.Counter(rows.values())
    print(f"{title}: {len(rows)} tests")
    for row, count in sorted(counts.items(), key=lambda item: (item[0] != "passed", item[0])):
        print(f"{count:6} {row}")


def timed_rows(title, options, install):
    """Run the tests, print their table, and return {test: row} and the results."""
    start = time.monotonic()
    results = run(options, install)
    rows = {test: reason(test, *result) for test, result in results.items()}
    print_table(f"{title}, {time.monotonic() - start:.0f} s", rows)
    return rows, results


def main():
    options = arguments()
    rows, results = timed_rows("tarn.rmm", options, INSTALL)
    beside = timed_rows("rmm", options, "")[0] if options.rmm else {}
    # What RMM itself does not pass is no difference between the two.
    worse = {test: row for test, row in rows.items() if row != "passed"}
    if options.rmm:
        worse = {test: row for test, row in worse.items() if beside.get(test) == "passed"}
        print_table("passed by rmm, not by tarn.rmm", worse)
        missed = [test for test, row in beside.items() if row == "passed" and test not in rows]
        print(f"{len(missed):6} passed by rmm and not run by tarn.rmm {missed[:3]}")
    if options.list:
        for test, row in worse.items():
            print(f"{test}: {row}")
    if options.out:
        lines = [f"{test}\t{row}\t{beside.get(test, '')}" for test, row in rows.items()]
        texts = [f"\n== {test}\n{results[test][2]}" for test in worse if results[test][2]]
        options.out.write_text("\n".join(lines + texts) + "\n")
    return 1 if any(is_defect(row) for row in worse.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
