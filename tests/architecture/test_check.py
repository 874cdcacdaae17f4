"""./check: the table of steps is valid, and no failed or skipped step passes."""

import contextlib
import graphlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tools"))

import check  # noqa: E402
import steps  # noqa: E402
import workflow  # noqa: E402

PASSED = "<testsuite><testcase name='a'/><testcase name='b'/></testsuite>"


def step(name, command, **more):
    return steps.Step(name, "", command, more.pop("cpu", 100), 1, **more)


def write(text):
    """Return a command that writes this text as the step's results."""
    return f'echo "{text}" >$RESULTS/$STEP.xml'


def run(table, *arguments):
    """Return the exit code and the output of ./check with this table."""
    old = check.RESULTS, steps.STEPS, steps.PLAIN
    output = io.StringIO()
    output.reconfigure = lambda **_: None
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(output):
        check.RESULTS, steps.STEPS, steps.PLAIN = pathlib.Path(folder), table, table
        try:
            code = check.main(list(arguments))
        finally:
            check.RESULTS, steps.STEPS, steps.PLAIN = old
    return code, output.getvalue()


class Runs(unittest.TestCase):
    """Run each in the project's root, as ./check does."""

    def setUp(self):
        self.enterContext(contextlib.chdir(PROJECT))

    def test_what_passed_is_added_up(self):
        code, said = run((step("a", write(PASSED), junit=True), step("b", "true")))
        self.assertEqual((code, said.splitlines()[-1]), (0, "3 passed, 0 failed"))

    def test_full_continues_with_the_steps_that_have_not_passed_on_this_commit(self):
        table = step("a", "true"), step("b", "test -e $RESULTS/good")
        old = check.RESULTS, steps.STEPS, check.commit
        chosen = []
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            check.RESULTS, steps.STEPS = pathlib.Path(folder), table
            try:
                for name in (None, "one", "one", "one", "two"):  # None: changed files
                    check.commit = lambda name=name: name
                    todo = check.choose(check.parse(["--full", "--continue"]))
                    chosen.append([each.name for each in todo])
                    check.run(todo)
                    if name:
                        (check.RESULTS / "good").touch()
            finally:
                check.RESULTS, steps.STEPS, check.commit = old
        self.assertEqual(chosen, [["a", "b"], ["a", "b"], ["b"], [], ["a", "b"]])

    def test_a_step_that_fails_says_how_to_repeat_it_alone(self):
        code, said = run((step("a", "echo the reason; exit 3"),))
        self.assertEqual((code, said.splitlines()[-1]), (1, "0 passed, 1 failed"))
        self.assertIn("    the reason\na: FAILED (exit 3)", said)
        self.assertIn("./check --only a\n", said)

    def test_a_suite_that_ran_nothing_has_failed(self):
        for text in ("", "<testsuite/>", "<not xml"):
            code, said = run((step("a", write(text), junit=True),))
            self.assertEqual((code, said.splitlines()[-1]), (1, "0 passed, 1 failed"))
        code, said = run((step("a", "true", junit=True),))
        self.assertEqual(said.splitlines()[-1], "0 passed, 1 failed")

    def test_a_step_that_only_prepares_passes_alone(self):
        code, said = run((step("a", "true", setup=True),))
        self.assertEqual((code, said.splitlines()[-1]), (0, "0 passed, 0 failed"))
        code, said = run((step("a", "false", setup=True),))
        self.assertEqual((code, said.splitlines()[-1]), (1, "0 passed, 1 failed"))

    def test_a_suite_that_passes_every_test_and_fails_has_failed(self):
        code, said = run((step("a", write(PASSED) + "; exit 1", junit=True),))
        self.assertEqual((code, said.splitlines()[-1]), (1, "2 passed, 1 failed"))

    def test_results_of_an_earlier_run_do_not_count(self):
        old = step("a", write(PASSED), junit=True)
        new = step("a", "true", junit=True)
        with tempfile.TemporaryDirectory() as folder:
            before, check.RESULTS = check.RESULTS, pathlib.Path(folder)
            with contextlib.redirect_stdout(io.StringIO()):
                try:
                    check.run([old])
                    (outcome,) = check.run([new]).values()
                    self.assertEqual(check.counts(new, outcome)[0].passed, 0)
                finally:
                    check.RESULTS = before

    def test_what_needs_a_step_that_failed_does_not_run_and_counts_as_failed(self):
        table = (
            step("a", "false", setup=True),
            step("b", "echo ran >&2", needs=("a",)),
            step("c", "true", needs=("b",)),
            step("d", "true"),
        )
        code, said = run(table)
        self.assertEqual((code, said.splitlines()[-1]), (1, "1 passed, 3 failed"))
        self.assertIn("b: not run, it needs a\nc: not run, it needs b\n", said)

    def test_a_named_step_brings_what_it_needs_and_nothing_else(self):
        table = (
            step("c", "true", needs=("a",)),
            step("a", "true"),
            step("b", "true"),
        )
        code, said = run(table, "c")
        self.assertEqual((code, re.findall(r"^(\w): ok", said, re.MULTILINE)), (0, ["a", "c"]))
        code, said = run(table, "--only", "c")
        self.assertEqual((code, re.findall(r"^(\w): ok", said, re.MULTILINE)), (0, ["c"]))

    def test_two_steps_run_side_by_side(self):
        """Each waits for a file of the other."""
        meet = "touch {0}.here; for i in $(seq 500); do [ -e {1}.here ] && exit; sleep 0.02; done; false"
        meet = 'cd "$RESULTS"; ' + meet
        table = tuple(step(a, meet.format(a, b)) for a, b in ("ab", "ba"))
        code, said = run(table)
        self.assertEqual((code, said.splitlines()[-1]), (0, "2 passed, 0 failed"))

    def test_no_third_step_and_none_beside_one_that_runs_alone(self):
        """A step fails where it sees the file of one that may not run now."""
        alone = ('cd "$RESULTS"; [ -z "$(ls *.now 2>/dev/null)" ] && touch {0}.now && sleep {1} '
                 "&& rm {0}.now")  # fmt: skip
        both = ('cd "$RESULTS"; touch {0}.now && sleep {1} && [ $(ls *.now | wc -l) -le 2 ] && '
                "[ ! -e c.now ] && rm {0}.now")  # fmt: skip
        table = tuple(
            step(name, (alone if name == "c" else both).format(name, pause), alone=name == "c")
            for name, pause in {"a": 0.1, "b": 0.6, "c": 0.1, "d": 0.1, "e": 0.3, "f": 0.1}.items()
        )
        code, said = run(table)
        self.assertEqual((code, said.splitlines()[-1]), (0, "6 passed, 0 failed"), said)
        self.assertLess(said.index("c: ok"), said.index("d: ok"), "overtaken")

    def test_the_output_of_each_step_is_whole_and_the_table_in_order(self):
        lines = "for i in 1 2 3 4 5; do echo {0}$i; sleep 0.01; done; touch {0}.done; exit 1"
        after_b = "for i in $(seq 500); do [ -e b.done ] && break; sleep 0.02; done; sleep 0.5; "
        table = tuple(
            step(name, 'cd "$RESULTS"; ' + pause + lines.format(name), junit=True)
            for name, pause in (("a", after_b), ("b", ""))
        )
        _, said = run(table)
        for name in "ab":
            self.assertIn(
                "".join(f"    {name}{i}\n" for i in range(1, 6)) + f"{name}: FAILED", said
            )
        self.assertLess(said.index("b: FAILED"), said.index("a: FAILED"))
        self.assertLess(*(re.search(rf"^{name}  ", said, re.MULTILINE).start() for name in "ab"))

    def test_an_interrupt_or_a_kill_ends_what_runs(self):
        for kind in ("INT", "TERM"):
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                ended = f"sleep 20; touch {folder}/ended"
                table = (step("a", ended), step("b", f"sleep 0.3; kill -{kind} $PPID; {ended}"))
                with self.assertRaises(KeyboardInterrupt):
                    run(table)
                self.assertEqual(os.listdir(folder), [])

    def test_cpu_seconds_over_the_budget_are_shown(self):
        busy = f"{sys.executable} -c 'import time\nwhile time.process_time() < 0.2: pass'"
        _, said = run((step("a", busy, cpu=0), step("b", "sleep 0.2", cpu=1)))
        self.assertRegex(said, r"a: ok, \d s, \d CPU seconds, over its budget of 0\n")
        self.assertRegex(said, r"b: ok, \d s, 0 CPU seconds\n")  # though a ran beside it
        self.assertIn("over budget: a\n", said)

    def test_a_step_sees_nothing_of_the_callers_settings(self):
        table = (step("a", 'test -z "${TARN_LOG:-}${PYTHONPATH:-}" && test "$TARN_DRIVER" = sim'),)
        command = [sys.executable, "-c", "import check, steps, sys; steps.PLAIN = steps.STEPS = "
                   f"(steps.Step(**{vars(table[0])!r}),); sys.exit(check.main([]))"]  # fmt: skip
        foreign = {"TARN_LOG": "x", "PYTHONPATH": str(PROJECT / "tools"), "TARN_DRIVER": "other"}
        done = subprocess.run(command, env={"PATH": "/usr/bin:/bin", **foreign}, text=True,
                              capture_output=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_name_that_is_no_step_is_an_error(self):
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
            check.parse(["nothing"])
        self.assertIn("no step is named nothing", said.getvalue())


class Table(unittest.TestCase):
    def test_names_differ_and_no_step_needs_itself(self):
        needs = {one.name: one.needs for one in steps.STEPS}
        self.assertEqual(len(needs), len(steps.STEPS))
        self.assertEqual(set(graphlib.TopologicalSorter(needs).static_order()), set(needs))

    def test_no_plain_step_needs_one_of_full(self):
        full = {one.name for one in steps.FULL}
        for one in steps.PLAIN:
            self.assertFalse(full & set(one.needs), one.name)
            self.assertFalse(one.full)
        self.assertTrue(all(one.full for one in steps.FULL))

    def test_every_command_begins_with_a_function_or_a_program(self):
        shell = (PROJECT / "tools/steps.sh").read_text() + (PROJECT / "tools/setup.sh").read_text()
        functions = set(re.findall(r"^(\w+)\(\) [{(]", shell, re.MULTILINE))
        for one in steps.STEPS:
            first = re.sub(r"^(\w+=\S+ )*", "", one.command).split()[0]
            self.assertTrue(first in functions or "/" in first, one.command)

    def test_every_part_of_full_fits_an_hour(self):
        for one in steps.FULL:
            self.assertLessEqual(one.wall, 3600, one.name)

    def test_the_public_ci_runs_these_steps(self):
        self.assertEqual(workflow.FILE.read_text(), workflow.text(), "run tools/workflow.py")


if __name__ == "__main__":
    unittest.main()
