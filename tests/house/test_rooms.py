"""rooms.py reports what it should: small projects with one error each."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOMS = pathlib.Path(__file__).with_name("rooms.py")
PROJECT = ROOMS.parents[2]


def look(tree):
    """Return the output of rooms.py for a project of {path: text}."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in {"src/base/ok.c": "/* ok */\n", **tree}.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return subprocess.run([sys.executable, ROOMS, root], capture_output=True, text=True)


class Rooms(unittest.TestCase):
    def test_this_house_is_in_order(self):
        seen = subprocess.run([sys.executable, ROOMS, PROJECT], capture_output=True, text=True)
        self.assertEqual((seen.returncode, seen.stdout), (0, ""), seen.stderr)

    def test_a_house_in_order_is_passed(self):
        seen = look({"src/trace/a.c": '/* a */\n#include "base/map.h"\n'})
        self.assertEqual((seen.returncode, seen.stdout), (0, ""))

    def test_refuses(self):
        cases = {
            "a room above": ("src/driver/a.c", '/* a */\n#include "nrt/meminfo.h"\n', 2),
            "a public header above": ("src/resource/a.h", "/* a */\n#include <tarn/trace.h>", 2),
            "all of Tarn": ("src/manager/a.h", "/* a */\n\n#include <tarn/tarn.h>", 3),
            "headers among themselves": (
                "include/tarn/nrt.h",
                "/* */\n#include <tarn/device.h>",
                2,
            ),
            "the stand-in's includes": ("src/sim/a.c", '/* */\n#include "driver/driver.h"', 2),
            "the stand-in from outside": ("src/device/a.c", '/* */\n#include "sim/heap.h"', 2),
            "a way round": ("src/base/a.c", '/* */\n#include "../driver/calls.h"', 2),
            "past the front door": ("cli/a.c", '/* */\n#include "base/map.h"', 2),
            "a room with no name": ("src/attic/a.c", "/* */\n", 1),
            "a silent file": ("src/base/a.c", "#include <stdio.h>\n", 1),
            "a silent test": ("tests/unit/a.c", "\n/* late */\n", 1),
        }
        for what, (path, text, line) in cases.items():
            with self.subTest(what):
                seen = look({path: text})
                self.assertEqual(seen.returncode, 1)
                self.assertTrue(seen.stdout.startswith(f"{path}:{line}: "), seen.stdout)

    def test_the_floor_and_the_shared_types_are_the_stand_ins(self):
        seen = look(
            {
                "src/sim/a.c": '/* */\n#include "driver/cuda_abi.h"\n'
                '#include "base/clock.h"\n#include <tarn/sim.h>\n'
            }
        )
        self.assertEqual((seen.returncode, seen.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
