"""The tools for packages: abi.py finds incompatible changes, audit.py bad wheels; metadata agree."""

import pathlib
import re
import sys
import tomllib
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


class Recipe(unittest.TestCase):
    """tools/conda/recipe.yaml beside the metadata of the wheels. A build of it was not tried."""

    def setUp(self):
        text = (PROJECT / "tools/conda/recipe.yaml").read_text()
        head, _, outputs = text.partition("\noutputs:\n")
        self.head = head
        outputs, _, self.about = outputs.partition("\nabout:\n")
        self.outputs = outputs.split("  - package:\n")[1:]
        self.projects = []
        for folder in "", "python/prune":
            with open(PROJECT / folder / "pyproject.toml", "rb") as file:
                self.projects.append(tomllib.load(file))

    def value(self, name, text):
        return re.search(rf"\b{name}: (.+)", text)[1].strip('"')

    def packages(self, section, text):
        """Return the packages of one section of an output's requirements."""
        return re.search(rf"^      {section}:\n((?:        - .*\n)+)", text, re.M)[1]

    def test_it_has_an_output_for_each_distribution(self):
        names = [self.value("name", output) for output in self.outputs]
        self.assertEqual(names, [project["project"]["name"] for project in self.projects])

    def test_licence_and_summary_are_those_of_the_wheels(self):
        for project in self.projects:
            self.assertEqual(self.value("license", self.about), project["project"]["license"])
            files = project["project"]["license-files"]
            self.assertEqual([self.value("license_file", self.about)], files)
        self.assertTrue((PROJECT / files[0]).exists())
        summary = self.value("summary", self.about)
        self.assertEqual(summary, self.projects[0]["project"]["description"])

    def test_its_addresses_are_those_of_the_wheels(self):
        listed = {
            url for project in self.projects for url in project["project"].get("urls", {}).values()
        }
        self.assertEqual(set(re.findall(r"https?://[^\s\"]+", self.head + self.about)), listed)

    def test_the_source_is_this_checkout(self):
        source = PROJECT / "tools/conda" / self.value("path", self.head)
        self.assertTrue((source / "pyproject.toml").samefile(PROJECT / "pyproject.toml"))
        self.assertIn("pip install ./python/prune ", self.outputs[1])

    def test_it_builds_with_what_the_wheels_build_with(self):
        for project, output in zip(self.projects, self.outputs, strict=True):
            host, build = self.packages("host", output), self.packages("build", output)
            (backend,) = project["build-system"]["requires"]
            self.assertIn(f"- {backend.replace('>=', ' >=')}\n", host)
            self.assertIn("- python\n", host)
            cmake = self.projects[0]["tool"]["scikit-build"]["cmake"]["version"]
            self.assertIn(f"- cmake {cmake}\n", build)
            for name in "compiler", "stdlib":
                self.assertIn("- ${{ " + name + "('c') }}\n", build)
        self.assertIn("- zlib\n", self.packages("host", self.outputs[0]))
        self.assertIn("- llvmdev ${{ llvm }}.*\n", self.packages("host", self.outputs[1]))

    def test_it_leaves_out_the_pythons_that_the_wheels_reject(self):
        for project in self.projects:
            oldest = project["project"]["requires-python"].removeprefix(">=")
            self.assertIn(f'    - match(python, "<{oldest}")\n', self.head)

    def test_it_requires_at_run_time_what_the_wheels_require(self):
        run = [self.packages("run", output).split("        - ")[1:] for output in self.outputs]
        self.assertEqual(run[0], ["python\n"] + self.projects[0]["project"]["dependencies"])
        dependencies = self.projects[1]["tool"]["scikit-build"]["metadata"]["dependencies"][
            "result"
        ]
        self.assertEqual(dependencies, ["tarn-gpu=={project[version]}"])
        pinned = "${{ pin_subpackage('tarn-gpu', exact=True) }}\n"
        self.assertEqual(run[1], ["python\n", pinned])

    def test_its_pruner_is_for_the_llvm_of_the_wheel(self):
        page = (PROJECT / "docs/licences.md").read_text()
        self.assertIn(f"LLVM, version {self.value('llvm', self.head).split(chr(34))[0]},", page)

    def test_the_guide_says_that_it_was_not_tried(self):
        self.assertIn("Its build was **not tried**", (PROJECT / "docs/python.md").read_text())


if __name__ == "__main__":
    unittest.main()
