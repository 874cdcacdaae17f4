"""tools/numba_suite.py, tools/numba_nrt_suite.py: recorded outcomes of Numba's own side stand for
a run of it, and no difference passes."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tools"))

import numba_nrt_suite  # noqa: E402
import numba_suite  # noqa: E402
import steps  # noqa: E402

RECORDED = {"numba-suite": "numba_suite.json", "numba-nrt": "numba_nrt_suite.json"}
MODULES = ["one", "two"]
PASSED = {"one.A.test_a": "pass", "one.A.test_b": "pass", "two.B.test_c": "skip"}


def run_of(side, outcomes, broken=()):
    """Return what run_all() returns."""
    tests = {name: {"outcome": outcome, "why": ""} for name, outcome in outcomes.items()}
    counts = {outcome: list(outcomes.values()).count(outcome) for outcome in outcomes.values()}
    modules = {
        name: [test for test in tests if test.startswith(name)] for name in MODULES
    }  # fmt: skip
    return {
        "manager": side, "tests": tests, "broken": dict.fromkeys(broken, "exit code 1"),
        "seconds": {}, "counts": counts, "modules": modules,
    }  # fmt: skip


class Recorded(unittest.TestCase):
    """Both tools; the runs are made up."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "recorded.json"
        self.versions = {"numba": "1", "numba-cuda": "1"}

    def suite(self, tool, *arguments, broken=(), **sides):
        """Return the exit code and the sides that ran, with these outcomes of the sides."""
        ran = []

        def run_all(side, names, *_, **__):
            ran.append(side)
            outcomes = {test: end for test, end in sides[side].items() if test[:3] in names}
            return run_of(side, outcomes, broken)

        now = {"versions": self.versions, "modules": MODULES}
        output = io.StringIO()
        with (
            mock.patch.object(numba_suite, "conditions", lambda *_, **__: now),
            mock.patch.object(numba_suite, "modules", lambda *_: MODULES),
            mock.patch.object(tool, "run_all", run_all),
            contextlib.redirect_stdout(output),
        ):
            code = tool.main(["--quick", *map(str, arguments)])
        return code, ran, output.getvalue()

    def each(self):
        for tool in (numba_suite, numba_nrt_suite):
            with self.subTest(tool=tool.__name__):
                self.file.unlink(missing_ok=True)
                self.versions = {"numba": "1", "numba-cuda": "1"}
                self.assertEqual(
                    self.suite(tool, "--record", self.file, numba=PASSED)[:2], (0, ["numba"])
                )
                yield tool

    def test_tarn_alone_runs_where_the_versions_are_the_recorded_ones(self):
        for tool in self.each():
            code, ran, _ = self.suite(tool, "--recorded", self.file, tarn=PASSED)
            self.assertEqual((code, ran), (0, ["tarn"]))

    def test_each_difference_from_the_recorded_outcomes_fails(self):
        for tool in self.each():
            for change in (
                {"one.A.test_a": "fail"}, {"one.A.test_b": "skip"}, {"two.B.test_c": "pass"},
                {"two.B.test_d": "pass"},
            ):  # fmt: skip
                code, ran, said = self.suite(
                    tool, "--recorded", self.file, tarn={**PASSED, **change}
                )
                self.assertEqual((code, ran), (1, ["tarn"]))
                self.assertIn(f"DIFFERENT {next(iter(change))}", said)
            less = {name: end for name, end in PASSED.items() if name != "one.A.test_a"}
            code, ran, said = self.suite(tool, "--recorded", self.file, tarn=less)
            self.assertEqual((code, ran), (1, ["tarn"]))
            self.assertIn("DIFFERENT one.A.test_a: pass under numba, not there under tarn", said)

    def test_a_planted_difference_in_the_file_fails(self):
        for tool in self.each():
            found = json.loads(self.file.read_text())
            found["modules"]["one"]["one.A.test_a"]["outcome"] = "error"
            self.file.write_text(json.dumps(found))
            self.assertEqual(self.suite(tool, "--recorded", self.file, tarn=PASSED)[0], 1)
            self.assertEqual(self.suite(tool, "--verify", self.file, numba=PASSED)[0], 1)

    def test_a_module_that_breaks_on_tarn_fails(self):
        for tool in self.each():
            found = self.suite(tool, "--recorded", self.file, broken=["one"], tarn=PASSED)
            self.assertEqual(found[:2], (1, ["tarn"]))

    def test_with_other_versions_both_sides_run(self):
        for tool in self.each():
            self.versions = {"numba": "2", "numba-cuda": "1"}
            arguments = tool, "--recorded", self.file
            code, ran, said = self.suite(*arguments, numba=PASSED, tarn=PASSED)
            self.assertEqual((code, ran), (0, ["numba", "tarn"]))
            self.assertIn("recorded with numba 1, here 2", said)
            other = {**PASSED, "one.A.test_a": "fail"}
            self.assertEqual(self.suite(*arguments, numba=PASSED, tarn=other)[0], 1)
            self.assertEqual(self.suite(*arguments, numba=other, tarn=other)[0], 0)

    def test_a_module_without_recorded_outcomes_runs_on_both_sides(self):
        for tool in self.each():
            found = json.loads(self.file.read_text())
            del found["modules"]["one"]
            self.file.write_text(json.dumps(found))
            sides = {"numba": PASSED, "tarn": PASSED}
            code, ran, _ = self.suite(tool, "--recorded", self.file, **sides)
            self.assertEqual((code, ran), (0, ["numba", "tarn"]))
            for test in ("one.A.test_a", "two.B.test_c"):  # not recorded, and recorded
                sides["tarn"] = {**PASSED, test: "fail"}
                self.assertEqual(self.suite(tool, "--recorded", self.file, **sides)[0], 1)
            sides = {"numba": {**PASSED, "one.A.test_a": "fail"}, "tarn": sides["tarn"]}
            self.assertEqual(self.suite(tool, "--verify", self.file, **sides)[0], 1)

    def test_a_recording_keeps_the_modules_that_it_does_not_run(self):
        for tool in self.each():
            first = json.loads(self.file.read_text())
            del first["modules"]["one"]
            self.file.write_text(json.dumps(first))
            with mock.patch.object(sys.modules[__name__], "MODULES", ["one"]):
                only = {name: end for name, end in PASSED.items() if name.startswith("one")}
                self.assertEqual(self.suite(tool, "--record", self.file, numba=only)[0], 0)
            code, ran, _ = self.suite(tool, "--recorded", self.file, tarn=PASSED)
            self.assertEqual((code, ran), (0, ["tarn"]))

    def test_verify_fails_where_numba_ends_otherwise_or_the_versions_are_others(self):
        for tool in self.each():
            found = self.suite(tool, "--verify", self.file, numba=PASSED)
            self.assertEqual(found[:2], (0, ["numba"]))
            for outcome in ("fail", "skip"):
                other = {**PASSED, "one.A.test_a": outcome}
                self.assertEqual(self.suite(tool, "--verify", self.file, numba=other)[0], 1)
            self.versions = {"numba": "2", "numba-cuda": "1"}
            self.assertEqual(self.suite(tool, "--verify", self.file, numba=PASSED)[0], 1)

    def test_outcomes_of_a_broken_module_are_not_recorded(self):
        for tool in self.each():
            self.file.unlink()
            code = self.suite(tool, "--record", self.file, broken=["one"], numba=PASSED)[0]
            self.assertEqual(code, 1)
            self.assertEqual(list(json.loads(self.file.read_text())["modules"]), ["two"])


class Conditions(unittest.TestCase):
    def test_a_version_the_driver_and_the_modules_are_among_them(self):
        now = numba_suite.conditions(MODULES)
        with mock.patch.dict("os.environ", TARN_SIM="devices=7"):
            self.assertNotEqual(numba_suite.conditions(MODULES), now)
        self.assertNotEqual(numba_suite.conditions(MODULES[:1]), now)
        with mock.patch("importlib.metadata.version", lambda name: "0.0.0"):
            self.assertNotEqual(numba_suite.conditions(MODULES), now)


class Parts(unittest.TestCase):
    COUNTS = {"long": 90, "middle": 40, "half": 40, "short": 3, "one": 1}

    def test_each_module_is_in_one_part_and_the_longest_are_in_different_ones(self):
        for count in range(1, 7):
            parts = [
                numba_nrt_suite.part_of(self.COUNTS, f"{part}/{count}")
                for part in range(1, count + 1)
            ]
            names = [name for part in parts for name in part]
            self.assertEqual(sorted(names), sorted(self.COUNTS))
        self.assertEqual(numba_nrt_suite.part_of(self.COUNTS, "1/3"), ["long", "short"])

    def test_a_part_that_there_is_not_is_refused(self):
        for part in ("0/3", "4/3", "1", "a/b", "-1/2", "1/0"):
            with self.assertRaises(SystemExit) as refused:
                numba_nrt_suite.part_of(self.COUNTS, part)
            self.assertIn(repr(part), str(refused.exception))

    def test_check_runs_all_parts(self):
        commands = [step.command for step in steps.FULL if "numba_nrt_suite --part" in step.command]
        count = len(commands)
        wanted = [f"numba_nrt_suite --part {part}/{count}" for part in range(1, count + 1)]
        self.assertEqual([command.partition(" --recorded")[0] for command in commands], wanted)


class Steps(unittest.TestCase):
    def test_the_recorded_outcomes_are_used_and_verified(self):
        by_name = {step.name: step for step in steps.STEPS}
        for name, file in RECORDED.items():
            self.assertIn(f"--recorded tools/{file}", by_name[name].command)
            self.assertIn(f"--verify tools/{file}", by_name[f"{name}-recorded"].command)
            found = json.loads((PROJECT / "tools" / file).read_text())
            self.assertEqual(found["manager"], "numba")
            ends = [end for tests in found["modules"].values() for end in tests.values()]
            self.assertGreater(sum(end["outcome"] == "pass" for end in ends), 90)
            pinned = (PROJECT / "constraints.txt").read_text()
            self.assertIn(f"numba=={found['versions']['numba']}\n", pinned)


if __name__ == "__main__":
    unittest.main()
