"""Logs of processes that are killed or run out of disk, and what `tarn` reads of them."""

import os
import signal
import subprocess
import sys
import time

import pytest
from cli_tool import RMM, refused, tarn_tool
from tarn import mr

LOGGER = """
import os, signal, sys, time
import tarn
logger = tarn.mr.LoggingResourceAdaptor(
    tarn.mr.CudaMemoryResource(), sys.argv[1], auto_flush=sys.argv[2] == "True",
    format="binary" if sys.argv[1].endswith(".tlog") else "rmm",
)
blocks = [logger.allocate(100) for _ in range(5)]
"""


def start(code, path, auto_flush=False):
    """Start a process that logs five allocations to `path` and then runs `code`."""
    return subprocess.Popen(
        [sys.executable, "-c", LOGGER + code, str(path), str(auto_flush)],
        env={**os.environ, "TARN_DRIVER": "sim"},
        stderr=subprocess.PIPE,
        text=True,
    )


def rows_of(path):
    """Return the rows of a log without the header; none if there is no file yet."""
    return path.read_text().splitlines()[1:] if path.exists() else []


@pytest.mark.parametrize(
    ("end", "code"), [("os.kill(os.getpid(), signal.SIGKILL)", -9), ("os._exit(3)", 3)]
)
def test_a_process_that_ends_at_once_loses_no_row_with_auto_flush(tmp_path, end, code):
    process = start(end, tmp_path / "log.csv", auto_flush=True)
    process.communicate()
    assert process.returncode == code
    assert len(rows_of(tmp_path / "log.dev0.csv")) == 5


@pytest.mark.parametrize("name", ["log.csv", "log.tlog"])
def test_the_log_of_a_process_that_ctrl_c_ends_is_whole(tmp_path, name):
    """Python ends by the signal then, without exit(); the registry keeps the logger."""
    end = """
tarn.mr.set_current_device_resource(logger)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
signal.raise_signal(signal.SIGINT)
"""
    process = start(end, tmp_path / name)
    _, said = process.communicate()
    assert process.returncode == -signal.SIGINT and "KeyboardInterrupt" in said
    done = tarn_tool("log", "--check", tmp_path / name.replace("log", "log.dev0", 1))
    assert done.returncode == 0, done.stderr
    assert "5 rows" in done.stdout and "no end" not in done.stdout


def test_a_process_that_logs_no_more_has_its_rows_in_the_file(tmp_path):
    process = start("time.sleep(600)", tmp_path / "log.csv")
    path = tmp_path / "log.dev0.csv"
    end = time.monotonic() + 60
    while len(rows_of(path)) < 5 and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -9
    assert len(rows_of(path)) == 5
    done = tarn_tool("log", "--check", path)
    assert done.returncode == 0, done.stderr


def test_a_log_on_a_full_disk_is_one_warning_and_tells_so(tmp_path):
    """A limit on the size of files replaces a full disk."""
    code = """
import resource
for block in blocks:
    logger.deallocate(block, 100)
resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
for _ in range(3000):
    logger.deallocate(logger.allocate(100), 100)
try:
    logger.flush()
except tarn.TarnError as error:
    assert "File too large" in str(error)
    sys.exit(7)
"""
    process = start(code, tmp_path / "log.csv")
    _, errors = process.communicate()
    path = tmp_path / "log.dev0.csv"
    assert process.returncode == 7, errors
    assert errors.count("\n") == 1
    assert f"tarn: warning: trace: cannot write {path}: File too large" in errors
    lines = path.read_text().splitlines()
    assert len(lines) > 1000 and lines[-1] == "# incomplete: File too large"
    says = f"{path}:{len(lines)}: the program could not write the log to its end: File too large"
    refused(1, "tarn log: " + says, "log", path)
    refused(1, "tarn replay: " + says, "replay", "--resource", "host", path)


def test_requests_for_0_bytes_have_rows_beneath_other_adaptors_too(tmp_path):
    logger = mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), tmp_path / "log.csv")
    adaptors = [
        logger,
        mr.LimitingResourceAdaptor(logger, 100),
        mr.StatisticsResourceAdaptor(logger),
        mr.TrackingResourceAdaptor(logger),
        mr.FailureCallbackResourceAdaptor(logger, lambda size: False),
    ]
    for adaptor in adaptors:
        adaptor.deallocate(adaptor.allocate(0), 0)
    logger.flush()
    rows = [row.split(",", 2)[2] for row in rows_of(tmp_path / "log.dev0.csv")]
    assert rows == ["allocate,(nil),0,0", "free,(nil),0,0"] * len(adaptors)


# --- logs of RMM ---------------------------------------------------------------------------

LOG = RMM + (
    "24609,07:11:37.691553,allocate,0x7f0b30000000,1000,0\n"
    "24609,07:11:37.691600,allocate failure,(nil),35184372088832,0\n"
    "24610,07:11:37.691700,allocate,0x7f0b30000400,24,0x2\n"
    "24609,07:11:37.691800,allocate,(nil),0,0\n"
    "24609,07:11:37.691900,free,0x7f0b30000000,1000,0\n"
)


def with_columns(*order):
    """Return the log with its columns in another order; an unknown one has dashes."""
    names, *rows = [line.split(",") for line in LOG.splitlines()]
    rows = [dict(zip(names, row, strict=True)) for row in rows]
    lines = [order, *([row.get(name, "--") for name in order] for row in rows)]
    return "".join(",".join(line) + "\n" for line in lines)


FORMS = {
    "RMM 26.10": LOG,
    "another order": with_columns("Stream", "Size", "Pointer", "Action", "Time", "Thread"),
    "more columns": with_columns(
        "", "Thread", "Time", "Action", "Pointer", "Size", "Stream", "Tag"
    ),
    "RMM 0.13": with_columns("Time", "Action", "Pointer", "Size", "Stream").replace("37.", "37:"),
    "no 0x": LOG.replace(",0x7f", ",7f"),
    "a date": LOG.replace(",07", ",2021-03-04 07"),
    "blanks": LOG.replace(",", ", "),
    "Windows": LOG.replace("(nil)", "0x0").replace("\n", "\r\n"),
    "two logs": LOG + RMM,
    "two orders": LOG + "Action,Thread,Pointer,Size,Stream\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_logs_of_rmm_in_all_their_forms_are_replayed(tmp_path, form):
    path = tmp_path / "log.csv"
    path.write_text(FORMS[form])
    done = tarn_tool("replay", "--resource", "host", path)
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "on host: 3 operations" in words
    assert "freed after the end 1" in words and "peak live 1.00 KiB" in words
