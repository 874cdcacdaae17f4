"""assertions.py: a call without the lock fails each assertion of a lock."""

import unittest

import assertions
import locks
from project import sources

FILE = """/* a.c -- a file, with a comment that names f(). */
static int e(void)
{
    return 0;
}
#include "pool/lock.h"
struct pool {
    int size;
    struct tarn__lock lock;
};
void tarn__other(void);
static int f(const struct pool *const *pool, int (*how)(int, int), struct pool copy)
{
    %s
    return (*pool)->size;
}
"""
ASSERTION = "tarn__assert_held(&(*pool)->lock);"


class Assertions(unittest.TestCase):
    def test_each_assertion_fails_without_the_lock(self):
        texts = sources()
        wrong = []
        for module in locks.ENFORCED:
            wrong += assertions.all_silent(module, texts[module])
        self.assertEqual(wrong, [])

    def test_what_fails_is_seen(self):
        self.assertEqual(assertions.silent("src/a.c", FILE % ASSERTION), [])
        self.assertEqual(assertions.silent("src/a.c", FILE % ";"), [])  # has no assertion
        for body, said in (
            (f"if ((*pool)->size == 0) {ASSERTION}", ["src/a.c: f"]),
            (f"return 0; {ASSERTION}", ["src/a.c: f"]),
            (f"tarn__other(); {ASSERTION}", ["src/a.c: status -11"]),
        ):
            self.assertEqual(assertions.silent("src/a.c", FILE % body), said)

    def test_a_call_of_each_function(self):
        text = FILE % ASSERTION
        block = "(void *)tarn_test_block"
        wanted = {"f": f"f({block}, {block}, (struct pool){{0}})"}
        self.assertEqual(assertions.calls(text), wanted)
        text = "void g(void)\n{\n    tarn__assert_mutex_held(&lock);\n}\n"
        self.assertEqual(assertions.calls(text), {"g": "g()"})


if __name__ == "__main__":
    unittest.main()
