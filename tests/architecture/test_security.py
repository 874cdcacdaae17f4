"""SECURITY.md: each threat has a test that exists, and variables that matter are read securely."""

import re
import unittest

from project import PROJECT
from test_emm_rows import is_there

PAGE = PROJECT / "SECURITY.md"
NAMES_CODE_OR_FOLDERS = (
    "TARN_DRIVER", "TARN_IPC_DIR", "XDG_RUNTIME_DIR", "NVTX_INJECTION64_PATH",
)  # fmt: skip


def threats(text):
    """Return the cells of each row of the table of threats."""
    table = text.partition("| threat |")[2].partition("\n\n")[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines()[2:]]
    return [[cell.strip() for cell in row] for row in rows]


def insecure(text):
    """Return the variables of these names that a C file reads with getenv()."""
    found = re.findall(r'(?<!secure_)getenv\("(\w+)"\)', text)
    return [name for name in found if name in NAMES_CODE_OR_FOLDERS]


class Security(unittest.TestCase):
    def test_each_threat_has_a_defence_and_a_test(self):
        rows = threats(PAGE.read_text())
        self.assertGreater(len(rows), 15)
        for row in rows:
            self.assertEqual(len(row), 3, row)
            tests = re.findall(r"`([^`]+::[^`]+)`", row[2])
            self.assertTrue(tests and all(map(is_there, tests)), row)

    def test_variables_that_name_code_or_folders_are_not_read_with_elevated_privileges(self):
        self.assertEqual(insecure('getenv("TARN_DRIVER")'), ["TARN_DRIVER"])
        self.assertEqual(insecure('secure_getenv("TARN_DRIVER"), getenv("HOME")'), [])
        for file in PROJECT.glob("src/**/*.c"):
            self.assertEqual(insecure(file.read_text()), [], file)


if __name__ == "__main__":
    unittest.main()
