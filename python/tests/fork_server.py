"""fork_server.py -- runs programs in forks of a process that has imported Numba.

An import of numba.cuda costs 0.7 CPU seconds, which is most of the time of a short program. The
process opens no driver and does not import tarn. So a fork of it differs from `python -c` only
in the order of the imports and in the environment at the start: a test of either uses
numba_support.run_code().

As a program it reads requests from stdin, one line of JSON each, and answers with exit codes.
"""

import json
import os
import subprocess
import sys
import tempfile
import types

# A fork may change these, which Tarn reads at its first use; any other needs its own server.
READ_LATE = {"TARN_LOG", "TARN_MEMORY_MANAGER", "TARN_RESOURCE", "TARN_SIM"}


class Server:
    """The process, as its client sees it."""

    def __init__(self, environment):
        self.process = subprocess.Popen(
            [sys.executable, __file__], env=environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, code, changes):
        """Return what subprocess.run() of `python -c CODE` returns."""
        with tempfile.TemporaryDirectory() as folder:
            names = [os.path.join(folder, name) for name in ("out", "err")]
            request = {"code": code, "files": names, "changes": changes}
            self.process.stdin.write(json.dumps(request) + "\n")
            answer = self.process.stdout.readline()
            assert answer, "the server has ended"
            texts = []
            for name in names:
                with open(name) as file:
                    texts.append(file.read())
        return subprocess.CompletedProcess(["-c", code], json.loads(answer), *texts)


servers = {}


def run(code, environment, changes):
    """Run a program in a fork of a server; `environment` makes the server's of its changes."""
    late = {name: value for name, value in changes.items() if name in READ_LATE}
    early = {name: value for name, value in changes.items() if name not in late}
    key = tuple(sorted(early.items()))
    if key not in servers:
        servers[key] = Server(environment(**early))
    return servers[key].run(code, late)


# --- the process --------------------------------------------------------------------------


def serve():
    """Return a request, in a fork that has to run it; end with stdin."""
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            return request
        _, status = os.waitpid(child, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)
    sys.exit()


if __name__ == "__main__":
    sys.path[0] = ""
    import cuda.core
    from numba import cuda  # noqa: F401

    request = serve()
    os.environ.update(request["changes"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in enumerate(request["files"], 1):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = ["-c"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(request["code"], "<string>", "exec"), main.__dict__)
