"""layers.py: this project passes, and small trees with one error each do not."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import layers
from project import PROJECT, Module

LAYERS = pathlib.Path(__file__).with_name("layers.py")
TABLE = (
    Module("base", "src/base"),
    Module("driver", "src/driver"),
    Module("sim", "src/sim", library=("src/base", "src/driver/cuda_abi.h")),
    Module("nrt", "src/nrt"),
    Module("prune", "src/prune", library=("src/base",)),
    Module("resource", "src/resource"),
    Module("pool", "src/resource/pool"),
    Module("trace", "src/trace"),
    Module("device", "src/device"),
    Module("manager", "src/manager"),
)
NESTED = (
    Module("base", "src/base"),
    Module("pool", "src/pool", header="pool.h", layers=("types", "blocks backing", "order", ".")),
    Module("sim", "sim", library=("src/base",), layers=("core", "memory")),
)


def write(root, tree):
    """Write the files of {path: text} below a folder."""
    for name, text in tree.items():
        path = pathlib.Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def look(tree, modules=TABLE):
    """Return the errors of a project of {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        write(root, tree)
        return [
            *layers.wrong_includes(root, modules),
            *layers.includes_of_internals(root, modules),
            *layers.without_comment(root, modules),
        ]


class Layers(unittest.TestCase):
    def test_this_project_passes(self):
        seen = subprocess.run([sys.executable, LAYERS, PROJECT], capture_output=True, text=True)
        self.assertEqual((seen.returncode, seen.stdout), (0, ""), seen.stderr)

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
            "a nested module": ("src/resource/a.c", '/* */\n#include "resource/pool/a.h"', 2),
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
            "an internal header in C++": ("examples/a.cpp", '// a\n#include "base/map.h"', 2),
            "a C++ header of no module": (
                "include/tarn/other.hpp",
                "/* */\n#include <tarn/nrt.h>",
                1,
            ),
            "a C++ header without a comment": ("tests/cpp/a.hpp", "#include <tarn/nrt.h>\n", 1),
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

    def test_folders_of_a_module_have_layers(self):
        accepted = {
            "src/pool/types.h": "/* */\n",
            "src/pool/blocks/a.c": '/* */\n#include "pool/blocks/a.h"\n#include "pool/types.h"\n',
            "src/pool/order/a.c": '/* */\n#include "pool/blocks/a.h"\n#include "base/map.h"\n',
            "src/pool/api.c": '/* */\n#include "pool/order/a.h"\n#include "pool/api.h"\n',
            "src/pool/pool.h": '/* */\n#include "pool/order/a.h"\n',
            "src/pool/order/b.c": '/* */\n#include "pool/pool.h"\n',
            "sim/memory/a.c": '/* */\n#include "sim/core/a.h"\n',
        }
        self.assertEqual(look(accepted, NESTED), [])
        refused = {
            "src/pool/blocks/a.c": "pool/order/a.h",  # a higher folder
            "src/pool/backing/a.c": "pool/blocks/a.h",  # a peer
            "src/pool/order/b.c": "pool/api.h",  # the module's top
            "src/pool/types.h": "pool/blocks/a.h",  # a file with an entry of its own
            "sim/core/a.c": "sim/memory/a.h",
            "src/base/a.c": "sim/core/a.h",
        }
        for path, included in refused.items():
            with self.subTest(path):
                found = look({path: f'/* */\n#include "{included}"\n'}, NESTED)
                self.assertEqual(len(found), 1, found)
        self.assertEqual(len(look({"src/pool/other/a.c": "/* */"}, NESTED)), 1)


if __name__ == "__main__":
    unittest.main()
