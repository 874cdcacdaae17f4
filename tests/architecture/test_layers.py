"""layers.py: this project passes, and small trees with one thing wrong in each do not."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import layers
from left import INCLUDES_LEFT
from project import PROJECT, Module

LAYERS = pathlib.Path(__file__).with_name("layers.py")
NESTED = (
    Module("base", "src/base"),
    Module("pool", "src/pool", layers=("types.h", "blocks backing", "order", ".")),
    Module("sim", "sim", library=("src/base",), layers=("core", "memory")),
)


def write(root, tree):
    """Write the files of {path: text} below a folder."""
    for name, text in tree.items():
        path = pathlib.Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def look(tree):
    """What is wrong in a project of {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        write(root, tree)
        return [
            *layers.wrong_includes(root),
            *layers.includes_of_internals(root),
            *layers.without_comment(root),
        ]


def look_nested(tree):
    """What is wrong in a project with the modules of NESTED."""
    with tempfile.TemporaryDirectory() as root:
        write(root, tree)
        return [why for _, _, why in layers.wrong_includes(pathlib.Path(root), NESTED)]


class Layers(unittest.TestCase):
    def test_this_project_passes(self):
        seen = subprocess.run([sys.executable, LAYERS, PROJECT], capture_output=True, text=True)
        self.assertEqual((seen.returncode, seen.stdout), (0, ""), seen.stderr)
        self.assertEqual(layers.unused_exceptions(PROJECT), [])

    def test_the_script_prints_what_is_wrong(self):
        with tempfile.TemporaryDirectory() as root:
            write(root, {"src/base/a.c": "\n"})
            seen = subprocess.run([sys.executable, LAYERS, root], capture_output=True, text=True)
        self.assertEqual(seen.returncode, 1, seen.stderr)
        self.assertTrue(seen.stdout.startswith("src/base/a.c:1: the first line"), seen.stdout)

    def test_a_correct_tree_passes(self):
        self.assertEqual(look({"src/trace/a.c": '/* a */\n#include "base/map.h"\n'}), [])

    def test_refuses(self):
        cases = {
            "a higher module": ("src/driver/a.c", '/* a */\n#include "nrt/meminfo.h"\n', 2),
            "a higher public header": (
                "src/resource/a.h",
                "/* a */\n#include <tarn/trace.h>",
                2,
            ),
            "all of Tarn": ("src/manager/a.h", "/* a */\n\n#include <tarn/tarn.h>", 3),
            "headers among themselves": (
                "include/tarn/nrt.h",
                "/* */\n#include <tarn/device.h>",
                2,
            ),
            "a public header of no module": (
                "include/tarn/other.h",
                "/* */\n#include <tarn/nrt.h>",
                1,
            ),
            "the simulator's includes": (
                "src/sim/a.c",
                '/* */\n#include "driver/driver.h"',
                2,
            ),
            "the simulator from outside": (
                "src/device/a.c",
                '/* */\n#include "sim/heap.h"',
                2,
            ),
            "the pruner from outside": (
                "src/manager/a.c",
                "/* */\n#include <tarn/prune.h>",
                2,
            ),
            "a path with ..": ("src/base/a.c", '/* */\n#include "../driver/calls.h"', 2),
            "an internal header": ("cli/a.c", '/* */\n#include "base/map.h"', 2),
            "a folder of no module": ("src/other/a.c", "/* */\n", 1),
            "a folder inside a module": ("src/base/other/a.c", "/* */\n", 1),
            "a file without a comment": ("src/base/a.c", "#include <stdio.h>\n", 1),
            "a test without a comment": ("tests/unit/a.c", "\n/* late */\n", 1),
        }
        for what, (path, text, line) in cases.items():
            with self.subTest(what):
                found = look({path: text})
                self.assertEqual([(where, number) for where, number, _ in found], [(path, line)])

    def test_the_simulator_may_include_base_and_the_shared_types(self):
        text = (
            '/* */\n#include "driver/cuda_abi.h"\n#include "base/clock.h"\n'
            "#include <tarn/sim.h>\n#include <tarn/status.h>\n"
        )
        self.assertEqual(look({"src/sim/a.c": text}), [])

    def test_an_exception_that_is_not_needed_is_refused(self):
        with tempfile.TemporaryDirectory() as root:
            found = layers.unused_exceptions(pathlib.Path(root))
        self.assertEqual(len(found), len(INCLUDES_LEFT))

    def test_folders_of_a_module_have_layers(self):
        accepted = {
            "src/pool/types.h": "",
            "src/pool/blocks/a.c": '#include "pool/blocks/a.h"\n#include "pool/types.h"\n',
            "src/pool/order/a.c": '#include "pool/blocks/a.h"\n#include "base/map.h"\n',
            "src/pool/api.c": '#include "pool/order/a.h"\n#include "pool/pool.h"\n',
            "sim/memory/a.c": '#include "sim/core/a.h"\n',
        }
        self.assertEqual(look_nested(accepted), [])
        refused = {
            "src/pool/blocks/a.c": "pool/order/a.h",  # a higher folder
            "src/pool/backing/a.c": "pool/blocks/a.h",  # a peer
            "src/pool/order/b.c": "pool/pool.h",  # the module's top
            "src/pool/types.h": "pool/blocks/a.h",  # a file with an entry of its own
            "sim/core/a.c": "sim/memory/a.h",
            "src/base/a.c": "sim/core/a.h",
        }
        for path, included in refused.items():
            with self.subTest(path):
                found = look_nested({path: f'#include "{included}"\n'})
                self.assertEqual(len(found), 1, found)
        self.assertEqual(len(look_nested({"src/pool/other/a.c": ""})), 1)


if __name__ == "__main__":
    unittest.main()
