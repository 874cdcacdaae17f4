"""The tools for packages: abi.py finds incompatible changes, audit.py bad wheels; versions agree."""

import pathlib
import re
import sys
import unittest

from project import PROJECT

sys.path.insert(0, str(PROJECT / "tools"))
import abi
import audit
import pythons

BEFORE = """tarn 0.2.0
struct tarn_fixed 16
    0 8 size_t used
    8 8 size_t peak
struct tarn_options 16
    0 8 size_t size
    8 8 size_t limit
constant TARN_OK 0
function int tarn_run(void)
"""


class Interface(unittest.TestCase):
    def lost(self, old, new):
        self.assertIn(old, BEFORE)
        return abi.missing(BEFORE, BEFORE.replace(old, new))

    def test_additions_and_a_struct_with_a_size_that_grows_are_compatible(self):
        self.assertEqual(self.lost("0.2.0", "0.2.1"), [])
        self.assertEqual(self.lost("constant", "constant TARN_NEW 7\nconstant"), [])
        grown = self.lost("options 16", "options 24")
        self.assertEqual(grown, [])

    def test_other_changes_are_not(self):
        for old, new in (
            ("fixed 16", "fixed 24"),
            ("8 8 size_t peak", "8 4 uint32_t peak"),
            ("8 8 size_t limit", "16 8 size_t limit"),
            ("TARN_OK 0", "TARN_OK 1"),
            ("tarn_run(void)", "tarn_run(int)"),
            ("function int tarn_run(void)\n", ""),
        ):
            self.assertEqual(len(self.lost(old, new)), 1, old)


class Wheels(unittest.TestCase):
    NAME = "tarn_gpu-0.2.0-cp311-cp311-manylinux_2_28_x86_64.whl"

    def wrong(self, name, policy, *libraries):
        facts = {"sym_tag": policy, "external_libs": dict.fromkeys(libraries)}
        return len(audit.findings(pathlib.Path(name), facts))

    def test_a_wheel_fits_the_policy_of_its_name(self):
        self.assertEqual(self.wrong(self.NAME, "manylinux_2_27_x86_64", "libtarn.so.0.2"), 0)
        self.assertEqual(self.wrong(self.NAME, "manylinux_2_31_x86_64"), 1)

    def test_a_wheel_without_a_policy_fits_that_of_the_documents(self):
        plain = self.NAME.replace("manylinux_2_28", "linux")
        self.assertEqual(self.wrong(plain, audit.NEWEST), 0)
        self.assertEqual(self.wrong(plain, "manylinux_2_36_x86_64"), 1)
        support = (PROJECT / "docs/support.md").read_text()
        self.assertIn("glibc " + ".".join(map(str, audit.glibc(audit.NEWEST))), support)

    def test_no_other_library_and_only_the_pruner_needs_llvm(self):
        self.assertEqual(self.wrong(self.NAME, "manylinux_2_27_x86_64", "libxml2.so.2"), 1)
        pruner = "tarn_gpu_prune-0.2.0-py3-none-linux_x86_64.whl"
        self.assertEqual(self.wrong(pruner, "manylinux_2_36_x86_64", "libLLVM.so.22.1"), 0)
        self.assertEqual(self.wrong(pruner, "manylinux_2_36_x86_64", "libtarn.so.0.2"), 1)


class Versions(unittest.TestCase):
    def test_the_recipe_of_conda_has_the_version_of_the_headers(self):
        header = (PROJECT / "include/tarn/version.h").read_text()
        version = ".".join(re.findall(r"define TARN_VERSION_[A-Z]+ (\d+)", header))
        recipe = (PROJECT / "tools/conda/recipe.yaml").read_text()
        self.assertIn(f'version: "{version}"', recipe)
        self.assertTrue((PROJECT / "tools/abi.txt").read_text().startswith(f"tarn {version}\n"))

    def test_the_metadata_lists_the_versions_of_python_that_are_tried(self):
        project = (PROJECT / "pyproject.toml").read_text()
        listed = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
        self.assertEqual(listed, list(pythons.RELEASES))


if __name__ == "__main__":
    unittest.main()
