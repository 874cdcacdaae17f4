"""locks.py: the locks that comments require are asserted, in the modules with this rule."""

import unittest

import locks
from project import sources

HEADER = """/* a.h -- a header. `lock` held is no rule here. */
struct pool { int lock; };
/* Take a block. `lock`
 * held. */
int tarn__a_take(struct pool *pool);
int tarn__a_size(struct pool *pool); /* `growth` held */
"""


def missing(body, comment="", header=HEADER):
    """Return the errors of a.c with a definition of tarn__a_take() that has this body."""
    text = f"/* a.c */\n{comment}\nint tarn__a_take(struct pool *pool)\n{{ {body} }}\n"
    return locks.missing({"a.h": header, "a.c": text})


class Locks(unittest.TestCase):
    def test_functions_assert_the_locks_that_their_comments_name(self):
        texts = sources()
        for module in locks.ENFORCED:
            self.assertEqual(locks.missing(texts[module]), [], module)

    def test_each_module_that_asserts_is_in_the_table(self):
        using = {name for name, files in sources().items() if locks.uses_macro(files)}
        self.assertEqual(using - set(locks.ENFORCED), set(), "add it to ENFORCED")

    def test_a_missing_assertion_is_seen(self):
        said = ["a.c: tarn__a_take asserts no `lock`"]
        self.assertEqual(missing("return 1;"), said)
        self.assertEqual(missing("tarn__assert_held(&pool->growth);"), said)
        self.assertEqual(missing("/* tarn__assert_held(&pool->lock); */"), said)
        self.assertEqual(missing("tarn__assert_held(&pool->lock);"), [])
        self.assertEqual(missing("if (x) { tarn__assert_held(&pool->heap_lock); }"), [])

    def test_a_comment_on_the_definition_counts_too(self):
        said = ["a.c: tarn__a_take asserts no `growth`"]
        comment = "/* Take it. `growth` held. */"
        self.assertEqual(missing("", comment, header=""), said)
        self.assertEqual(missing("tarn__assert_held(&growth);", comment, header=""), [])

    def test_a_comment_behind_a_declaration_counts(self):
        text = "int tarn__a_size(struct pool *pool)\n{\n    return 1;\n}\n"
        said = ["b.c: tarn__a_size asserts no `growth`"]
        self.assertEqual(locks.missing({"a.h": HEADER, "b.c": text}), said)

    def test_inline_functions_of_a_header_count(self):
        text = "/* `lock` held. */\nstatic inline int size(struct pool *pool) { return 1; }\n"
        self.assertEqual(locks.missing({"a.h": text}), ["a.h: size asserts no `lock`"])

    def test_static_functions_of_one_name_are_told_apart(self):
        with_lock = "/* `lock` held. */\nstatic int f(int *lock) { tarn__assert_held(lock); }\n"
        without = "/* No lock. */\nstatic int f(void) { return 1; }\n"
        self.assertEqual(locks.missing({"a.c": with_lock, "b.c": without}), [])

    def test_conditions_are_no_rules(self):
        self.assertEqual(locks.locks_in("/* `lock` held, or not `is_whole`. */"), frozenset())
        self.assertEqual(locks.locks_in("/* Takes `lock`, held by none. */"), frozenset())
        self.assertEqual(locks.locks_in("/* `lock` held, and\n * `growth` held. */"),
                         {"lock", "growth"})  # fmt: skip

    def test_the_use_of_the_macro_is_seen(self):
        self.assertFalse(locks.uses_macro({"a.h": "#define tarn__assert_held(lock) f(lock)\n"}))
        self.assertTrue(locks.uses_macro({"a.c": "void f(void) { tarn__assert_held(&l); }"}))


if __name__ == "__main__":
    unittest.main()
