"""The documents name only existing things: links, anchors, and paths of the checkout."""

import pathlib
import re
import sys
import tempfile
import unittest

import links
from project import MODULES, PROJECT, Module

sys.path.insert(0, str(PROJECT / "tools"))
import sim_functions

DOCUMENTS = [*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("tests/*/*.md")]
FOLDERS = "src|sim|include|python|cli|tests|tools|examples|docs|cmake|bench"


def missing_paths(text):
    """Return the paths in code spans of a page that the checkout does not have."""
    paths = re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", text)
    return [path for path in paths if not (PROJECT / path).exists()]


def missing_changes(text, modules=MODULES):
    """Return the files of the table "where to change what" that are not in the row's module. Rows
    of modules that get folders count once the table of modules has these."""
    folders = {module.name: module.folder for module in modules}
    later = {"pool", "sim"} - {module.name for module in modules if module.layers}
    missing = []
    for row in re.findall(r"^\| (.*) \|$", text.partition("## Where to change what")[2], re.M):
        cells = row.split(" | ")
        if len(cells) != 3 or cells[1] in later:
            continue
        folder = PROJECT / folders.get(cells[1], cells[1])
        for path in re.findall(r"`([\w./-]+\.\w+)`", cells[2]):
            if not (folder / path).exists() and not (PROJECT / path).exists():
                missing.append(f"{cells[1]}: {path}")
    return missing


class Functions(unittest.TestCase):
    def test_the_page_lists_every_function_of_the_simulator(self):
        self.assertEqual(sim_functions.PAGE.read_text(), sim_functions.page())

    def test_a_partial_function_that_does_not_exist_is_seen(self):
        sim_functions.PARTIAL["cuNoSuchCall"] = "nothing"
        self.addCleanup(sim_functions.PARTIAL.pop, "cuNoSuchCall")
        self.assertRaises(SystemExit, sim_functions.page)


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        self.assertEqual([one for page in DOCUMENTS for one in links.broken(page)], [])

    def test_paths_are_there(self):
        for document in DOCUMENTS:
            self.assertEqual(missing_paths(document.read_text()), [], document.name)

    def test_the_places_of_changes_are_there(self):
        self.assertEqual(missing_changes((PROJECT / "ARCHITECTURE.md").read_text()), [])

    def test_places_that_are_not_there_are_seen(self):
        text = "## Where to change what\n| a | base | `map.c`, `f()`, `README.md`, `no.c` |\n"
        self.assertEqual(missing_changes(text), ["base: no.c"])
        self.assertEqual(missing_changes(text.replace("base", "sim"), ()), [])
        table = (Module("sim", "src/base", layers=("a",)),)
        self.assertEqual(missing_changes(text.replace("base", "sim"), table), ["sim: no.c"])

    def test_every_page_is_in_the_list_of_pages(self):
        listed = (PROJECT / "docs/README.md").read_text()
        for page in PROJECT.glob("docs/*.md"):
            if page.name not in ("README.md", "index.md"):  # the site has the list as its index
                self.assertIn(f"({page.name})", listed)

    def test_guides_and_tutorials_are_short(self):
        shelves = (PROJECT / "docs/README.md").read_text()
        for shelf, most in ("Tutorials", 1000), ("Guides", 1500):
            table = shelves.partition(f"\n## {shelf}\n")[2].partition("\n## ")[0]
            pages = [link for link in links.links(table) if link.endswith(".md")]
            self.assertGreater(len(pages), 6)
            for page in pages:
                words = len((PROJECT / "docs" / page).read_text().split())
                self.assertLessEqual(words, most, page)

    def test_the_readme_compares_libraries_as_the_page_does(self):
        page = (PROJECT / "docs/comparison.md").read_text().replace("](", "](docs/")
        table = (PROJECT / "README.md").read_text().partition("## Features by library")[2]
        rows = re.findall(r"^\|.*\|$", table.partition("\n## ")[0], re.M)
        self.assertGreater(len(rows), 10)
        self.assertEqual([row for row in rows if row not in page], [])

    def test_broken_links_are_seen(self):
        target = "# A `b_c` -- d: [e](f.md)!\n## Same\n## Same\n```\n# no heading\n```\n"
        good = ["t.md", "t.md#a-b_c----d-e", "t.md#same", "t.md#same-1", "https://a.b/c#d", "#here"]
        bad = ["u.md", "t.md#no-heading", "t.md#same-2", "t.md#Same", "#there", "u.md#same"]
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "t.md").write_text(target)
            page = pathlib.Path(folder, "page.md")
            text = "# Here\n`[a](code.md)`\n```\n[a](code.md)\n```\n"
            for link in good + bad:
                page.write_text(text + f"[a]({link})\n")
                self.assertEqual(len(list(links.broken(page))), link in bad, link)

    def test_missing_paths_are_seen(self):
        self.assertEqual(
            missing_paths("`docs/README.md`, `docs/no.md`, docs/no.md"), ["docs/no.md"]
        )

    def test_the_reference_has_every_group_of_the_headers_and_every_module(self):
        pages = PROJECT.glob("docs/reference/**/*.*")
        text = "\n".join(page.read_text() for page in pages)
        groups, modules = set(), {"tarn.nrt", "tarn.prune", "tarn.rmm"}
        for header in PROJECT.glob("include/tarn/*"):
            groups.update(re.findall(r"@(?:addtogroup|defgroup) (tarn_\w+)", header.read_text()))
        for file in PROJECT.glob("python/tarn/[!_]*.py"):
            modules.add(f"tarn.{file.stem}")
        modules -= {"tarn.top"}  # a command
        self.assertGreater(len(groups), 20)
        for name in sorted(groups | modules):
            self.assertRegex(text, rf"(doxygengroup\W+|automodule:: ){re.escape(name)}\n")


if __name__ == "__main__":
    unittest.main()
