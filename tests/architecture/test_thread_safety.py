"""thread_safety.py: Clang finds no missing lock, and finds each that is taken out of a file."""

import shutil
import unittest

import locks
import thread_safety
from project import PROJECT, sources

TEXT = """#include "pool/pool.h"
int take(struct tarn__pool *pool);
int take(struct tarn__pool *pool)
{
    %s
    return pool->is_shared;
}
"""


@unittest.skipUnless(shutil.which("clang"), "no clang")
class ThreadSafety(unittest.TestCase):
    def test_clang_finds_no_missing_lock(self):
        wrong = []
        for module in thread_safety.ANNOTATED:
            for path, text in thread_safety.c_files(module).items():
                wrong += thread_safety.warnings(path, text)
        if wrong:
            self.fail("\n".join(["", *wrong]))

    def test_a_missing_lock_is_seen_in_each_file(self):
        """A file whose only lock is inside of a function that Clang does not analyse has none."""
        for path, text in thread_safety.c_files("pool").items():
            planted = thread_safety.planted(text)
            seen = any(thread_safety.warnings(path, changed) for _, changed in planted)
            self.assertTrue(seen or not planted or path.name == "pool.c", path)

    def test_what_is_seen(self):
        path = PROJECT / "src/pool/a.c"
        for body, said in (
            ("tarn__pool_lock(pool); tarn__pool_unlock(pool);", "reading variable 'is_shared'"),
            ("tarn__budget_note_peaks(pool);", "calling function 'tarn__budget_note_peaks'"),
            ("tarn__pool_lock(pool);", "is still held at the end of function"),
            ("tarn__pool_unlock(pool);", "that was not held"),
            ("tarn__pool_lock(pool); tarn__pool_lock(pool);", "that is already held"),
        ):
            text = '#include "pool/compact/budget.h"\n' + TEXT % body
            self.assertIn(said, "\n".join(thread_safety.warnings(path, text)), body)


class Annotations(unittest.TestCase):
    def test_each_function_with_an_assertion_is_annotated(self):
        for module in thread_safety.ANNOTATED:
            self.assertEqual(thread_safety.not_annotated(sources()[module]), [])

    def test_a_function_without_an_annotation_is_seen(self):
        body = "int f(int *lock)\n{\n    tarn__assert_held(lock);\n}\n"
        files = {"a.h": "int f(int *lock);\n", "a.c": body}
        self.assertEqual(thread_safety.not_annotated(files), ["a.c: f is not annotated"])
        files["a.h"] = "int f(int *lock) TARN__REQUIRES(pool_lock);\n"
        self.assertEqual(thread_safety.not_annotated(files), [])

    def test_the_functions_that_clang_does_not_analyse_are_known(self):
        allowed = thread_safety.PRIMITIVES | thread_safety.ESCAPES
        for module in locks.ENFORCED:
            found = thread_safety.not_analysed(sources()[module])
            self.assertEqual(found - allowed, set())
        self.assertEqual(thread_safety.not_analysed(sources()["pool"]), allowed)


if __name__ == "__main__":
    unittest.main()
