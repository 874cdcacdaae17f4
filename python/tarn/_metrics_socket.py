"""Serves the figures of a process to other processes of the same user, over a Unix socket.

listen() starts a thread that waits for connections. It uses no CPU time while it waits. The socket
is a file in a folder that only the user can enter. Both ends check the user of the other one. A
client sends one line. The process answers with the figures as JSON and closes the connection.

A forked child listens on a socket of its own. The file of a process that was killed remains until a
process lists the folder, which removes it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import socket
import stat
import struct
import threading
import time
from typing import Any

from tarn import _tarn

_REQUEST = b"tarn-metrics 1\n"
_ANSWER_MAX = 64 << 20  # bytes
_TIMEOUT = 5.0  # seconds, for each step of a connection
_NAME = re.compile(r"metrics-([1-9][0-9]{0,9})\.sock")

_lock = threading.Lock()
_listening: tuple[socket.socket, str, int] | None = None  # and its path and process


def _folder() -> str:
    """Return the folder of the sockets, as of those for IPC; it may be absent."""
    given = os.environ.get("TARN_IPC_DIR")
    if given:
        return given
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return os.path.join(runtime, "tarn") if runtime else f"/tmp/tarn-{os.getuid()}"


def _check_folder(folder: str) -> None:
    """Raise PermissionError unless the folder is the user's and nobody else can enter it."""
    facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise PermissionError(
            f"{folder} is not a folder that only user {os.getuid()} can enter "
            f"(owner {facts.st_uid}, mode {stat.filemode(facts.st_mode)})"
        )


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Return the process id and the user id of the other end."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", found)
    return pid, uid


# --- the process that is looked at -----------------------------------------------------------


def listen() -> str:
    """Let other processes of the same user read the figures of this process.

    A thread waits for them. Nothing else is spent until one connects. A second call has no effect.
    With the environment variable TARN_METRICS=1, `import tarn` makes this call.

    Returns
    -------
    str
        The path of the socket.

    Raises
    ------
    PermissionError
        Another user could enter the folder of the socket.
    OSError
        The socket cannot be made.
    """
    global _listening
    with _lock:
        if _listening is not None and _listening[2] == os.getpid():
            return _listening[1]
        folder = _folder()
        os.makedirs(folder, mode=0o700, exist_ok=True)
        _check_folder(folder)
        path = os.path.join(folder, f"metrics-{os.getpid()}.sock")
        server = _bound(path)
        _listening = server, path, os.getpid()
        thread = threading.Thread(target=_serve, args=(server,), name="tarn-metrics", daemon=True)
        thread.start()
        return path


def _bound(path: str) -> socket.socket:
    """Return a listening socket at a path. A file there is of an earlier process of this id."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        server.bind(path)
        server.listen(4)
    except OSError as error:
        server.close()
        raise OSError(error.errno, f"cannot listen at {path}: {error.strerror}") from None
    return server


def _serve(server: socket.socket) -> None:
    """Answer connections, one at a time, until the socket is closed."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            if server.fileno() < 0:
                return
            continue  # the connection was gone, or the process has no descriptor left
        with connection, contextlib.suppress(OSError):
            connection.settimeout(_TIMEOUT)
            if _peer(connection)[1] == os.getuid() and _request(connection) == _REQUEST:
                connection.sendall(_answer())


def _request(connection: socket.socket) -> bytes:
    """Return the line that a client sends, or what there is of it."""
    line = b""
    while not line.endswith(b"\n") and len(line) < len(_REQUEST):
        piece = connection.recv(len(_REQUEST) - len(line))
        if not piece:
            break
        line += piece
    return line


def _answer() -> bytes:
    """Return the figures of this process as JSON; a failure is one of the figures."""
    from tarn import metrics

    try:
        return json.dumps(metrics.collect()).encode()
    except Exception as error:
        return json.dumps({"pid": os.getpid(), "error": str(error)}).encode()


def _end() -> None:
    """Remove the socket at the end of the process."""
    global _listening
    listening, _listening = _listening, None
    if listening is not None and listening[2] == os.getpid():
        with contextlib.suppress(OSError):
            os.unlink(listening[1])


def _after_fork() -> None:
    """Listen in a forked child, if the parent did; the parent's socket is left to the parent."""
    global _lock
    _lock = threading.Lock()
    if _listening is None:
        return
    _listening[0].close()
    with contextlib.suppress(OSError, RuntimeError):
        listen()


atexit.register(_end)
os.register_at_fork(after_in_child=_after_fork)


# --- the process that looks ------------------------------------------------------------------


def processes() -> list[int]:
    """Return the ids of the user's processes that listen().

    The files of processes that have ended are removed.

    Returns
    -------
    list of int
        Ascending.

    Raises
    ------
    PermissionError
        Another user could enter the folder of the sockets.
    """
    folder = _folder()
    if not os.path.lexists(folder):
        return []
    _check_folder(folder)
    found = []
    for name in os.listdir(folder):
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        if _is_alive(os.path.join(folder, name)):
            found.append(int(match[1]))
    return sorted(found)


def _is_alive(path: str) -> bool:
    """Return whether a process listens at a path; the file of one that does not is removed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_TIMEOUT)
        try:
            client.connect(path)
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            return False
        except FileNotFoundError:
            return False
        except OSError:  # busy with other clients
            return True
    return True


def read(pid: int) -> dict[str, Any]:
    """Return the figures of another process, as collect() returns them there.

    Parameters
    ----------
    pid : int
        The id of a process of the same user that listens.

    Returns
    -------
    dict
        Described at collect(). The process may have another version of Tarn.

    Raises
    ------
    ProcessLookupError
        No such process listens.
    TarnError
        The process did not answer in time, or its answer has no figures.
    PermissionError
        The process belongs to another user.
    """
    path = os.path.join(_folder(), f"metrics-{pid}.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_TIMEOUT)
        try:
            client.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            raise ProcessLookupError(
                f"process {pid} does not listen: it ended, or it did not call tarn.metrics.listen()"
            ) from None
        uid = _peer(client)[1]
        if uid != os.getuid():
            raise PermissionError(f"process {pid} belongs to user {uid}, not to {os.getuid()}")
        try:
            client.sendall(_REQUEST)
            answer = _all_of(client)
        except OSError as error:
            raise _tarn.TarnError(f"process {pid} did not answer: {error}") from None
    return _figures(pid, answer)


def _all_of(client: socket.socket) -> bytes:
    """Return what the process sends until it closes; at most _ANSWER_MAX bytes."""
    pieces, count, end = [], 0, time.monotonic() + _TIMEOUT
    while piece := client.recv(1 << 16):
        client.settimeout(max(0.001, end - time.monotonic()))
        count += len(piece)
        if count > _ANSWER_MAX:
            raise OSError(f"its answer exceeds {_ANSWER_MAX} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _figures(pid: int, answer: bytes) -> dict[str, Any]:
    """Return the figures of an answer, checked as far as their readers need it."""
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("pid") != pid:
        raise _tarn.TarnError(
            f"process {pid} answered with {len(answer)} bytes that have no figures"
        )
    if "error" in found:
        raise _tarn.TarnError(f"process {pid} cannot collect its figures: {found['error']}")
    return found
