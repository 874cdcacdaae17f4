"""headers.py: headers declare what files share, under names with the stem of the file."""

import unittest

import headers
from project import MODULES, Module, public_names, sources

TABLE = (Module("m", "src/m", header="m.h"), Module("other", "src/other"))


def project(**files):
    """Create a project with these files in the module m and a user of tarn__x_run() in another."""
    texts = {f"{name[:-2]}.{name[-1]}": text for name, text in files.items()}
    user = {"user.c": "void tarn__user(void) { tarn__x_run(); run(); tarn_run(); cuRun(); }"}
    return headers.parsed({"m": texts, "other": user})


class Headers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.project, cls.public = headers.parsed(sources()), public_names()

    def check(self, found):
        for names in found.values():
            self.fail("\n".join(["", *names]))

    def test_headers_declare_what_is_shared(self):
        found = headers.without_header(self.project, self.public)
        self.check(found)

    def test_shared_functions_have_the_stem_of_their_file(self):
        found = headers.without_stem(self.project, self.public)
        self.check(found)

    def test_the_headers_of_the_table_are_there(self):
        for module in MODULES:
            if module.header:
                self.assertIn(module.header, self.project[module.name], module.name)

    def test_a_function_without_a_header_is_seen(self):
        code, declared = "void tarn__x_run(void) { }", "void tarn__x_run(void);"
        for header, wrong in (("x_h", 0), ("m_h", 0), ("y_h", 1)):
            found = headers.without_header(project(x_c=code, **{header: declared}), (), TABLE)
            self.assertEqual(found, {"m": ["x.c: tarn__x_run"]} if wrong else {}, header)
        found = headers.without_header(project(x_c=code), (), TABLE)
        self.assertEqual(found, {"m": ["x.c: tarn__x_run"]})

    def test_a_name_without_the_stem_is_seen(self):
        self.assertEqual(headers.without_stem(project(x_c="void tarn__x_run(void) { }")), {})
        for path in ("x.c", "x.h", "folder/x.c"):
            texts = {"m": {path: "void run(void) { }"}, "other": {"a.c": "void f(void) { run(); }"}}
            found = headers.without_stem(headers.parsed(texts))
            self.assertEqual(found, {"m": [f"{path}: run"]})
        texts = {
            "m": {"y.c": "void tarn__x_run(void) { }"},
            "other": {"a.c": "run_fn *f = tarn__x_run;"},
        }
        found = headers.without_stem(headers.parsed(texts))
        self.assertEqual(found, {"m": ["y.c: tarn__x_run"]})

    def test_what_is_not_shared_or_public_is_no_matter(self):
        for text in ("static void run(void) { }", "void go(void) { }", "void cuRun(void) { }"):
            self.assertEqual(headers.without_stem(project(x_c=text)), {}, text)
        files = project(x_c="void tarn_run(void) { }")
        self.assertEqual(headers.without_stem(files, ("tarn_run",)), {})
        self.assertEqual(headers.without_stem(files), {"m": ["x.c: tarn_run"]})
        same = project(x_c="void go(void) { }", x_h="static inline void tarn__x(void) { go(); }")
        self.assertEqual(headers.without_stem(same), {})


if __name__ == "__main__":
    unittest.main()
