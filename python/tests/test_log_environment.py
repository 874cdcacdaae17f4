"""The variables of TARN_LOG: any text is taken or ignored with a warning, and tarn is imported."""

import os
import subprocess
import sys
import warnings

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tarn import _log

# What an environment can hold: any bytes but 0.
TEXTS = st.one_of(
    st.binary(max_size=40).map(lambda data: os.fsdecode(data.replace(b"\0", b"-"))),
    st.from_regex(r"[-+]?[0-9_٣]{0,12}\.?[0-9]{0,4} ?[kKmMgGtT]?i?[bB]?", fullmatch=True),
)
HUGE = "9" * 5000  # more digits than int() accepts


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("TARN_LOG_STACKS", "TARN_LOG_RING", "TARN_LOG_FORMAT"):
        monkeypatch.setenv(name, "")


def read(name, text, function, *arguments):
    """The value that a reader takes from the environment, and its number of warnings."""
    os.environ[name] = text
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return function(*arguments), len(caught)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS)
@example(HUGE)
@example("")
def test_a_number_is_in_its_range(text):
    value, warned = read("TARN_LOG_STACKS", text, _log._number, "TARN_LOG_STACKS", 1, 128, 7)
    assert 1 <= value <= 128
    assert value == 7 if warned or not text else value == int(text)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS)
@example("")
@example("0")
@example("-1")
@example("nan")
@example("1e999")
@example("1048575")
def test_a_ring_has_a_size_or_is_none(text):
    value, warned = read("TARN_LOG_RING", text, _log._ring_bytes)
    assert value == 0 if warned or not text else 1 << 20 <= value < 1 << 63


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS)
@example("csv")
@example("binary")
def test_a_format_is_known(text):
    value, warned = read("TARN_LOG_FORMAT", text, _log._format_of, "a.log")
    assert value in _log._FORMATS.values()
    assert warned == (text not in ("", *_log._FORMATS))


@pytest.mark.parametrize(
    ("name", "text"), [("TARN_LOG_STACKS", HUGE), ("TARN_LOG_PID", HUGE), ("TARN_LOG_RING", "")]
)
def test_tarn_is_imported_whatever_the_text(tmp_path, name, text):
    variables = {**os.environ, "TARN_LOG": str(tmp_path / "a.tarn"), name: text}
    subprocess.run([sys.executable, "-c", "import tarn"], env=variables, check=True)


def test_a_log_beside_a_removed_directory_is_ignored(tmp_path):
    code = "import os; os.rmdir(os.getcwd()); import tarn; print(os.environ['TARN_LOG'])"
    (tmp_path / "gone").mkdir()
    variables = {k: v for k, v in os.environ.items() if not k.startswith("TARN_LOG")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env={**variables, "TARN_LOG": "a.tarn"},
        cwd=tmp_path / "gone", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "a.tarn\n"
    assert "TARN_LOG=a.tarn is ignored" in done.stderr
