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

# A benchmark that writes the rows of FILE, one that fails after its first row, in the first of
# its traces, one that prints nothing, and one that writes its arguments.
WRITES = '#!/bin/sh\necho "== one"\ncat "{rows}" >"$2"\n'
FAILS = '#!/bin/sh\necho "== one"\nhead -n 1 "{rows}" >"$2"\necho "no memory" >&2\nexit 1\n'
HANGS = "#!/bin/sh\necho '== one'\nexec sleep 60\n"
ARGUMENTS = '#!/bin/sh\necho "$TARN_DRIVER $*" >>"{rows}"\n'


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
                row("Tarn raw", 0, "fifth pass, failed with 1.05 x live"),
                row("Tarn raw", 20, "second pass, driver calls/1000 pairs"),
                row("PyTorch", 12345, "second pass, p99.9 ns"),
            ]
        )
        self.assertEqual(lines[0], "== joins, idle device")
        cells = lines[2].split()
        heads = [head.strip() for head, _ in compare.COLUMNS]
        found = dict(zip(heads, cells[2:], strict=True))
        self.assertEqual(cells[:2], ["Tarn", "raw"])
        self.assertEqual(
            {key: value for key, value in found.items() if value != "-"},
            {"2nd ns": "157", "2nd r:l": "1.100", "5th fails": "0", "calls": "20"},
        )
        found = dict(zip(heads, lines[3].split()[1:], strict=True))
        self.assertEqual(found["2nd p99.9"], "12,345")

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
            ["  joins, idle device, second pass, mean ns: Tarn raw 300, RMM binning 200 (1.50 x)"],
        )

    def test_equal_is_first(self):
        lines, _ = report([row("Tarn raw", 200), row("driver pool", 200)])
        self.assertEqual(lines[-1], "not first: 0 of 1 figures")

    def test_failures_are_compared_with_none(self):
        metric = "second pass, failed with 1.05 x live"
        lines, _ = report([row("Tarn raw", 3, metric), row("RMM pool", 0, metric)])
        self.assertIn("Tarn raw 3, RMM pool 0 (the winner has none)", lines[-1])

    def test_the_empty_loop_and_driver_calls_are_not_compared(self):
        calls = "second pass, driver calls/1000 pairs"
        lines, _ = report(
            [
                row("Tarn raw", 300),
                row("empty loop", 25),
                row("Tarn raw", 30, calls),
                row("driver pool", 3, calls),
            ]
        )
        self.assertEqual(lines[-1], "not first: 0 of 0 figures")

    def test_a_peer_that_fails_without_a_maximum_is_not_first(self):
        lines, _ = report(
            [row("Tarn raw", 300), row("PyTorch", 20), row("PyTorch", 9, "second pass, failed")]
        )
        self.assertEqual(lines[-1], "not first: 0 of 0 figures")

    def test_the_first_pass_is_compared_with_peers_that_start_empty_and_stay_small(self):
        first, reserved = "first pass, mean ns", "first pass, reserved:live"
        rows = [
            row("Tarn raw", 1000, first),
            row("RMM binning", 100, first),
            row("RMM binning", 1.9, reserved),
            row("RMM arena, initial", 200, first),
            row("PyTorch", 850, first),
            row("PyTorch", 1.3, reserved),
        ]
        self.assertEqual(report(rows)[0][-1], "not first: 0 of 1 figures")
        rows[0]["value"] = 1100
        self.assertIn("Tarn raw 1,100, PyTorch 850 (1.29 x)", report(rows)[0][-1])

    def test_those_with_initial_memory_are_compared_by_their_times(self):
        first = "first pass, mean ns"
        rows = [
            row("Tarn raw, initial", 300, first),
            row("RMM arena, initial", 200, first),
            row("PyTorch", 100, first),
            row("Tarn raw, initial", 1.6, "first pass, reserved:live"),
            row("RMM arena, initial", 1.5, "first pass, reserved:live"),
        ]
        lines, _ = report(rows)
        self.assertEqual(lines[-2], "not first: 1 of 1 figures")
        self.assertIn("Tarn raw, initial 300, RMM arena, initial 200 (1.50 x)", lines[-1])

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


class Aims(unittest.TestCase):
    def over(self, *figures, case="joins-8-seed1, idle device"):
        """The lines about the aims, for (who, value, metric)."""
        lines, _ = report([row(who, value, metric, case) for who, value, metric in figures])
        at = next(i for i, line in enumerate(lines) if line.startswith("over the aims"))
        end = next(i for i, line in enumerate(lines) if line.startswith("not first"))
        return lines[at:end]

    def test_reserved_memory_is_bound_by_the_number_of_streams_and_the_policy(self):
        second = "second pass, reserved:live"
        lines = self.over(
            ("Tarn raw", 1.16, second),
            ("Tarn registered", 1.15, second),
            ("Tarn raw, policy=tight", 1.12, second),
            ("Tarn raw, policy=tight", 1.12, "first pass, reserved:live"),
            ("Tarn raw, initial", 1.7, second),
            ("PyTorch", 5, second),
        )
        self.assertEqual(lines[0], "over the aims: 2 of 3 figures")
        self.assertIn("Tarn raw 1.160, aim 1.150", lines[1])
        self.assertIn("Tarn raw, policy=tight 1.120, aim 1.110", lines[2])

    def test_failures_and_the_slowest_operations_have_aims(self):
        lines = self.over(
            ("Tarn raw", 1, "fifth pass, failed with 1.05 x live"),
            ("Tarn raw", 7000, "second pass, p99.9 ns"),
        )
        self.assertEqual(lines[0], "over the aims: 2 of 2 figures")
        busy = "joins-8-seed1, busy device"
        lines = self.over(("Tarn raw", 7000, "second pass, p99.9 ns"), case=busy)
        self.assertEqual(lines, ["over the aims: 0 of 1 figures"])

    def test_vectors_that_grow_have_their_own_and_unknown_traces_have_none(self):
        figure = ("Tarn raw", 1.9, "second pass, reserved:live")
        lines = self.over(figure, case="vectors-150-seed1, idle device")
        self.assertIn("Tarn raw 1.900, aim 1.500", lines[1])
        lines = self.over(figure, case="etl, idle device")
        self.assertEqual(lines, ["over the aims: 0 of 0 figures"])


class Running(unittest.TestCase):
    def run_with(self, script, rows, *arguments, kinds=("vectors-150",)):
        """The report after a run with this script in the place of the benchmark."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "bin", "bench-peers")
            program.parent.mkdir()
            self.rows = pathlib.Path(folder, "rows")
            self.rows.write_text("".join(json.dumps(one) + "\n" for one in rows))
            if script:
                program.write_text(script.format(rows=self.rows))
                program.chmod(0o755)
            command = ["--operations", "1000", "--peak", "64MiB", *arguments]
            command += [word for kind in kinds for word in ("--kind", kind)]
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                compare.main(
                    [*command, *("--traces", folder, "--build", folder, "--shims", folder)]
                )
            self.written = self.rows.read_text().splitlines()
            return printed.getvalue()

    def test_what_is_missing_is_named(self):
        self.assertIn("no bench-peers: ", self.run_with(None, []))
        printed = self.run_with(WRITES, [row("Tarn raw", 3), row("PyTorch", 2)])
        self.assertIn("no driver calls: ", printed)
        self.assertIn("no rmm: ", printed)
        self.assertIn("no torch: ", printed)
        self.assertIn("not first: 1 of 1 figures", printed)

    def test_after_a_failure_the_other_traces_run_and_rows_are_kept(self):
        rows = [row("Tarn raw", 3), row("PyTorch", 2)]
        printed = self.run_with(FAILS, rows, kinds=("vectors-150", "vectors-200"))
        for kind in ("vectors-150", "vectors-200"):
            self.assertIn(
                f"Tarn and the driver's pool: {kind}-seed1-operations1000-peak67108864.csv.gz: "
                "exit 1: no memory",
                printed,
            )
        self.assertIn("Tarn raw", printed)
        self.assertIn("not first: 0 of 0 figures", printed)

    def test_a_program_that_prints_nothing_is_ended(self):
        printed = self.run_with(HANGS, [], "--silence", "0.2")
        self.assertIn("silent for 0.2 s", printed)

    def test_a_run_ends_with_its_budget(self):
        printed = self.run_with(HANGS, [], "--budget", "0.2")
        self.assertIn("no time left", printed)

    def test_pairs_and_counts_of_the_wrong_program_are_left_out(self):
        rows = [
            row("PyTorch", 1, case="pair of 256"),
            row("Tarn raw", 1, "second pass, driver calls/1000 pairs"),
        ]
        self.assertNotIn("==", self.run_with(WRITES, rows))

    def test_a_pool_with_options_and_threads_are_passed_on(self):
        self.run_with(ARGUMENTS, [], "--who", "pool:growth=4MiB", "--threads", "3", "--quick")
        self.assertIn("--who pool --who pool:growth=4MiB --who async", self.written[0])
        self.assertIn("--threads 3 --passes 2 --other-passes 2", self.written[0])
        self.assertNotIn("--initial", self.written[0])

    def test_an_unknown_peer_is_an_error(self):
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            compare.parse(["--peers", "tarn,jemalloc"])

    def test_a_long_trace_is_shortened_unless_full(self):
        self.assertEqual(compare.sizes_of("drift", compare.parse([])), {"operations": 400_000})
        self.assertEqual(compare.sizes_of("drift", compare.parse(["--full"])), {})
        self.assertEqual(compare.sizes_of("bursts", compare.parse([])), {})


if __name__ == "__main__":
    unittest.main()
