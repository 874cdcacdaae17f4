"""The documents name only existing things: links between them, and paths of the checkout."""

import pathlib
import re
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [*PROJECT.glob("*.md"), *PROJECT.glob("docs/*.md"), *PROJECT.glob("tests/*/*.md")]
FOLDERS = "src|include|python|cli|tests|tools|examples|docs|cmake"


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for document in DOCUMENTS:
            prose = re.sub(r"^```.*?^```|`[^`]*`", "", document.read_text(), flags=re.M | re.S)
            for link in re.findall(r"\]\(([^)#:]+)\)", prose):
                self.assertTrue((document.parent / link).exists(), f"{document.name}: {link}")

    def test_paths_are_there(self):
        for document in DOCUMENTS:
            for path in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", document.read_text()):
                self.assertTrue((PROJECT / path).exists(), f"{document.name}: {path}")

    def test_every_page_is_in_the_list_of_pages(self):
        listed = (PROJECT / "docs/README.md").read_text()
        for page in PROJECT.glob("docs/*.md"):
            if page.name != "README.md":
                self.assertIn(f"({page.name})", listed)


if __name__ == "__main__":
    unittest.main()
