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

import prune_random  # noqa: E402

TARN, INTERPRETER, COUNT = "tarn", "prune-interpret", 2000
BATCH = 500


def prune(text, *options):
    done = subprocess.run(
        [TARN, "prune", *options, "-"], input=text, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def broken(before, after, runs):
    """Return the names of the functions that failed, and the interpreter's output."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder, name) for name in ("before.ll", "after.ll")]
        for path, text in zip(paths, (before, after)):
            path.write_text(text)
        command = [INTERPRETER, *map(str, paths), str(runs)]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return {line.split(":")[0] for line in done.stdout.splitlines()[:-1]}, done.stdout


def functions(text):
    return {line.split("@")[1].split("(")[0] for line in text.splitlines() if "define" in line}


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

    def test_random_functions_leave_the_same_counts(self):
        for first in range(0, COUNT, BATCH):
            text = prune_random.module(
                11, first, BATCH, debug_info=first % 4 == 0, keeping=first // BATCH % 2 == 1
            )
            names, words = broken(text, prune(text), 24)
            self.assertEqual(names, set(), words)


if __name__ == "__main__":
    arguments = [value for value in sys.argv[1:] if not value.startswith("-")]
    TARN, INTERPRETER, COUNT = (*arguments, *(TARN, INTERPRETER, COUNT)[len(arguments) :])
    COUNT = int(COUNT)
    unittest.main(argv=sys.argv[:1] + [v for v in sys.argv[1:] if v.startswith("-")])
