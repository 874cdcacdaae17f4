"""tools/chart.py: the charts in docs/images show the newest results of the benchmarks."""

import json
import pathlib
import sys
import tempfile
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tools"))

import chart  # noqa: E402
import chart_together  # noqa: E402


class Charts(unittest.TestCase):
    def test_the_charts_are_those_of_the_newest_results(self):
        self.assertEqual(chart.differing(chart.newest()), [], "run tools/chart.py")

    def test_no_stored_results_have_the_old_name_of_registered_streams(self):
        for path in chart.RESULTS.glob("*.json"):
            for row in json.loads(path.read_text()):
                self.assertNotIn("opened", row["case"], path)
                self.assertNotIn("Tarn opened", row["median"], path)

    def test_every_value_of_a_chart_stands_in_it(self):
        path = chart.newest()
        results = json.loads(path.read_text())
        pictures = chart.pictures(path)
        for one in chart.CHARTS:
            for name, values in chart.table(one, results).items():
                self.assertIn(f">{name}<", pictures[one.file])
                for value in values:
                    label = f"{value:,.{one.digits}f}{one.unit}"
                    self.assertIn(f">{label}<", pictures[one.file])

    def test_results_without_the_cases_of_a_chart_are_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            empty = pathlib.Path(folder) / "h200-2026-01-01.json"
            empty.write_text("[]")
            with self.assertRaises(SystemExit):
                chart.pictures(empty)


GIB = 1 << 30


def run(allocator, limit, used):
    """Return the figures of a run of bench/together with three samples."""
    return {
        "allocator": allocator,
        "limit": limit,
        "used_peak": used[-1],
        "versions": {"numba": "1", "torch": "2"},
        "samples": [[GIB, 2 * GIB, one] for one in used],
    }


OWN = run("own", None, [3 * GIB, 5 * GIB, 6 * GIB])
LIMITED = run("tarn", int(3.3 * GIB), [3 * GIB, 3 * GIB, 3 * GIB])


class Together(unittest.TestCase):
    def test_the_picture_has_the_figures_of_both_kinds_of_runs(self):
        picture = chart_together.draw([run("tarn", None, [4 * GIB]), OWN, LIMITED], "somewhere")
        for text in "6.0 GiB in use", "3.0 GiB in use", "limit 3.3 GiB", "Numba, live", "somewhere":
            self.assertIn(f">{text}<", picture)
        self.assertNotIn("4.0 GiB", picture)
        self.assertEqual(picture.count('stroke-dasharray="4 3"'), 1)

    def test_areas_are_stacked_and_heights_are_of_one_scale(self):
        self.assertEqual(chart_together.stacked(OWN), [[GIB, 3 * GIB]] * 3)
        most = 6 * GIB
        whole = chart_together.panel("x", OWN, 0, 100, most)[2]
        bottom = chart_together.TOP + chart_together.PLOT
        half = bottom - chart_together.PLOT / 2  # of 3 GiB
        self.assertIn(f"M0.0 {half:.1f}L", whole)

    def test_figures_without_one_of_the_kinds_are_an_error(self):
        for runs in [], [OWN], [LIMITED]:
            with self.assertRaises(SystemExit):
                chart_together.draw(runs, "somewhere")

    def test_a_recorded_file_gets_a_picture(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.assertIsNone(chart_together.newest(folder))
            (folder / "together").mkdir()
            for date in "2026-01-02", "2026-01-01":
                (folder / f"together/h200-{date}.json").write_text(json.dumps([OWN, LIMITED]))
            newest = chart_together.newest(folder)
            self.assertEqual(newest.stem, "h200-2026-01-02")
            self.assertIn(
                "Data: bench/results/together/h200-2026-01-02.json",
                chart_together.picture(newest, chart.measured(newest)),
            )


if __name__ == "__main__":
    unittest.main()
