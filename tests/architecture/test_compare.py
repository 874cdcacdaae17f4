"""bench/compare.py puts figures side by side and says where Tarn is not first."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "bench"))

import compare  # noqa: E402

# A benchmark that writes the rows of FILE, and one that fails after its first row.
WRITES = '#!/bin/sh\ncat "{rows}" >"$2"\n'
FAILS = '#!/bin/sh\nhead -n 1 "{rows}" >"$2"\necho "no memory" >&2\nexit 1\n'


def row(who, value, metric="second pass, mean ns", case="joins, idle device", bench="peers"):
    return {"bench": bench, "who": who, "case": case, "metric": metric, "value": value}


def report(rows, *arguments):
    """What the command prints about these rows, and what it keeps as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = pathlib.Path(folder, "rows.jsonl"), pathlib.Path(folder, "out.json")
        path.write_text("".join(json.dumps(one) + "\n" for one in rows))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            compare.main(["--from", str(path), "--out", str(out), *arguments])
        return printed.getvalue().splitlines(), json.loads(out.read_text())


class Report(unittest.TestCase):
    def test_a_table_has_a_row_for_each_allocator_and_a_dash_where_nothing_is(self):
        lines, _ = report(
            [
                row("Tarn raw", 157.4),
                row("Tarn raw", 1.1, "second pass, reserved:live"),
                row("Tarn raw", 0, "failed with 1.05 x live"),
                row("PyTorch", 12345, "second pass, p99.9 ns"),
            ]
        )
        self.assertEqual(lines[0], "== joins, idle device (peers)")
        heads = ["1st", "2nd", "5th", "p99.9", "1st", "2nd", "5th", "fails"]
        self.assertEqual([head for head in lines[1].split() if head not in ("ns", "r:l")], heads)
        self.assertEqual(" ".join(lines[2].split()), "Tarn raw - 157 - - - 1.100 - 0")
        self.assertEqual(" ".join(lines[3].split()), "PyTorch - - - 12,345 - - - -")

    def test_each_beaten_figure_has_a_line_with_winner_and_ratio(self):
        lines, _ = report(
            [
                row("Tarn raw", 300),
                row("Tarn registered", 150),
                row("RMM binning", 200),
                row("PyTorch", 250),
            ]
        )
        at = lines.index("not first: 1 of 2 figures")
        self.assertEqual(
            lines[at + 1 :],
            [
                "  joins, idle device, second pass, mean ns (peers): Tarn raw 300, "
                "RMM binning 200 (1.50 x)"
            ],
        )

    def test_equal_is_first(self):
        lines, _ = report([row("Tarn raw", 200), row("driver pool", 200)])
        self.assertEqual(lines[-1], "not first: 0 of 1 figures")

    def test_failures_are_compared_with_none(self):
        metric = "failed with 1.05 x live"
        lines, _ = report([row("Tarn raw", 3, metric), row("RMM pool", 0, metric)])
        self.assertIn("Tarn raw 3, RMM pool 0 (the winner has none)", lines[-1])

    def test_programs_are_not_compared_with_each_other(self):
        lines, _ = report([row("Tarn raw", 300, bench="pool_traces"), row("PyTorch", 200)])
        self.assertEqual(lines[-1], "not first: 0 of 0 figures")

    def test_vectors_that_grow_are_marked(self):
        case = "vectors-150-seed1, busy device"
        lines, _ = report([row("Tarn raw", 3, case=case), row("PyTorch", 2, case=case)])
        self.assertIn("(1.50 x, need not be)", lines[-1])

    def test_the_json_has_the_form_of_the_results(self):
        _, kept = report([row("Tarn raw", 100), row("Tarn raw", 300), row("PyTorch", 400)])
        self.assertEqual(
            kept,
            [
                {
                    "bench": "peers",
                    "case": "joins, idle device",
                    "metric": "second pass, mean ns",
                    "median": {"Tarn raw": 200, "PyTorch": 400},
                    "ratio": {"Tarn raw": 1, "PyTorch": 2},
                }
            ],
        )


class Rows(unittest.TestCase):
    def convert(self, who, metric, registered=False, passes=2):
        one = row(who, 1, metric, "joins-8-seed1 busy", "pool_traces")
        made = compare.pool_traces_row(one, registered, passes)
        return made["who"], made["case"], made["metric"]

    def test_pool_traces_gets_the_names_of_peers(self):
        case = "joins-8-seed1, busy device"
        self.assertEqual(
            self.convert("pool", "last ns"), ("Tarn raw", case, "second pass, mean ns")
        )
        self.assertEqual(
            self.convert("pool", "last reserved:live", True, 5),
            ("Tarn registered", case, "fifth pass, reserved:live"),
        )
        self.assertEqual(
            self.convert("async", "first ns", passes=5),
            ("driver pool", case, "first pass, mean ns"),
        )
        self.assertEqual(
            self.convert("pool:growth=4MiB", "limited failed allocations"),
            ("Tarn raw, growth=4MiB", case, "failed with 1.05 x live"),
        )

    def test_of_peers_only_traces_are_kept(self):
        self.assertIsNone(compare.peers_row(row("PyTorch", 1, case="pair of 256")))
        self.assertEqual(compare.peers_row(row("Tarn registered", 1))["who"], "Tarn registered")


class Running(unittest.TestCase):
    def run_with(self, programs, rows):
        """The report after a run with these scripts in the place of the benchmarks."""
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder, "bin")
            build.mkdir()
            rows_file = pathlib.Path(folder, "rows")
            rows_file.write_text("".join(json.dumps(one) + "\n" for one in rows))
            for name, text in programs.items():
                (build / name).write_text(text.format(rows=rows_file))
                (build / name).chmod(0o755)
            command = ["--kind", "vectors-150", "--operations", "1000", "--peak", "64MiB"]
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                compare.main(
                    [*command, *("--traces", folder, "--build", folder, "--shims", folder)]
                )
            return printed.getvalue()

    def test_missing_programs_and_peers_are_named(self):
        printed = self.run_with({"bench-peers": WRITES}, [row("Tarn raw", 3), row("PyTorch", 2)])
        self.assertIn("no bench-pool_traces: ", printed)
        self.assertIn("no RMM: ", printed)
        self.assertIn("no PyTorch: ", printed)
        self.assertIn("not first: 1 of 1 figures", printed)

    def test_a_program_that_fails_is_named_and_its_rows_are_kept(self):
        rows = [row("Tarn raw", 3), row("PyTorch", 2)]
        printed = self.run_with({"bench-peers": FAILS}, rows)
        self.assertIn("peers, Tarn and the driver's pool: exit 1: no memory", printed)
        self.assertIn("Tarn raw", printed)
        self.assertIn("not first: 0 of 0 figures", printed)

    def test_raw_and_registered_streams_and_all_passes_stand_in_one_table(self):
        rows = [
            row(who, 100, f"{which} ns", "t idle", "pool_traces")
            for who in ("pool", "async")
            for which in ("first", "last")
        ]
        printed = self.run_with({"bench-pool_traces": WRITES}, rows)
        table = printed.partition("== t, idle device (pool_traces)\n")[2].splitlines()
        self.assertEqual(table[1].split()[:5], ["Tarn", "raw", "100", "100", "100"])
        self.assertIn(["Tarn", "registered", "100", "100", "100"], [x.split()[:5] for x in table])


if __name__ == "__main__":
    unittest.main()
