"""calls.py: no file of a module calls another that calls it."""

import unittest

import calls
from project import MODULES, Module


def cycles(public_names=(), **files):
    """Return the cycles of {file: text}; in the names of files, an underscore is the dot."""
    texts = {f"{name[:-2]}.{name[-1]}": text for name, text in files.items()}
    parsed = {path: calls.parse(text) for path, text in texts.items()}
    return calls.cycles(calls.graph(parsed, public_names))


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.graphs = calls.graphs()

    def test_no_module_has_a_cycle(self):
        wrong = calls.described(self.graphs)
        if wrong:
            self.fail("\n".join(["", *wrong]))

    def test_no_call_goes_to_a_higher_layer_of_the_module(self):
        wrong = []
        for module in MODULES:
            wrong += calls.upward(self.graphs[module.name], module)
        if wrong:
            self.fail("\n".join(["", *wrong]))

    def test_a_call_to_a_higher_layer_is_seen(self):
        edges = {"blocks/a": {"order/b": {("f", "g")}, "blocks/c": {("f", "h")}}}
        module = Module("m", "src/m", layers=("blocks", "order"))
        said = "m: blocks/a calls order/b, which is not below it: f: g"
        self.assertEqual(calls.upward(edges, module), [said])
        for layers in (("order", "blocks"), ()):
            self.assertEqual(calls.upward(edges, Module("m", "src/m", layers=layers)), [])

    def test_a_cycle_is_described_by_its_calls(self):
        files = {
            "x.c": calls.parse("void a(void) { b(); }"),
            "y.c": calls.parse("void b() { a(); }"),
        }
        said = "m: a cycle: x y\n    x -> y: a: b\n    y -> x: b: a"
        self.assertEqual(calls.described({"m": calls.graph(files)}), [said])
        self.assertEqual(calls.described({"m": {}}), [])

    def test_a_cycle_is_seen(self):
        a, b = "void a(void) { b(); }", "void b(void) { a(); }"
        self.assertEqual(cycles(x_c=a, y_c=b), [["x", "y"]])
        self.assertEqual(cycles(x_c=a, y_c="void b(void) { }"), [])
        self.assertEqual(cycles(x_c=a, y_c="static void b(void) { a(); }"), [])
        three = {"x_c": a, "y_c": "void b(void) { c(); }", "z_c": "void c(void) { a(); }"}
        self.assertEqual(cycles(**three, w_c="void d(void) { a(); }"), [["x", "y", "z"]])

    def test_a_source_file_and_its_header_are_one(self):
        header = "static inline void c(void) { a(); }"
        self.assertEqual(cycles(x_c="void a(void) { c(); }", x_h=header), [])
        self.assertEqual(cycles(x_c="void a(void) { c(); }", y_h=header), [["x", "y"]])
        one = {"x/a.c": "void f(void) { g(); }", "y/a.c": "void g(void) { f(); }"}
        parsed = {path: calls.parse(text) for path, text in one.items()}
        self.assertEqual(calls.cycles(calls.graph(parsed)), [["x/a", "y/a"]])

    def test_callbacks_and_tables_count(self):
        a = "void a(void) { b(); }"
        for b in (
            "void b(void) { register_callback(a, 0); }",
            "static const struct ops ops = {.run = a};\nvoid b(void) { }",
            "static run_fn *run = a;\nvoid b(void) { }",
            "void b(void) { struct ops ops = {.run = a}; }",
            "#define RUN(x) \\\n    a(x)\nvoid b(void) { }",
            "#define RUN a /* run */\nvoid b(void) { }",
        ):
            self.assertEqual(cycles(x_c=a, y_c=b), [["x", "y"]], b)

    def test_a_macro_that_calls_is_like_a_function(self):
        b = "void b(void) { c(); }"
        macro = "#define RUN(x) b(x)"
        self.assertEqual(cycles(x_h=macro, y_c=b, x_c="void c(void) { }"), [["x", "y"]])
        self.assertEqual(
            cycles(x_h=macro, y_c=b, z_c="void c(void) { RUN(1); }"), [["x", "y", "z"]]
        )
        macro = "#define RUN(x) other(x)"
        self.assertEqual(cycles(x_h=macro, y_c=b, z_c="void c(void) { RUN(1); }"), [])

    def test_public_names_that_a_table_lists_do_not_count(self):
        public = ("tarn_a",)
        for name in ("tarn_a", "cuCtxGetId"):
            a = f"void {name}(void) {{ b(); }}"
            for b in (
                f"static const struct ops ops = {{.run = {name}}};\nvoid b(void) {{ }}",
                f"#define LIST(X) X({name}, 1)\nvoid b(void) {{ }}",
                f"void b(void) {{ struct ops ops = {{.run = {name}}}; }}",
            ):
                self.assertEqual(cycles(public, x_c=a, y_c=b), [], b)
            for b in (
                f"void b(void) {{ {name}(); }}",
                f"void b(void) {{ register_callback({name}); }}",
                f"#define RUN {name}()\nvoid b(void) {{ }}",
            ):
                self.assertEqual(cycles(public, x_c=a, y_c=b), [["x", "y"]], b)

    def test_what_is_no_mention_does_not_count(self):
        a = "void a(void) { b(); }"
        for b in (
            "void b(void) { /* a(); */ f(\"a()\", 'a'); } // a()",
            "void b(void) { struct a *x = y->a + y.a; }",
            "void a(void);\nvoid b(void) { }",
            "#include <a.h>\n#ifdef a\n#endif\nvoid b(void) { }",
        ):
            self.assertEqual(cycles(x_c=a, y_c=b), [], b)

    def test_functions_are_found(self):
        source = calls.parse(
            "struct s { int x; };\n"
            "static int one(int (*f)(void), char c) __attribute__((noinline));\n"
            "static int one(int (*f)(void), char c) { if (c == '}') { return f(); } }\n"
            "int two(void) __attribute__((unused)) { return 2; }\n"
            "TARN__FAST int three(int x)\n{\n    while (x) { x--; }\n}\n"
            "int table[] = {1, 2};\n"
            "void four(const char *format, ...) TARN_PRINTF(1, 2);\n"
            "void five(void) TARN__RELEASE(lock) TARN__NO_THREAD_SAFETY_ANALYSIS { }\n"
        )
        names = [(function.name, function.is_static) for function in source.functions]
        self.assertEqual(names, [("one", True), ("two", False), ("three", True), ("five", False)])
        self.assertEqual(source.declared, {"one", "four"})


if __name__ == "__main__":
    unittest.main()
