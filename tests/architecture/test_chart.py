"""tools/chart.py: the charts in docs/images show the newest results of the benchmarks."""

import json
import pathlib
import sys
import tempfile
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tools"))

import chart  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
