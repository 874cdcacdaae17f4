"""bench/traces/generate.py makes the requested traces, and its check detects wrong ones."""

import gzip
import io
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

TRACES = pathlib.Path(__file__).resolve().parents[2] / "bench/traces"
sys.path.insert(0, str(TRACES))

import generate  # noqa: E402
from generators import sizes  # noqa: E402

ROWS = """\
1,00:00:00.000050,allocate,0x7f0000000000,4096,0x55d0c0001000
1,00:00:00.000100,allocate,0x7f0000000200,8,0x55d0c0002000
1,00:00:00.000150,free,0x7f0000000000,4096,0x55d0c0002000
1,00:00:00.000200,free,0x7f0000000200,8,0x55d0c0002000
"""


def verify(rows):
    return generate.verify(io.StringIO(generate.HEADER + rows))


class Kinds(unittest.TestCase):
    def test_every_kind_passes_the_check(self):
        for name in generate.KINDS:
            with self.subTest(name):
                generate.check_kind(name, seed=1)

    def test_a_trace_is_the_same_on_every_machine(self):
        self.assertIn("28464ac14bf059aa", generate.check_kind("bursts", seed=1))

    def test_the_default_peak_of_every_kind_is_at_least_2_gib(self):
        for kind in generate.KINDS.values():
            self.assertGreaterEqual(kind.peak, 2 << 30)

    def test_streams_operations_and_peak_are_those_that_were_asked_for(self):
        text = io.StringIO()
        trace = generate.generate("joins-8", 3, text.write, 3, 2000, 5 << 30)
        text.seek(0)
        found = generate.verify(text)
        self.assertEqual(len(found.streams), 3)
        self.assertEqual(found.operations, trace.operations)
        self.assertAlmostEqual(found.operations / 2000, 1, delta=0.05)
        self.assertAlmostEqual(found.peak / (5 << 30), 1, delta=0.05)

    def test_a_task_has_its_stream_for_itself_and_for_one_time(self):
        text = io.StringIO()
        generate.generate("task-streams", 1, text.write, 40, 2000)
        rows = [line.split(",") for line in text.getvalue().splitlines()[1:]]
        owner = {}
        for _, _, action, pointer, _, stream in rows:
            if action == "allocate":
                owner[pointer] = stream
            self.assertEqual(owner[pointer], stream)
        first = list(dict.fromkeys(row[5] for row in rows))
        self.assertEqual(first, sorted(first))


class Check(unittest.TestCase):
    def test_a_right_trace_is_measured(self):
        found = verify(ROWS)
        self.assertEqual((found.operations, found.peak, len(found.streams)), (4, 4104, 2))

    def test_what_is_wrong_is_seen(self):
        lines = ROWS.splitlines(keepends=True)
        for wrong, why in [
            (lines[:3], "live at the end"),
            (lines + lines[3:], "not such a block"),
            ([lines[0], *lines], "live already"),
            ([lines[1], lines[0], *lines[2:]], "goes back"),
            ([lines[0].replace("4096", "0"), *lines[1:]], "no size"),
            ([lines[0].replace("4096", "4.1e3"), *lines[1:]], "not a number"),
            ([lines[0].replace("00:00:00.000050", "0:00.00005"), *lines[1:]], "not a time"),
            ([lines[0].replace("allocate", "malloc"), *lines[1:]], "no action"),
            ([lines[0].replace("1,", "", 1), *lines[1:]], "5 columns"),
        ]:
            with self.subTest(why), self.assertRaisesRegex(generate.BadTrace, why):
                verify("".join(wrong))


class Sizes(unittest.TestCase):
    def test_powers_of_two(self):
        for x in (-3.75, 0.0, 0.5, 1.0, 10.3):
            self.assertAlmostEqual(sizes.exp2(x) / 2**x, 1, places=12)

    def test_the_median_is_in_the_middle(self):
        rng = random.Random("median")
        values = sorted(sizes.log_normal(rng, 10_000, 1.0) for _ in range(2001))
        self.assertAlmostEqual(values[1000] / 10_000, 1, delta=0.1)

    def test_rank_one_is_twice_as_frequent_as_rank_two(self):
        rng = random.Random("ranks")
        ranks = [sizes.zipf(rng, 50) for _ in range(4000)]
        self.assertAlmostEqual(ranks.count(1) / ranks.count(2), 2, delta=0.3)
        self.assertLessEqual(max(ranks), 50)


class Command(unittest.TestCase):
    def run_in(self, folder, *arguments):
        command = [sys.executable, "-B", TRACES / "generate.py", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True)

    def test_a_file_is_written_compressed_or_plain(self):
        with tempfile.TemporaryDirectory() as folder:
            sizes = ["--operations", "2000", "--peak", "256MiB", "--seed", "7"]
            done = self.run_in(folder, "vectors-150", *sizes)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("peak live 0.25", done.stdout)
            self.run_in(folder, "vectors-150", *sizes, "-o", "plain.csv")
            packed = pathlib.Path(folder, "vectors-150-seed7.csv.gz").read_bytes()
            plain = pathlib.Path(folder, "plain.csv").read_bytes()
            self.assertEqual(gzip.decompress(packed), plain)

    def test_a_peak_that_is_not_reached_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_in(folder, "kv-blocks", "--operations", "500")
            self.assertEqual(done.returncode, 1)
            self.assertIn("the peak was to be 16.000 GiB", done.stderr)

    def test_the_list_has_every_kind(self):
        lines = self.run_in(None, "--list").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], list(generate.KINDS))


if __name__ == "__main__":
    unittest.main()
