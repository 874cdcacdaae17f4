#!/usr/bin/env python3
"""numba_suite.py -- numba-cuda's own tests under Numba's manager and under Tarn, compared.

    numba_suite.py [--quick] [--junit FILE]       both managers, compared test by test
    numba_suite.py --manager tarn --out B.json    one of them
    numba_suite.py compare A.json B.json          two such files
    numba_suite.py --quick --record FILE          store the outcomes under Numba's manager
    numba_suite.py --quick --recorded FILE        Tarn alone, compared with these outcomes
    numba_suite.py --quick --verify FILE          are these still the outcomes?

Each module of tests runs in a process of its own, so that a crash costs one module, and
each test is noted when it begins and when it ends, so that it is known which one crashed.
Under Tarn six tests are skipped that look into Numba's own manager (NBEP 7 names them);
any other difference, a crash, and a module that did not end are failures: exit code 1.

Recorded outcomes are for certain versions of Numba and of what it needs, a driver and a list
of modules. With others than recorded, --recorded runs both managers, and --verify fails.

Where TARN_DRIVER is `sim`, Numba is given the stand-in too. Kernels fail there, under both
managers alike.
"""

import argparse
import concurrent.futures
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as xml

TIMEOUT_S = 400  # a module
PACKAGE = "numba.cuda.tests"

# Skipped by Numba itself where the environment names a manager: A121-A124.
_DEALLOCATION = f"{PACKAGE}.cudadrv.test_deallocations.TestDeallocation"
EXPECTED_SKIPS = frozenset(
    [f"{_DEALLOCATION}.test_{name}" for name in (
        "max_pending_count", "max_pending_bytes", "defer_cleanup", "nested_defer_cleanup",
        "exception")]
    + [f"{PACKAGE}.cudapy.test_cuda_array_interface.TestCudaArrayInterface.test_ownership"]
)  # fmt: skip

# cuda-bindings has no CUipcMemHandle.reserved since 13.4, and numba-cuda 0.30.4 pickles its
# handles by it. Tarn's handles do without, so these tests fail under Numba's manager only.
KNOWN_BREAKAGE = (
    f"{PACKAGE}.cudapy.test_ipc.",
    "'cuda.bindings.driver.CUipcMemHandle' object has no attribute 'reserved'",
)

# Modules that are about memory; emm.md of the project's reference counts their calls.
QUICK = (
    "cudadrv.test_array_attr", "cudadrv.test_context_stack",
    "cudadrv.test_cuda_array_slicing", "cudadrv.test_cuda_auto_context",
    "cudadrv.test_cuda_devicerecord", "cudadrv.test_cuda_driver",
    "cudadrv.test_cuda_memory", "cudadrv.test_cuda_ndarray", "cudadrv.test_deallocations",
    "cudadrv.test_emm_plugins", "cudadrv.test_events", "cudadrv.test_host_alloc",
    "cudadrv.test_managed_alloc", "cudadrv.test_pinned", "cudadrv.test_reset_device",
    "cudadrv.test_select_device", "cudapy.test_array", "cudapy.test_cuda_array_interface",
    "cudapy.test_ipc", "cudapy.test_multigpu", "cudapy.test_multithreads",
    "cudapy.test_stream_api",
)  # fmt: skip


# --- modules, in a process of their own ------------------------------------------------


class Recorder(unittest.TestResult):
    """Writes a line of JSON for each test that begins and each outcome."""

    def __init__(self, lines):
        super().__init__()
        self.lines = lines

    def note(self, test, outcome, why=""):
        record = {"id": test.id(), "outcome": outcome, "why": str(why).strip()[-400:]}
        self.lines.write(json.dumps(record) + "\n")
        self.lines.flush()

    def startTest(self, test):
        super().startTest(test)
        self.note(test, "begun")

    def addSuccess(self, test):
        self.note(test, "pass")

    def addError(self, test, error):
        self.note(test, "error", f"{error[0].__name__}: {error[1]}")

    def addFailure(self, test, error):
        self.note(test, "fail", f"{error[0].__name__}: {error[1]}")

    def addSkip(self, test, reason):
        self.note(test, "skip", reason)

    def addExpectedFailure(self, test, error):
        self.note(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self.note(test, "unexpected success")

    def addSubTest(self, test, subtest, error):
        if error is not None:
            kind = "fail" if issubclass(error[0], test.failureException) else "error"
            self.note(test, kind, f"{error[0].__name__}: {error[1]}")


def be_patient():
    """Some tests give a child 4 seconds to import Numba, which is luck on a busy machine."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith(PACKAGE):
            if hasattr(module, "FUTURE_TIMEOUT"):
                module.FUTURE_TIMEOUT = TIMEOUT_S / 4


def run_here(modules, path):
    try:
        suite = unittest.defaultTestLoader.loadTestsFromNames(modules)
    except BaseException as error:
        if type(error).__name__ != "Skipped":  # pytest's, by importorskip() in a module
            raise
        suite = unittest.TestSuite()
    be_patient()
    with open(path, "w") as lines:
        suite.run(Recorder(lines))


# --- all modules ------------------------------------------------------------------------


def modules(quick, pattern):
    package = pathlib.Path(importlib.util.find_spec("numba_cuda").submodule_search_locations[0])
    root = package / "numba" / "cuda" / "tests"
    names = sorted(
        ".".join(path.relative_to(root).with_suffix("").parts)
        for path in root.rglob("test_*.py")
        if "benchmarks" not in path.parts
    )
    if quick:
        names = [name for name in names if name in QUICK]
    return [name for name in names if pattern in name]


def environment(manager):
    env = dict(os.environ)
    for name in ("NUMBA_CUDA_MEMORY_MANAGER", "TARN_LOG", "TARN_RESOURCE"):
        env.pop(name, None)
    if manager != "numba":
        module = "tarn.numba" if manager == "tarn" else manager
        env["NUMBA_CUDA_MEMORY_MANAGER"] = module
    if env.get("TARN_DRIVER") == "sim":
        folders = [simulator_folder(), *env.get("LD_LIBRARY_PATH", "").split(":")]
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    return env


def simulator_folder():
    import tarn

    return os.path.join(tarn.get_library_dir(), "tarn", "sim")


def outcomes(path):
    """The last word on each test of a module, and the test that had begun at the end."""
    tests, running = {}, None
    for line in path.read_text().splitlines() if path.exists() else ():
        record = json.loads(line)
        if record["outcome"] == "begun":
            running = record["id"]
            tests.setdefault(running, {"outcome": "pass", "why": ""})  # all subtests passed
            continue
        running = None if record["id"] == running else running
        tests[record["id"]] = {"outcome": record["outcome"], "why": record["why"]}
    return tests, running


def run_process(arguments, env, folder, path, timeout):
    """Run a module of tests by a Python with these arguments, which notes the outcomes in
    `path`: the outcomes, what is wrong with the module as a whole, and its seconds."""
    began = time.monotonic()
    try:
        process = subprocess.run(
            [sys.executable, *arguments], env=env, cwd=folder, timeout=timeout,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        trouble = f"exit code {process.returncode}" if process.returncode else None
        words = process.stderr[-300:]
    except subprocess.TimeoutExpired:
        trouble, words = f"no end after {timeout} s", ""
    tests, running = outcomes(path)
    if trouble and running:
        tests[running] = {"outcome": "crash", "why": trouble}
    if trouble:
        trouble = f"{trouble}, in {running or 'no test'}: {words}"
    return tests, trouble, time.monotonic() - began


def module_arguments(name, path):
    return [__file__, "module", f"{PACKAGE}.{name}", path]


def run_all(manager, names, jobs, arguments=module_arguments, out=None, env=None,
            timeout=TIMEOUT_S):  # fmt: skip
    """Everything that is known after a run under `manager`, ready to be written down; with
    `out` it is written there after each module, so that a run that is broken off leaves
    something. `arguments`, given a module and the file for its outcomes, are those of the
    Python that runs it, `env` its environment and `timeout` its seconds."""
    env = env or environment(manager)

    def run_module(name):
        path = pathlib.Path(folder) / f"{name}.jsonl"
        return run_process(arguments(name, str(path)), env, folder, path, timeout)

    result = empty_run(manager)
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(jobs) as pool,
    ):
        runs = {pool.submit(run_module, name): name for name in names}
        for run in concurrent.futures.as_completed(runs):
            enter(result, runs[run], *run.result())
            if out:
                out.write_text(json.dumps(result, indent=1, sort_keys=True))
    counts = result["counts"]
    print(f"{manager}: {len(names)} modules, {len(result['tests'])} tests: {counts}", flush=True)
    return result


def empty_run(side):
    """What is known before a run."""
    return {
        "manager": side, "tests": {}, "broken": {}, "seconds": {}, "counts": {}, "modules": {},
    }  # fmt: skip


def enter(result, name, tests, trouble, seconds):
    """Add what is known of one module."""
    result["tests"].update(tests)
    result["modules"][name] = sorted(tests)
    result["seconds"][name] = round(seconds, 1)
    if trouble:
        result["broken"][name] = trouble
        print(f"{result['manager']}: {name}: {trouble}", flush=True)
    for test in tests.values():
        counts = result["counts"]
        counts[test["outcome"]] = counts.get(test["outcome"], 0) + 1


# --- recorded outcomes of Numba's own side ------------------------------------------------

DEPENDENCIES = ("numba", "numba-cuda", "llvmlite", "numpy", "cuda-bindings", "cuda-core")


def conditions(names, variables=("TARN_DRIVER", "TARN_SIM")):
    """What the outcomes depend on: versions, the driver, the modules."""
    versions = {"Python": platform.python_version(), "machine": platform.machine()}
    for name in DEPENDENCIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    versions.update((name, os.environ.get(name)) for name in variables)
    return {"versions": versions, "modules": sorted(names)}


def record(path, run, now):
    """Store the outcomes of a run beside those of other modules under the same conditions; those of a
    module that was broken are of no use."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    modules = stored["modules"] if stored.get("versions") == now["versions"] else {}
    whole = {name: tests for name, tests in run["modules"].items() if name not in run["broken"]}
    for name, tests in whole.items():
        modules[name] = {test: run["tests"][test] for test in tests}
    kept = {"manager": run["manager"], "modules": modules, "versions": now["versions"]}
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    print(f"{path}: {len(whole)} modules stored, {len(run['broken'])} were broken")
    return 1 if run["broken"] or not whole else 0


def recorded(path, now):
    """The recorded outcomes of these modules, the modules without any, and why that is."""
    stored = json.loads(path.read_text())
    there, here = stored["versions"], now["versions"]
    other = [f"{name} {there.get(name)}, here {here.get(name)}"
             for name in sorted({*there, *here}) if there.get(name) != here.get(name)]  # fmt: skip
    kept = {} if other else stored["modules"]
    found = empty_run(stored["manager"])
    for name in now["modules"]:
        if name in kept:
            enter(found, name, kept[name], None, 0)
    missing = [name for name in now["modules"] if name not in kept]
    return found, missing, f"was recorded with {'; '.join(other) or 'other modules'}"


def verify(path, run, now, junit):
    """Does Numba's own side still end as recorded? 1 if not, and with other versions too."""
    found, missing, why = recorded(path, now)
    if missing:
        print(f"{path} {why}")
        return 1
    found["manager"] += ", recorded"
    return report(found, run, junit, frozenset(), known_breakage=False)


def add_recorded_options(parser):
    group = parser.add_mutually_exclusive_group()
    for name, about in (
        ("record", "store the outcomes of Numba's own side, and run nothing else"),
        ("recorded", "use stored outcomes of Numba's own side, if the versions are the same"),
        ("verify", "compare Numba's own side with stored outcomes, and run nothing else"),
    ):
        group.add_argument(f"--{name}", metavar="FILE", type=pathlib.Path, help=about)


def run_sides(arguments, sides, run, now):
    """The runs of these sides, Numba's first; its recorded outcomes stand for a run of the modules
    that have them under these conditions. `run`, given a side, modules and a file, runs their tests."""
    path = pathlib.Path(arguments.out) if arguments.out else None
    stored, missing = None, now["modules"]
    if arguments.record or arguments.verify:
        sides = sides[:1]
    elif arguments.recorded and len(sides) > 1:
        stored, missing, why = recorded(arguments.recorded, now)
        if missing:
            print(f"{arguments.recorded} {why}: both sides run {len(missing)} modules", flush=True)
    runs = []
    for number, side in enumerate(sides):
        several = path and len(sides) > 1
        out = path.with_stem(f"{path.stem}-{side}") if several else path
        if number or stored is None:
            runs.append(run(side, now["modules"], out))
        else:
            runs.append(merged(stored, run(side, missing, out)) if missing else stored)
    return runs


def merged(run, more):
    """A run of some modules with that of others."""
    for name, tests in more["modules"].items():
        outcomes = {test: more["tests"][test] for test in tests}
        enter(run, name, outcomes, more["broken"].get(name), more["seconds"].get(name, 0))
    return run


# --- comparing --------------------------------------------------------------------------


def differences(one, other, expected_skips=EXPECTED_SKIPS, expected_failures=frozenset(),
                known_breakage=True):  # fmt: skip
    """What is not as it should be, by name of the test or module."""
    found = {}
    for test in sorted(set(one["tests"]) | set(other["tests"])):
        before = one["tests"].get(test, {}).get("outcome", "not there")
        after = other["tests"].get(test, {}).get("outcome", "not there")
        is_expected = (after == "skip" and test in expected_skips) or (
            after == "fail" and test in expected_failures
        )
        if before != after and not is_expected:
            if (
                known_breakage
                and after == "pass"
                and is_known_breakage(test, one["tests"].get(test, {}))
            ):
                continue
            why = other["tests"].get(test, {}).get("why", "")
            found[test] = f"{before} under {one['manager']}, {after} under " + (
                f"{other['manager']}: {why}"
            )
    for run in (one, other):
        for name, trouble in run["broken"].items():
            found[f"{name} under {run['manager']}"] = trouble
    return found


def more_with(outcome, one, other, names):
    """How many of these tests end so in the second run and otherwise in the first?"""
    return sum(
        one["tests"].get(test, {}).get("outcome") != outcome
        and other["tests"].get(test, {}).get("outcome") == outcome
        for test in names
    )


def is_known_breakage(test, end):
    """Does a test fail for what is wrong between Numba and the bindings?"""
    module, words = KNOWN_BREAKAGE
    return test.startswith(module) and end.get("why", "").endswith(words)


def reasons(one, other):
    """Tests that end alike for another kind of reason: to be looked at, no failures."""
    for test, before in sorted(one["tests"].items()):
        after = other["tests"].get(test, before)
        kinds = [end["why"].split(":")[0] for end in (before, after)]
        if before["outcome"] == after["outcome"] in ("fail", "error"):
            if kinds[0] != kinds[1]:
                yield f"{test}: {before['why'][:100]} | {after['why'][:100]}"


def report(one, other, junit=None, expected_skips=EXPECTED_SKIPS,
           expected_failures=frozenset(), known_breakage=True):  # fmt: skip
    found = differences(one, other, expected_skips, expected_failures, known_breakage)
    tests = set(one["tests"]) | set(other["tests"])
    for name, trouble in found.items():
        print(f"DIFFERENT {name}: {trouble}")
    for line in reasons(one, other):
        print(f"same outcome, another reason: {line}")
    skipped = more_with("skip", one, other, expected_skips & tests)
    failed = more_with("fail", one, other, expected_failures & tests)
    better = sum(
        is_known_breakage(test, end) and other["tests"].get(test, {}).get("outcome") == "pass"
        for test, end in one["tests"].items()
    )
    print(
        f"{len(tests)} tests: {skipped} more skipped as expected, "
        + (f"{failed} more that fail as expected, " if expected_failures else "")
        + f"{better} that only Numba's own IPC handles fail, {len(found)} differences"
    )
    if junit:
        write_junit(junit, sorted(tests | set(found)), found)
    return 1 if found or not tests else 0


def write_junit(path, names, found):
    suite = xml.Element(
        "testsuite", name="numba-suite", tests=str(len(names)), failures=str(len(found)),
        errors="0", skipped="0",
    )  # fmt: skip
    for name in names:
        folder, _, test = name.rpartition(".")
        case = xml.SubElement(suite, "testcase", classname=folder, name=test)
        if name in found:
            xml.SubElement(case, "failure", message=found[name][:1000])
    xml.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


# --- the command line -------------------------------------------------------------------


def run_command(arguments):
    names = modules(arguments.quick, arguments.pattern)
    if not names:
        sys.exit(f"numba_suite.py: no module has {arguments.pattern!r} in its name")
    managers = [arguments.manager] if arguments.manager else ["numba", "tarn"]
    now = conditions(names)

    def run(manager, some, path):
        return run_all(manager, some, arguments.jobs, out=path)

    runs = run_sides(arguments, managers, run, now)
    if arguments.record:
        return record(arguments.record, runs[0], now)
    if arguments.verify:
        return verify(arguments.verify, runs[0], now, arguments.junit)
    passed = min(run["counts"].get("pass", 0) for run in runs[:1])
    if passed < arguments.at_least:
        print(f"only {passed} passed, wanted {arguments.at_least}")
        return 1
    if len(runs) == 1:
        return 1 if runs[0]["broken"] else 0
    return report(*runs, junit=arguments.junit)


def compare_command(arguments):
    one, other = (
        json.loads(pathlib.Path(path).read_text()) for path in (arguments.one, arguments.other)
    )
    expected = EXPECTED_SKIPS if arguments.expected_skips else frozenset()
    return report(one, other, arguments.junit, expected)


def main(argv):
    if argv[:1] == ["module"]:
        return run_here(argv[1:-1], argv[-1])
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--junit", metavar="FILE", help="write the comparison as JUnit XML")
    if argv[:1] == ["compare"]:
        parser.add_argument("one")
        parser.add_argument("other")
        parser.add_argument(
            "--expected-skips", action="store_true", default=True,
            help="the second run is under Tarn and may skip six tests (the default)",
        )  # fmt: skip
        parser.add_argument("--no-expected-skips", action="store_false", dest="expected_skips")
        return compare_command(parser.parse_args(argv[1:]))
    parser.add_argument(
        "--manager", help="one instead of both: numba, tarn, or a module with a plugin"
    )
    parser.add_argument("--out", metavar="FILE", help="write the outcomes as JSON")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--pattern", default="", help="modules with this in their names")
    parser.add_argument("--quick", action="store_true", help="modules about memory alone")
    parser.add_argument(
        "--at-least", type=int, default=0, metavar="N",
        help="that many have to pass under the first manager",
    )  # fmt: skip
    add_recorded_options(parser)
    return run_command(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
