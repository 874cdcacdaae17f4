"""upstream/: each finding in another project shows on the installed version, or is fixed there."""

import importlib.metadata
import pathlib
import re
import subprocess
import sys

import pytest

UPSTREAM = pathlib.Path(__file__).resolve().parents[2] / "upstream"
TABLE = re.findall(
    r"^\| \[([\w-]+)\]\(.*?\) \| (\S+) \| .*? \| ([\d.]+) \|$",
    (UPSTREAM / "README.md").read_text(),
    re.M,
)
# Numba compiles them for several seconds; they cover causes that a shorter program shows as well.
LONG = {"llvmlite-releasing-call", "numba-exception-leak"}
FINDINGS = [
    pytest.param(*row, id=row[0], marks=[pytest.mark.full] if row[0] in LONG else [])
    for row in TABLE
]


def run(finding, *arguments):
    """Run a file of a finding, in a folder without modules."""
    path = UPSTREAM / finding / arguments[0]
    return subprocess.run(
        [sys.executable, path, *arguments[1:]], capture_output=True, text=True, cwd="/", timeout=300
    )


def skip_if_fixed(shown, project, version):
    """Skip with the line of a program that says `fixed`, for other versions than the table's."""
    installed = importlib.metadata.version(project.lower())
    if not shown.startswith("shown: ") and installed != version:
        assert shown.startswith("fixed: "), shown
        pytest.skip(f"{project} {installed}: {shown}")


def test_the_table_has_all_findings():
    folders = {path.parent.name for path in UPSTREAM.glob("*/program.py")}
    assert {row[0] for row in TABLE} == folders and len(TABLE) >= 7
    for folder in folders:
        assert (UPSTREAM / folder / "proposed_test.py").exists()


@pytest.mark.parametrize("finding, project, version", FINDINGS)
def test_a_finding_shows(finding, project, version):
    done = run(finding, "program.py")
    assert done.returncode == 0, done.stdout + done.stderr
    skip_if_fixed(done.stdout, project, version)
    assert done.stdout.startswith("shown: "), done.stdout


@pytest.mark.full
def test_a_callback_shows_the_releasing_call():
    done = run("llvmlite-releasing-call", "program.py", "callback")
    version = next(row[2] for row in TABLE if row[0] == "llvmlite-releasing-call")
    skip_if_fixed(done.stdout, "llvmlite", version)
    assert done.stdout.startswith("shown: "), done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    "finding, project, version", [row for row in TABLE if row[1] != "numba-cuda"]
)
def test_the_proposed_test_fails(finding, project, version):
    skip_if_fixed(run(finding, "program.py").stdout, project, version)
    done = run(finding, "proposed_test.py")
    assert done.returncode == 1 and re.search(r"^FAILED \(", done.stderr, re.M), done.stderr
    assert "ImportError" not in done.stderr and "SyntaxError" not in done.stderr
