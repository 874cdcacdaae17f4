"""The documents name only what is there: links, anchors, and paths of the checkout."""

import pathlib
import re
import tempfile
import unittest

import links
from project import PROJECT

DOCUMENTS = [*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("tests/*/*.md")]
FOLDERS = "src|sim|include|python|cli|tests|tools|examples|docs|cmake|bench"


def missing_paths(text):
    """The paths in code spans of a page that the checkout does not have."""
    paths = re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", text)
    return [path for path in paths if not (PROJECT / path).exists()]


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        self.assertEqual([one for page in DOCUMENTS for one in links.broken(page)], [])

    def test_paths_are_there(self):
        for document in DOCUMENTS:
            self.assertEqual(missing_paths(document.read_text()), [], document.name)

    def test_every_page_is_in_the_list_of_pages(self):
        listed = (PROJECT / "docs/README.md").read_text()
        for page in PROJECT.glob("docs/*.md"):
            if page.name != "README.md":
                self.assertIn(f"({page.name})", listed)

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


if __name__ == "__main__":
    unittest.main()
