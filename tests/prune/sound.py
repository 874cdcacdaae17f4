#!/usr/bin/env python3
"""sound.py TARN INTERPRETER [COUNT] -- check that `tarn prune` frees nothing early.

Prunes functions, and runs them before and after with the interpreter (see interpret.c). They are
those in unsound/, each of which llvmlite's pass breaks, and COUNT random ones.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent.parent / "tools"))

import prune_balanced  # noqa: E402
import prune_random  # noqa: E402
import prune_repair  # noqa: E402

TARN, INTERPRETER, COUNT = "tarn", "prune-interpret", 2000
BATCH = 500
PAIRS = "--shapes=per_bb,diamond,fanout,fanout_raise"  # all but `carried`


def prune(text, *options):
    done = subprocess.run(
        [TARN, "prune", *options, "-"], input=text, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def broken(before, after, runs, held=False):
    """Return the names of the functions that failed, and the interpreter's output. `held`: the
    caller holds all parameters, as the pruner assumes for references that phis carry."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder, name) for name in ("before.ll", "after.ll")]
        for path, text in zip(paths, (before, after)):
            path.write_text(text)
        command = [INTERPRETER, *map(str, paths), str(runs), "0", *(["held"] if held else [])]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return {line.split(":")[0] for line in done.stdout.splitlines()[:-1]}, done.stdout


def functions(text):
    """Return the names of the functions that are no helpers: those without a linkage."""
    starts = ("define void @", "define i32 @", "define ptr @")
    lines = [line for line in text.splitlines() if line.startswith(starts)]
    return {line.split("@")[1].split("(")[0] for line in lines}


def refops(text):
    """Return how many refops each function has."""
    bodies = text.split("\ndefine ")[1:]
    return {body.split("@")[1].split("(")[0]: body.count("call void @NRT_") for body in bodies}


def random_module(first):
    """BATCH random functions: in every second module references are transferred, in two of four
    functions call what may release references, and in four of eight phis carry them."""
    batch = first // BATCH
    return prune_random.module(
        11,
        first,
        BATCH,
        first % 4 == 0,
        keeping=batch % 2 == 1,
        calling=batch % 4 >= 2,
        carrying=batch % 8 >= 4,
    )


def many_phis(references, phis):
    """A function in which phis of one value take over its references, and release them."""
    lines = [
        "declare void @NRT_incref(ptr)\ndeclare void @NRT_decref(ptr)",
        "declare ptr @make() readonly\ndefine void @many() {\nentry:",
        "  %x = call ptr @make()",
        *["  call void @NRT_incref(ptr %x)"] * (references - 1),
        "  br label %end\nend:",
        *(f"  %p{i} = phi ptr [ %x, %entry ]" for i in range(phis)),
        *(f"  call void @NRT_decref(ptr %p{i % phis})" for i in range(references)),
        "  ret void\n}\n",
    ]
    return "\n".join(lines)


class Sound(unittest.TestCase):
    def test_no_known_way_to_free_early_is_taken(self):
        for path in sorted((HERE / "unsound").glob("*.ll")):
            with self.subTest(path.name):
                names, words = broken(path.read_text(), prune(path.read_text()), 3000)
                self.assertEqual(names, set(), words)

    def test_the_interpreter_sees_each_way_when_llvmlites_rules_take_it(self):
        for path in sorted((HERE / "unsound").glob("*.ll")):
            with self.subTest(path.name):
                text = path.read_text()
                names, words = broken(text, prune(text, "--compat=llvmlite"), 3000)
                self.assertEqual(names, functions(text), words)

    def test_calls_that_release_nothing_keep_no_pair(self):
        text = (HERE / "calls" / "harmless.ll").read_text()
        after = prune(text)
        names, words = broken(text, after, 3000)
        self.assertEqual(names, set(), words)
        left = refops(after)
        self.assertEqual(left["proved_calls"], 1, after)  # NRT_Free, no refop
        self.assertEqual(left["parameter"], 0, after)
        self.assertEqual(left["second_reference"], 2, after)

    def test_a_stored_reference_that_a_call_releases_stays_counted(self):
        text = (HERE / "calls" / "given_away.ll").read_text()
        names, words = broken(text, prune(text), 3000)
        self.assertEqual(names, set(), words)
        names, words = broken(text, prune(text, "--assume-calls-keep"), 3000)
        self.assertEqual(names, functions(text), words)

    def test_a_raise_may_lose_the_reference_that_a_pointers_call_releases(self):
        text = (HERE / "calls" / "pointer.ll").read_text()
        after = prune(text)
        self.assertEqual(refops(after), {"raises": refops(text)["raises"] - 2}, after)
        names, words = broken(text, after, 3000)
        self.assertEqual(names, set(), words)
        increfs_less = after.replace("call void @NRT_incref(ptr %p0)\n", "\n", 2)
        names, words = broken(text, increfs_less, 3000)
        self.assertEqual(names, {"raises"}, words)

    def test_the_interpreter_sees_what_the_assumption_about_calls_breaks(self):
        path = HERE / "unsound" / "released_by_call.ll"
        text = path.read_text()
        names, words = broken(text, prune(text, "--assume-calls-keep"), 3000)
        self.assertEqual(names, functions(text), words)

    def test_each_assumption_is_needed(self):
        for path in sorted((HERE / "assumed").glob("*.ll")):
            with self.subTest(path.name):
                text = path.read_text()
                names, words = broken(text, prune(text), 3000)
                self.assertEqual(names, functions(text), words)

    def test_refops_that_were_inserted_are_judged(self):
        text = (HERE / "inserted" / "before.ll").read_text()
        for path in sorted((HERE / "inserted").glob("*.ll")):
            with self.subTest(path.name):
                names, words = broken(text, path.read_text(), 3000)
                expected = set() if path.name in ("before.ll", "good.ll") else {"walk"}
                self.assertEqual(names, expected, words)

    def test_sets_that_cancel_out_are_removed(self):
        text = (HERE / "carried" / "removed.ll").read_text()
        after = prune(text)
        names, words = broken(text, after, 3000, held=True)
        self.assertEqual(names, set(), words)
        self.assertEqual(refops(after), {**dict.fromkeys(functions(text), 0), "second": 1}, after)

    def test_sets_that_one_rule_forbids_stay(self):
        text = (HERE / "carried" / "kept.ll").read_text()
        after = prune(text)
        self.assertEqual(refops(after), refops(text), after)

    def test_no_function_that_is_made_to_break_a_rule_is_broken(self):
        for name, least in ("carried.ll", 4), ("pairs.ll", 20):
            text = (HERE / "hostile" / name).read_text()
            for options, held in (((), True), ((PAIRS,), False)):
                names, words = broken(text, prune(text, *options), 3000, held)
                self.assertEqual(names, set(), words)
                self.assertIn(" unjudged=0 ", words)
            names, words = broken(text, prune(text, "--compat=llvmlite"), 3000, held=True)
            self.assertGreaterEqual(len(names), least, words)

    def test_no_sum_of_references_is_too_large(self):
        for phis in (1, 2, 43, 44):  # 43 and 44: 263 references, 7 more than a byte counts
            text = many_phis(263 if phis > 2 else 12, phis)
            names, words = broken(text, prune(text), 8, held=True)
            self.assertEqual(names, set(), words)
            self.assertIn(" unjudged=0 ", words)

    def test_balanced_functions_leave_the_same_counts_and_all_are_judged(self):
        for seed in range(max(4, COUNT // BATCH)):
            text = prune_balanced.module(seed, 0, BATCH, seed % 2 == 1, seed % 4 >= 2)
            for options, held in (((PAIRS,), False), ((), True)):
                names, words = broken(text, prune(text, *options), 24, held)
                self.assertEqual(names, set(), words)
                self.assertRegex(words, r" unjudged=[0-5] ")  # callees that release

    def test_random_functions_leave_the_same_counts(self):
        for first in range(0, COUNT, BATCH):
            text = random_module(first)
            names, words = broken(text, prune(text, PAIRS), 24)
            self.assertEqual(names, set(), words)
            text = prune_repair.repair(text)
            names, words = broken(text, prune(text), 24, held=True)
            self.assertEqual(names, set(), words)
            self.assertRegex(words, r" unjudged=1?[0-9] ")


if __name__ == "__main__":
    arguments = [value for value in sys.argv[1:] if not value.startswith("-")]
    TARN, INTERPRETER, COUNT = (*arguments, *(TARN, INTERPRETER, COUNT)[len(arguments) :])
    COUNT = int(COUNT)
    unittest.main(argv=sys.argv[:1] + [v for v in sys.argv[1:] if v.startswith("-")])
