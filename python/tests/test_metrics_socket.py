"""tarn.metrics.listen() and read(): the figures of a process for another one of the same user."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
import tarn
import tarn.metrics
from tarn import _metrics_command, _metrics_socket

PROGRAM = """
import os, sys, tarn, tarn.mr, tarn.metrics
tracker = tarn.mr.TrackingResourceAdaptor(tarn.mr.PoolMemoryResource(), capture_stacks=True)
tarn.mr.set_current_device_resource(tracker)
def keep():
    return tarn.DeviceBuffer(size=3000000)
kept = [keep(), keep()]
tarn.metrics.listen()
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Give the sockets a folder of their own; the process of the test stops listening."""
    folder = tmp_path / "run"
    monkeypatch.setenv("TARN_IPC_DIR", str(folder))
    yield folder
    listening = _metrics_socket._listening
    if listening is not None:
        listening[0].shutdown(socket.SHUT_RDWR)  # wakes its thread
        listening[0].close()
    _metrics_socket._listening = None


@contextlib.contextmanager
def running(code=PROGRAM, **environment):
    """Run a program until the end of the block; it is ready at its beginning."""
    environment = {**os.environ, "TARN_DRIVER": "sim", **environment}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=environment,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "ready\n"
        yield process
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait(30)


def test_another_process_is_read_with_its_pool_and_its_largest_sites(folder):
    with running() as process:
        assert tarn.metrics.processes() == [process.pid]
        figures = tarn.metrics.read(process.pid)
        assert figures["pid"] == process.pid and "-c" in figures["command"]
        (pool,) = figures["pools"]
        assert pool["live_requested"] == 6000000
        (tracker,) = figures["trackers"]
        assert (tracker["bytes"], tracker["blocks"]) == (6000000, 2)
        (site,) = tracker["sites"]
        assert site == {"location": "<string>:6 keep", "bytes": 6000000, "blocks": 2}
    assert tarn.metrics.processes() == [] and os.listdir(folder) == []


def test_the_environment_makes_a_program_listen(folder):
    code = "import sys, tarn\nprint('ready', flush=True)\nsys.stdin.readline()"
    with running(code, TARN_METRICS="1") as process:
        assert tarn.metrics.read(process.pid)["pools"] == []


def test_a_process_that_does_not_listen_is_an_error(folder):
    assert tarn.metrics.processes() == []  # and there is no folder
    with pytest.raises(ProcessLookupError, match=r"process 1 does not listen: it ended, or"):
        tarn.metrics.read(1)


def test_the_socket_of_a_killed_process_is_removed_at_the_next_look(folder):
    with running() as process:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        assert os.listdir(folder) == [f"metrics-{process.pid}.sock"]
        with pytest.raises(ProcessLookupError):
            tarn.metrics.read(process.pid)
        assert tarn.metrics.processes() == [] and os.listdir(folder) == []


def test_a_forked_child_listens_at_a_socket_of_its_own(folder):
    code = """
import os, sys, warnings, tarn, tarn.mr, tarn.metrics
warnings.simplefilter("ignore")  # Python 3.12 warns of a fork beside threads
pool = tarn.mr.PoolMemoryResource()
tarn.metrics.listen()
child = os.fork()
if child == 0:
    print("ready", flush=True)
    sys.stdin.readline()
    os._exit(0)
os.waitpid(child, 0)
"""
    with running(code) as process:
        assert len(tarn.metrics.processes()) == 2
        for pid in tarn.metrics.processes():
            assert tarn.metrics.read(pid)["pid"] == pid
        assert process.pid in tarn.metrics.processes()


def test_a_second_call_returns_the_same_socket_and_starts_no_thread(folder):
    path = tarn.metrics.listen()
    before = threading.active_count()
    assert tarn.metrics.listen() == path == f"{folder}/metrics-{os.getpid()}.sock"
    assert threading.active_count() == before
    assert tarn.metrics.read(os.getpid())["pid"] == os.getpid()


def test_a_folder_that_others_can_enter_is_refused(folder):
    folder.mkdir(mode=0o755)
    wanted = rf"{folder} is not a folder that only user {os.getuid()} can enter \(owner {os.getuid()}, mode drwxr-xr-x\)"
    for call in (tarn.metrics.listen, tarn.metrics.processes):
        with pytest.raises(PermissionError, match=wanted):
            call()
    folder.rmdir()
    folder.symlink_to("/tmp")
    with pytest.raises(PermissionError, match="is not a folder that only user"):
        tarn.metrics.listen()


def test_a_connection_of_another_user_gets_no_answer(folder, monkeypatch):
    path = tarn.metrics.listen()
    monkeypatch.setattr(_metrics_socket, "_peer", lambda connection: (1, os.getuid() + 1))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        with contextlib.suppress(OSError):
            client.sendall(_metrics_socket._REQUEST)
            assert client.recv(1) == b""
    with pytest.raises(PermissionError, match=rf"belongs to user {os.getuid() + 1}, not to"):
        tarn.metrics.read(os.getpid())


def test_foreign_bytes_get_no_answer_and_harm_nobody(folder, monkeypatch):
    path = tarn.metrics.listen()
    for request in (b"", b"GET / HTTP/1.1\r\n", b"tarn-metrics 2\n", b"\0" * 100000):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            with contextlib.suppress(OSError):
                client.sendall(request)
                client.shutdown(socket.SHUT_WR)
                assert client.recv(1) == b""
    assert tarn.metrics.read(os.getpid())["pid"] == os.getpid()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "answered with 0 bytes that have no figures"),
        (b"\xff" * 10, "answered with 10 bytes that have no figures"),
        (b"[" * 100000, "answered with 100000 bytes that have no figures"),
        (b'{"pid": 1}', "answered with 10 bytes that have no figures"),
        (b'{"pid": PID, "error": "no memory"}', "figures: no memory"),
        (b"x" * 2000, "did not answer: its answer exceeds 1000 bytes"),
    ],
)
def test_an_answer_without_figures_is_an_error(folder, monkeypatch, answer, message):
    answer = answer.replace(b"PID", str(os.getpid()).encode())
    monkeypatch.setattr(_metrics_socket, "_answer", lambda: answer)
    if len(answer) == 2000:
        monkeypatch.setattr(_metrics_socket, "_ANSWER_MAX", 1000)
    tarn.metrics.listen()
    with pytest.raises(tarn.TarnError, match=message):
        tarn.metrics.read(os.getpid())


def test_a_process_that_answers_late_is_an_error(folder, monkeypatch):
    monkeypatch.setattr(_metrics_socket, "_TIMEOUT", 0.05)
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/metrics-{os.getpid()}.sock")
        server.listen()
        with pytest.raises(tarn.TarnError, match="did not answer: timed out"):
            tarn.metrics.read(os.getpid())


def test_one_process_without_an_answer_does_not_hide_the_others(folder, monkeypatch):
    with running() as process:
        monkeypatch.setattr(_metrics_socket, "_answer", lambda: b"")
        tarn.metrics.listen()
        figures, problems = _metrics_command.read_all()
        assert [one["pid"] for one in figures] == [process.pid]
        assert len(problems) == 1 and f"process {os.getpid()} answered" in problems[0]
