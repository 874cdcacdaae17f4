"""docs/emm-rows.md and docs/seed-rows.md have every requirement once, with an existing test or a
reason."""

import pathlib
import re
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs/emm-rows.md"
LAST = {"A": 126, "B": 18, "C": 39}
REASONS = ("history: ", "non-goal: ", "Numba's: ")


def rows():
    """Return the cells of each row of the three tables."""
    lines = PAGE.read_text().splitlines()
    tables = [line for line in lines if re.match(r"\| [ABC]\d", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in tables]


def is_there(test):
    path, _, name = test.partition("::")
    pattern = rf"^TEST\({name}\)$" if path.endswith(".c") else rf"^ *def {name}\("
    file = PROJECT / path
    return file.is_file() and re.search(pattern, file.read_text(), re.M) is not None


SEEDS = PROJECT / "docs/seed-rows.md"
LAST_OF_SEEDS = {"E": 34, "F": 40}


def seed_rows():
    """Return the cells of each row of the two tables."""
    lines = [line for line in SEEDS.read_text().splitlines() if re.match(r"\| [EF]\d", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def numbers_of(cell):
    """Return the requirements that a first cell names, as a list or a range, and the text beside
    them."""
    found = []
    for part in cell.split(", "):
        if match := re.fullmatch(r"([EF])(\d+)(?:–[EF](\d+))?", part):
            first, last = int(match[2]), int(match[3] or match[2])
            found += [f"{match[1]}{n}" for n in range(first, last + 1)]
    return found


class SeedRows(unittest.TestCase):
    def test_every_row_is_there(self):
        wanted = {f"{part}{n}" for part, last in LAST_OF_SEEDS.items() for n in range(1, last + 1)}
        self.assertEqual({row for cells in seed_rows() for row in numbers_of(cells[0])}, wanted)

    def test_every_row_has_tests_that_are_there(self):
        for cells in seed_rows():
            self.assertEqual(len(cells), 4, cells)
            tests = re.findall(r"`([^`]+)`", cells[3])
            self.assertEqual(", ".join(f"`{test}`" for test in tests), cells[3], cells[0])
            self.assertTrue(tests, cells)
            for test in tests:
                self.assertTrue(is_there(test), f"{cells[0]}: {test}")


class Rows(unittest.TestCase):
    def test_every_row_is_there_once_and_in_order(self):
        wanted = [f"{part}{n}" for part, last in LAST.items() for n in range(1, last + 1)]
        self.assertEqual([cells[0] for cells in rows()], wanted)

    def test_every_row_has_a_test_that_is_there_or_a_reason(self):
        for cells in rows():
            self.assertEqual(len(cells), 4, cells)
            if cells[3].startswith(REASONS):
                continue
            tests = re.findall(r"`([^`]+)`", cells[3])
            self.assertEqual(", ".join(f"`{test}`" for test in tests), cells[3], cells[0])
            self.assertTrue(tests, cells)
            for test in tests:
                self.assertTrue(is_there(test), f"{cells[0]}: {test}")

    def test_what_is_not_there_is_seen(self):
        """Check that this test can fail."""
        self.assertTrue(is_there("tests/architecture/test_emm_rows.py::is_there"))
        self.assertFalse(is_there("tests/architecture/test_emm_rows.py::is_not_there"))
        self.assertFalse(is_there("tests/architecture/test_emm.py::is_there"))

    def test_every_manager_says_what_defer_cleanup_does(self):
        """Documentation that a plugin owes: the examples state when memory is returned.
        python/tests/test_plugins.py compares that with their behaviour."""
        examples = (PROJECT / "examples/numba/plugins").glob("*.py")
        plugins = [path for path in examples if "_numba_memory_manager" in path.read_text()]
        self.assertGreaterEqual(len(plugins), 5)
        for path in plugins:
            self.assertTrue(claims(path.read_text().split('"""')[1]), path.name)
        self.assertFalse(claims("A plugin with a defer_cleanup."))

    def test_the_table_of_managers_says_it_of_each(self):
        header = (PROJECT / "include/tarn/manager.h").read_text()
        managers = set(re.findall(r"\*tarn_(\w+)_manager_ops\(void\)", header))
        lines = (PROJECT / "docs/design/managers.md").read_text().splitlines()
        table = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
        names = next(cells for cells in table if {f"`{m}`" for m in managers} <= set(cells))
        self.assertEqual(set(names[1:]), {f"`{manager}`" for manager in managers})
        for what in ("`defer_cleanup`, meanwhile", "`defer_cleanup`, the last end"):
            cells = next(cells for cells in table if cells[0] == what)
            self.assertEqual(len(cells), len(names), what)
            self.assertTrue(all(len(cell.split()) > 3 for cell in cells[1:]), cells)

    def test_the_guides_say_what_comes_at_the_end_of_it(self):
        for page in ("docs/numba.md", "docs/writing-a-plugin.md"):
            text = (PROJECT / page).read_text()
            self.assertTrue(claims(text), page)


def claims(text):
    """Return the sentences about when defer_cleanup() returns memory."""
    sentences = [" ".join(s.split()) for s in re.split(r"\.\s", text)]
    return [
        s
        for s in sentences
        if "defer_cleanup" in s
        and re.search(r"[Mm]emory|[Bb]lock|[Ff]rees", s)
        and re.search(r"at once|as soon as|(last|its|the) end\b", s)
    ]


if __name__ == "__main__":
    unittest.main()
