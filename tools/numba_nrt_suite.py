#!/usr/bin/env python3
"""numba_nrt_suite.py -- Numba's own tests on its runtime and on Tarn's, compared.

    numba_nrt_suite.py list                       the tests that check for leaks, by module
    numba_nrt_suite.py [--quick] [--junit FILE]   both runtimes, compared test by test
    numba_nrt_suite.py --core tarn --out B.json   one of them
    numba_nrt_suite.py --part 1/3                 the first of three parts of the modules
    numba_nrt_suite.py compare A.json B.json      two such files
    numba_nrt_suite.py --part 1/9 --record FILE   store the outcomes on Numba's runtime
    numba_nrt_suite.py --quick --recorded FILE    compare with these outcomes where FILE has them
    numba_nrt_suite.py --quick --verify FILE      are these still the outcomes?
    numba_nrt_suite.py --pruner ...               Tarn's side has Tarn's pruner too, in mode sound

What is run: every class of numba.tests that checks each of its tests for leaks, and all of
test_nrt, test_nrt_refct and test_refop_pruning; unchanged, each module in a process of its
own. Any test that ends otherwise on Tarn's runtime is a failure, and so is a module that
does not end, or did not have the runtime and the pruner that it was to have: exit code 1.

The environment must not have numba-cuda, whose redirector breaks the import of one of the
modules. Tarn has to be installed in it, so that processes that tests start get its runtime.
"""

import argparse
import importlib
import importlib.util
import json
import os
import pathlib
import pkgutil
import subprocess
import sys
import tempfile
import unittest

import numba_suite as common

TIMEOUT_S = 3600  # a module, on a busy machine
PACKAGE = "numba.tests"
WHOLE = ("test_nrt", "test_nrt_refct", "test_refop_pruning")

# About two minutes for both runtimes on two cores: the runtime itself, arrays that come and
# go, lists and sets that grow, objects with counts inside, generators.
QUICK = WHOLE + ("test_generators", "test_buffer_protocol", "test_array_return")


# --- which tests ------------------------------------------------------------------------


def test_modules():
    """All modules of tests of Numba for CPUs, by name."""
    folder = importlib.util.find_spec(PACKAGE).submodule_search_locations[0]
    for found in pkgutil.walk_packages([folder], PACKAGE + "."):
        name = found.name.removeprefix(PACKAGE + ".")
        if name.rpartition(".")[2].startswith("test_"):
            yield name


def cases(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases(test)
        else:
            yield test


def chosen(name):
    """The tests of a module that are to be run here; None where it cannot be imported."""
    from numba.tests.support import MemoryLeak

    try:
        module = importlib.import_module(f"{PACKAGE}.{name}")
    except unittest.SkipTest:
        return []
    except Exception:
        return None
    tests = cases(unittest.defaultTestLoader.loadTestsFromModule(module))
    return [test for test in tests if name in WHOLE or isinstance(test, MemoryLeak)]


def list_here(path):
    """Write how many tests each module has to run; in a process of its own."""
    found = {}
    for name in sorted(test_modules()):
        tests = chosen(name)
        if tests is None:
            found[name] = "cannot be imported"
        elif tests:
            found[name] = len(tests)
    pathlib.Path(path).write_text(json.dumps(found))


def listed():
    """{module: number of tests}, made by importing all of numba.tests once."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "list.json"
        command = [sys.executable, __file__, "list-here", str(path)]
        done = subprocess.run(
            command, env=environment("numba"), cwd=folder, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"numba_nrt_suite.py: numba.tests cannot be listed: {done.stderr}")
        found = json.loads(path.read_text())
    broken = [name for name, count in found.items() if isinstance(count, str)]
    if broken:
        sys.exit(f"numba_nrt_suite.py: cannot be imported: {', '.join(broken)}")
    return found


def part_of(counts, part):
    """The modules of part "1/3": dealt out in order of their number of tests, the longest first."""
    which, _, parts = part.partition("/")
    if not (which.isdecimal() and parts.isdecimal() and 1 <= int(which) <= int(parts)):
        sys.exit(f"numba_nrt_suite.py: there is no part {part!r}; 1/3 is the first of three")
    longest_first = sorted(counts, key=lambda name: (-counts[name], name))
    return sorted(longest_first[int(which) - 1 :: int(parts)])


def list_command():
    found = listed()
    for name, count in sorted(found.items()):
        print(f"{count:5} {name}")
    leaky = {name: count for name, count in found.items() if name not in WHOLE}
    print(
        f"{sum(leaky.values())} tests that check for leaks in {len(leaky)} modules; "
        f"{sum(found.values()) - sum(leaky.values())} in {', '.join(WHOLE)}"
    )


# --- one module, in a process of its own ------------------------------------------------


def installed():
    """What this process runs on: "numba", "tarn" or "tarn+pruner"."""
    from numba.core.registry import cpu_target
    from numba.core.runtime import _nrt_python

    key = cpu_target.target_context.codegen().magic_tuple()  # it names each pruner but Numba's own
    core = "tarn" if hasattr(_nrt_python, "tarn_version") else "numba"
    return core + "+pruner" * any("tarn.prune" in str(word) for word in key)


def run_here(name, core, path):
    """Run the chosen tests of a module; fail if they ran on something else than `core`."""
    if core != "numba":
        from tarn import nrt

        nrt.install()
    with open(path, "w") as lines:
        unittest.TestSuite(chosen(name)).run(common.Recorder(lines))
    if installed() != core:
        sys.exit(f"ran on {installed()}, not on {core}")


# --- all modules ------------------------------------------------------------------------


def environment(core):
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TARN_", "NUMBA_")) and name != "PYTHONPATH"
    }
    if core != "numba":
        env["TARN_NRT"] = "1"
    if core == "tarn+pruner":
        env["TARN_PRUNE"] = "sound"  # for the processes that tests start, too
    return env


def run_all(core, names, jobs, out=None):
    """As numba_suite's, on a runtime instead of under a manager."""

    def arguments(name, path):
        return [__file__, "module", name, core, path]

    return common.run_all(core, names, jobs, arguments, out, environment(core), TIMEOUT_S)


# --- the command line -------------------------------------------------------------------


def compare(one, other, junit):
    """Print what differs and the counts side by side; 1 if there is any difference."""
    found = common.differences(one, other, frozenset())
    tests = set(one["tests"]) | set(other["tests"])
    for name, trouble in found.items():
        print(f"DIFFERENT {name}: {trouble}")
    print(f"{'':20}{one['manager']:>12}{other['manager']:>12}")
    for outcome in sorted(set(one["counts"]) | set(other["counts"])):
        numbers = (run["counts"].get(outcome, 0) for run in (one, other))
        print(f"{outcome:20}" + "".join(f"{number:12}" for number in numbers))
    print(f"{len(tests)} tests: {len(found)} differences")
    if junit:
        common.write_junit(junit, sorted(tests | set(found)), found)
    return 1 if found or not tests else 0


def run_command(arguments):
    if importlib.util.find_spec("numba_cuda"):
        sys.exit("numba_nrt_suite.py: numba-cuda is in this environment; use one without")
    names = list(QUICK) if arguments.quick else part_of(listed(), arguments.part)
    names = [name for name in names if arguments.pattern in name]
    if not names:
        sys.exit(f"numba_nrt_suite.py: no module has {arguments.pattern!r} in its name")
    ours = "tarn+pruner" if arguments.pruner else "tarn"
    cores = ["numba", ours] if arguments.core is None else [arguments.core.replace("tarn", ours)]
    now = common.conditions(names, variables=())

    def run(core, some, path):
        return run_all(core, some, arguments.jobs, path)

    runs = common.run_sides(arguments, cores, run, now)
    if arguments.record:
        return common.record(arguments.record, runs[0], now)
    if arguments.verify:
        return common.verify(arguments.verify, runs[0], now, arguments.junit)
    if len(runs) == 1:
        return 1 if runs[0]["broken"] else 0
    return compare(*runs, arguments.junit)


def main(argv):
    if argv[:1] == ["module"]:
        return run_here(*argv[1:])
    if argv[:1] == ["list-here"]:
        return list_here(*argv[1:])
    if argv[:1] == ["list"]:
        return list_command()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--junit", metavar="FILE", help="write the comparison as JUnit XML")
    if argv[:1] == ["compare"]:
        parser.add_argument("one")
        parser.add_argument("other")
        arguments = parser.parse_args(argv[1:])
        one, other = (
            json.loads(pathlib.Path(path).read_text()) for path in (arguments.one, arguments.other)
        )
        return compare(one, other, arguments.junit)
    parser.add_argument("--core", choices=("numba", "tarn"), help="one instead of both")
    parser.add_argument("--pruner", action="store_true", help="Tarn's pruner on Tarn's runtime")
    parser.add_argument("--out", metavar="FILE", help="write the outcomes as JSON")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--pattern", default="", help="modules with this in their names")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="part K of N of the modules")
    parser.add_argument("--quick", action="store_true", help="a few modules, two minutes")
    common.add_recorded_options(parser)
    return run_command(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
