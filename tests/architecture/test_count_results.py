"""The total at the end of ./check: no failed or skipped test counts as passed."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

COUNT = pathlib.Path(__file__).resolve().parents[2] / "tools/count_results.py"
CMOCKA = """<system-out>[==========] Running 3 test(s).
[ RUN      ] one
[       OK ] one
[ RUN      ] two
{two}
[ RUN      ] three
{three}
</system-out>"""
OK_TWO, OK_THREE = "[       OK ] two", "[       OK ] three"


def case(inner="", status="run"):
    return f"<testsuite><testcase name='x' status='{status}'>{inner}</testcase></testsuite>"


def count(text):
    """Return the last line and the exit code for a file with this text; None: no file."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "suite.xml")
        if text is not None:
            path.write_text(text)
        done = subprocess.run([sys.executable, COUNT, path], capture_output=True, text=True)
    return done.stdout.splitlines()[-1], done.returncode


class Counting(unittest.TestCase):
    def check(self, text, passed, failed):
        self.assertEqual(count(text), (f"{passed} passed, {failed} failed", int(failed > 0)))

    def test_plain_entries(self):
        self.check(case(), 1, 0)
        self.check(case("<failure/>"), 0, 1)
        self.check(case("<error/>"), 0, 1)

    def test_what_was_never_there_is_a_failure(self):
        self.check(None, 0, 1)
        self.check("", 0, 1)
        self.check("<testsuite/>", 0, 1)
        self.check(case("<skipped/>"), 0, 1)

    def test_a_program_that_is_not_there_has_failed(self):
        missing = "<skipped message='Unable to find executable'/>"
        self.check(f"<all>{case()}{case(missing, status='notrun')}</all>", 1, 1)
        asked = "<skipped message='SKIP_RETURN_CODE=77'/>"
        self.check(f"<all>{case()}{case(asked, status='notrun')}</all>", 1, 0)

    def test_a_cmocka_program_is_as_many_tests_as_it_announces(self):
        self.check(case(CMOCKA.format(two=OK_TWO, three=OK_THREE)), 3, 0)

    def test_a_skipped_test_is_neither_passed_nor_failed(self):
        skipped = "[  SKIPPED ] two\n[  SKIPPED ] two"
        self.check(case(CMOCKA.format(two=skipped, three=OK_THREE)), 2, 0)

    def test_a_failed_one_is_counted_once(self):
        failed = "[  FAILED  ] two\n[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] two"
        self.check(case("<failure/>" + CMOCKA.format(two=failed, three=OK_THREE)), 2, 1)

    def test_tests_that_a_crash_kept_from_running_have_failed(self):
        self.check(case("<failure/>" + CMOCKA.format(two="", three="")), 1, 2)

    def test_a_program_that_fails_after_its_tests_has_failed(self):
        passed = CMOCKA.format(two=OK_TWO, three=OK_THREE)
        self.check(case("<failure/>" + passed), 3, 1)


if __name__ == "__main__":
    unittest.main()
