"""The command `tarn metrics`: the figures of running processes, once or for Prometheus.

`tarn` runs it as the program tarn-metrics.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import http.server
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from tarn import metrics

_CONTENT = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def read_all(pids: Sequence[int] = ()) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the figures of some processes, or of all that listen, and why others have none."""
    found, problems = [], []
    with concurrent.futures.ThreadPoolExecutor(32) as threads:  # one may answer late
        answers = [threads.submit(metrics.read, pid) for pid in pids or metrics.processes()]
    for answer in answers:
        try:
            found.append(answer.result())
        except (OSError, RuntimeError) as error:  # a TarnError is a RuntimeError
            if pids or not isinstance(error, ProcessLookupError):  # else it has ended since
                problems.append(str(error))
    return found, problems


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET /metrics."""

    pids: Sequence[int] = ()
    protocol_version = "HTTP/1.1"
    timeout = 10  # seconds for a request
    server_version = "tarn"
    sys_version = ""

    def do_GET(self) -> None:
        """Send the figures as they are now."""
        if self.path.partition("?")[0] not in ("/", "/metrics"):
            self.send_error(404, "the figures are at /metrics")
            return
        found, problems = read_all(self.pids)
        for problem in problems:
            print(f"tarn metrics: {problem}", file=sys.stderr)
        body = metrics.openmetrics(found).encode()
        self.send_response(200)
        self.send_header("Content-Type", _CONTENT)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print no line for each request."""


def _address(given: str) -> tuple[str, int]:
    """Return the host and the port of HOST:PORT or PORT."""
    host, _, port = given.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(
            f"{given!r} is not PORT or HOST:PORT, with a port to 65535"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def _serve(address: tuple[str, int], pids: Sequence[int]) -> int:
    """Serve the figures until an interrupt."""
    handler = type("Handler", (_Handler,), {"pids": pids})
    try:
        server = http.server.ThreadingHTTPServer(address, handler)
    except OSError as error:
        print(
            f"tarn metrics: cannot listen at {address[0]}:{address[1]}: {error.strerror}",
            file=sys.stderr,
        )
        return 1
    with server:
        host, port = server.server_address[:2]
        print(f"serving http://{host!s}:{port}/metrics", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


def parser_of(verb: str, purpose: str) -> argparse.ArgumentParser:
    """Return a parser with the argument that `tarn metrics` and `tarn top` share: the processes."""
    parser = argparse.ArgumentParser(
        prog=f"tarn {verb}",
        description=f"{purpose} A process is found after tarn.metrics.listen(), or with "
        "TARN_METRICS=1 in its environment.",
    )
    parser.add_argument(
        "pids", nargs="*", type=int, metavar="PID", help="default: all processes of the user"
    )
    return parser


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("metrics", "Print the figures of running processes as OpenMetrics text.")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each process")
    parser.add_argument(
        "--serve", type=_address, metavar="[HOST:]PORT",
        help="serve the text at http://HOST:PORT/metrics; HOST is 127.0.0.1 by default",
    )  # fmt: skip
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    given = _parser().parse_args(arguments)
    if given.serve:
        return _serve(given.serve, given.pids)
    try:
        found, problems = read_all(given.pids)
    except OSError as error:
        found, problems = [], [str(error)]
    for problem in problems:
        print(f"tarn metrics: {problem}", file=sys.stderr)
    if not found and not problems:
        print("tarn metrics: no process of this user listens", file=sys.stderr)
    if given.json:
        for one in found:
            print(json.dumps(one))
    elif found:
        print(metrics.openmetrics(found), end="")
    return 0 if found and not problems else 1


def run() -> None:
    """Run the command as a program."""
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # `tarn metrics | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
