"""The log of a program: all memory under Tarn, each block in one row."""

import os
import re
import subprocess
import sys
from collections import Counter

import numba_support
import pytest
from binary_log_reader import Log, Pool
from cli_tool import tarn_tool
from numba_support import rows

pytest.importorskip("numba")

CLEAN = dict.fromkeys(["TARN_LOG", "TARN_LOG_PID", "TARN_RESOURCE", "NUMBA_CUDA_MEMORY_MANAGER"])


@pytest.fixture
def run(tmp_path):
    """Run code under `tarn run` on the simulator; return the rows of its log."""

    def run(code, *options, **environment):
        path = tmp_path / "log.csv"
        program = tmp_path / "program.py"
        program.write_text(code)
        done = tarn_tool(
            "run", "--driver", "sim", "--log", path, *options, program, **CLEAN, **environment
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return rows(path.read_text())

    return run


def balance(log):
    """Check that each block is in the log once, and freed once."""
    live = {}
    for row in log:
        if row["Event Type"] == "Alloc":
            assert row["Address"] not in live, row
            live[row["Address"]] = row
        else:
            assert live.pop(row["Address"])["Size (bytes)"] == row["Size (bytes)"], row
        assert int(row["Current Allocs"]) == len(live), row
    return live


def sizes(log):
    return Counter(int(row["Size (bytes)"]) for row in log if row["Event Type"] == "Alloc")


ALL = """
import tarn
from cuda.core import Device
from numba import cuda
device = Device()
device.set_current()
buffer = device.allocate(101, stream=device.default_stream)  # cuda.core, by tarn.use()
array = cuda.device_array(102, dtype="u1")                   # Numba's manager
pinned = cuda.pinned_array(103, dtype="u1")                  # from no resource
block = tarn.DeviceBuffer(size=104)                          # the current resource
pool = tarn.mr.PoolMemoryResource(tarn.mr.CudaMemoryResource(), initial_pool_size="4MiB")
other = tarn.DeviceBuffer(size=105, mr=pool)                 # a resource that is not current
logged = tarn.mr.StatisticsResourceAdaptor(tarn.mr.LimitingResourceAdaptor(pool, 1 << 20))
tarn.mr.set_current_device_resource(logged)
under = cuda.device_array(106, dtype="u1")                   # Numba over adaptors over a pool
address = logged.allocate(107)
logged.deallocate(address, 107)
buffer.close()
del array, pinned, block, other, under
"""


def test_each_block_of_any_caller_has_one_row(run):
    log = run(ALL)
    assert sizes(log) == Counter(range(101, 108))
    assert balance(log) == {}
    lines = {int(row["Size (bytes)"]): row["Location"].rpartition(":")[2] for row in log[:7]}
    assert lines[101] == "7" and lines[102] == "8" and lines[105] == "12"


def test_a_pools_own_growth_has_no_row(run):
    code = """
import tarn
pool = tarn.mr.PoolMemoryResource(tarn.mr.CudaMemoryResource(), initial_pool_size="8MiB")
pool.trim()
block = tarn.DeviceBuffer(size=64 << 20, mr=pool)
del block
pool.trim()
"""
    assert sizes(run(code)) == Counter([64 << 20])


def test_a_failed_free_has_no_row_until_its_retry(run):
    code = """
import sys, threading, tarn
from tarn import mr
fails, kept = [True], []
upstream = mr.CudaMemoryResource()
def free(address, size, stream):
    if fails.pop() if fails else False:
        thread = threading.Thread(target=lambda: kept.append(tarn.DeviceBuffer(size=50)))
        thread.start()
        thread.join()
        raise ValueError("not now")
    upstream.deallocate(address, size)
resource = mr.CallbackMemoryResource(lambda size, stream: upstream.allocate(size), free)
sys.unraisablehook = lambda args: None
block = tarn.DeviceBuffer(size=300, mr=resource)
del block
assert tarn._tarn._live_counts()[0] == 350, tarn._tarn._live_counts()
tarn.reclaim_deferred_frees()
assert tarn._tarn._live_counts()[0] == 50
del kept[0]
"""
    log = run(code)
    assert balance(log) == {}
    assert [row["Event Type"] for row in log] == ["Alloc", "Alloc", "Free", "Free"]


def test_a_failed_free_that_outlasts_the_rows_in_memory_changes_no_other_row(run):
    code = """
import sys, threading, tarn
from tarn import mr
ROWS = 65536  # that are kept in memory
upstream, source = mr.CudaMemoryResource(), mr.PoolMemoryResource()
def allocate_and_free():
    for _ in range(ROWS // 2 + 8):
        source.deallocate(source.allocate(8), 8)
def free(address, size, stream):
    if threads:
        thread = threads.pop()
        thread.start()
        thread.join()
        raise ValueError("not now")
    upstream.deallocate(address, size)
threads = [threading.Thread(target=allocate_and_free)]
resource = mr.CallbackMemoryResource(lambda size, stream: upstream.allocate(size), free)
sys.unraisablehook = lambda args: None
block = tarn.DeviceBuffer(size=300, mr=resource)
del block
assert len(tarn.csv_log().splitlines()) == 1 + ROWS
tarn.reclaim_deferred_frees()
"""
    log = run(code)
    assert sizes(log)[8] == 65536 // 2 + 8


def test_a_second_import_of_the_package_writes_on(run):
    code = """
import sys, tarn
for _ in range(33_000):  # more rows than are kept in memory
    tarn.DeviceBuffer(size=11)
for name in [n for n in sys.modules if n.partition(".")[0] == "tarn"]:
    del sys.modules[name]
import tarn as second
assert second is not tarn
second.DeviceBuffer(size=12)
"""
    log = run(code)
    assert sizes(log) == {11: 33_000, 12: 1} and balance(log) == {}


def test_a_free_that_outlasts_the_rows_in_memory_has_its_row(run):
    code = """
import threading, tarn
from tarn import mr
upstream, source = mr.CudaMemoryResource(), mr.PoolMemoryResource()
def allocate_and_free():
    for _ in range(33_000):
        source.deallocate(source.allocate(8), 8)
def free(address, size, stream):
    thread = threading.Thread(target=allocate_and_free)
    thread.start()
    thread.join()
    upstream.deallocate(address, size)
resource = mr.CallbackMemoryResource(lambda size, stream: upstream.allocate(size), free)
tarn.DeviceBuffer(size=300, mr=resource)
"""
    log = run(code)
    assert sizes(log) == {300: 1, 8: 33_000} and balance(log) == {}


def test_a_rejected_free_and_a_failed_allocation_are_no_blocks(run):
    code = """
import tarn
resource = tarn.mr.LimitingResourceAdaptor(tarn.mr.CudaMemoryResource(), 1000)
block = resource.allocate(10)
for wrong in (lambda: resource.deallocate(block + 256, 10), lambda: resource.allocate(5000)):
    try:
        wrong()
    except (tarn.TarnError, MemoryError):
        pass
resource.deallocate(block, 10)
"""
    log = run(code)
    assert [row["Event Type"] for row in log][0::2] == ["Alloc", "Free"] and len(log) == 3
    assert "ail" in log[1]["Event Type"] and log[1]["Size (bytes)"] == "5000"


def test_rows_say_what_is_left_after_each_call_and_count_time_from_the_first(run):
    """A query is valid for a millisecond; between queries, blocks are counted."""
    code = """
import tarn
pool = tarn.mr.PoolMemoryResource(tarn.mr.CudaMemoryResource(), initial_pool_size="8MiB")
for _ in range(300):
    block = pool.allocate(80)
    try:
        pool.deallocate(block, 1 << 20)
    except tarn.InvalidArgumentError:
        pass
    pool.deallocate(block, 80)
"""
    log = run(code)
    free = [int(row["Free Memory"]) for row in log]
    assert len(log) == 600 and free == [free[0], free[0] + 512] * 300
    assert all(int(row["Total Memory"]) >= free[1] for row in log)
    assert float(log[0]["Start"]) == 0 < float(log[0]["End"]) < float(log[-1]["End"]) < 60


def test_threads_have_consistent_rows(run):
    code = """
import sys, threading, tarn
sys.setswitchinterval(1e-6)
pool = tarn.mr.PoolMemoryResource()
def work(seed):
    for i in range(300):
        a = tarn.DeviceBuffer(size=1 + (seed * i) % 5000, mr=pool)
        del a
threads = [threading.Thread(target=work, args=(i + 1,)) for i in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    log = run(code)
    assert balance(log) == {} and len(log) == 2400


# The main thread has the GIL while it waits for the thread of C code.
NATIVE = """
import ctypes, os, tarn, time
path = os.path.join(tarn.get_library_dir(), "libtarn.so.0.2")
library, libc = ctypes.CDLL(path), ctypes.PyDLL(None)
resource, pointer, thread = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_ulong()
assert library.tarn_device_resource(0, ctypes.byref(resource)) == 0
size = ctypes.c_size_t(2000)
assert library.tarn_pointer_allocate(resource, size, None, ctypes.byref(pointer)) == 0
release = library.tarn_pointer_release
assert libc.pthread_create(ctypes.byref(thread), None, release, pointer) == 0
until = (ctypes.c_long * 2)(int(time.time()) + 30, 0)
assert libc.pthread_timedjoin_np(thread, None, until) == 0
library.tarn_resource_release(resource)
"""


def test_a_thread_unknown_to_python_frees_without_the_gil(run):
    log = run(NATIVE)
    assert balance(log) == {}
    places = {row["Size (bytes)"]: row["Location"] for row in log if row["Event Type"] == "Free"}
    assert places["2000"] == "<none>"


LATE = """
import os, sys, tarn
from tarn import _tarn
manager = _tarn.Manager(0, logging=True)
for _ in range(33_000):  # more rows than are kept in memory
    manager.memalloc(1).release()
_tarn.log_set_file(sys.argv[1], os.getpid(), 0)
_tarn.log_open_file()
_tarn.log_flush()
assert open(sys.argv[1]).read() == tarn.csv_log()
for _ in range(10):
    manager.memalloc(1).release()
"""


def test_a_file_that_is_opened_late_has_each_row_of_the_memory_once(tmp_path, monkeypatch):
    for name in CLEAN:
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "log.csv"
    subprocess.run([sys.executable, "-c", LATE, path], check=True)
    assert len(path.read_text().splitlines()) == 1 + 65_536 + 20


# Resources that C code makes can have any number as their device.
NUMBERED = """
import ctypes, os, tarn
library = ctypes.CDLL(os.path.join(tarn.get_library_dir(), "libtarn.so.0.2"))
pointer, size, int_ = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
sizes = ctypes.POINTER(size)

class Operations(ctypes.Structure):
    _fields_ = [
        ("size", size), ("name", ctypes.c_char_p),
        ("allocate", ctypes.CFUNCTYPE(int_, pointer, size, size, pointer, sizes)),
        ("deallocate", ctypes.CFUNCTYPE(int_, pointer, size, size, size, pointer)),
        ("destroy", ctypes.CFUNCTYPE(None, pointer)),
        ("memory_info", ctypes.CFUNCTYPE(int_, pointer, pointer, sizes, sizes)),
    ]

def allocate(self, nbytes, alignment, stream, out):
    out[0] = 4096
    return 0

def memory_info(self, stream, free, total):
    free[0], total[0] = 1000, 2000
    return 0

operations = Operations(ctypes.sizeof(Operations), b"numbered")
for name, call in {
    "allocate": allocate, "deallocate": lambda *_: 0, "destroy": lambda _: None,
    "memory_info": memory_info,
}.items():
    setattr(operations, name, dict(Operations._fields_)[name](call))
for device in (-1, 0, 127, 128, 1 << 30):
    resource, block = pointer(), size()
    made = library.tarn_resource_create(ctypes.byref(operations), None, device, ctypes.byref(resource))
    assert made == 0
    assert library.tarn_resource_allocate(resource, size(8), size(0), None, ctypes.byref(block)) == 0
    assert library.tarn_resource_deallocate(resource, block, size(8), size(0), None) == 0
    assert library.tarn_resource_release(resource) == 0
"""


def test_rows_have_the_memory_of_devices_that_tarn_can_use(run):
    log = [row for row in run(NUMBERED) if row["Event Type"] == "Alloc"]
    assert [row["Total Memory"] for row in log] == ["0", "2000", "2000", "0", "0"]


# --- exit ---------------------------------------------------------------------------------

EXIT = """
import atexit, gc
kept, freed = [], []
atexit.register(freed.clear)
import tarn
kept.append(tarn.DeviceBuffer(size=1000))
freed.append(tarn.DeviceBuffer(size=2000))
class Node: pass
node = Node()
node.itself, node.block = node, tarn.DeviceBuffer(size=3000)
del node
gc.collect()
"""


def test_what_the_program_frees_in_its_own_handlers_is_not_freed_by_exit(run):
    """The handler of the log is the earliest, so it runs last."""
    log = run("from cuda.core import Device\n" + EXIT)
    places = {
        int(row["Size (bytes)"]): row["Location"] for row in log if row["Event Type"] == "Free"
    }
    assert places[1000] == "<exit>" and places[3000] == "<gc>"
    assert places[2000] not in ("<exit>", "<gc>")


def test_a_binary_log_has_stacks_and_the_mark_of_exit(tmp_path):
    program, path = tmp_path / "program.py", tmp_path / "log"
    code = "def helper(n):\n    return tarn.DeviceBuffer(size=n)\n"
    program.write_text(EXIT.replace("kept, freed", code + "kept, freed") + "helper(5)\n")
    done = tarn_tool("run", "--driver", "sim", "--log", path, "--stacks", "16", program, **CLEAN)
    assert (done.returncode, done.stderr) == (0, "")
    data = path.read_bytes()
    assert data.startswith(b"TARNLOG\0")
    for name in b"helper", b"<module>", b"<exit>", b"<gc>", str(program).encode():
        assert name in data, name
    done = tarn_tool("run", "--driver", "sim", "--log", path, program, **CLEAN)
    assert (done.returncode, done.stderr) == (0, "")
    said = tarn_tool("log", path).stdout
    assert re.search(r"held until exit +1 +1000 B", said) and "no end" not in said, said
    one = path.read_bytes()
    assert b"<module>" not in one and b"<exit>" in one and str(program).encode() in one


def test_a_ring_of_a_process_stays_small(tmp_path):
    program, path = tmp_path / "program.py", tmp_path / "log"
    program.write_text("import tarn\nfor _ in range(40_000): tarn.DeviceBuffer(size=8)\n")
    options = ["--driver", "sim", "--log", path, "--ring", "1MiB"]
    done = tarn_tool("run", *options, program, **CLEAN)
    assert (done.returncode, done.stderr) == (0, "")
    assert path.stat().st_size <= 3 << 20 and Log(path).ring_chunks == 16


OUT_OF_MEMORY = """
import numpy as np, tarn
tarn.use(tarn.mr.LimitingResourceAdaptor(tarn.mr.PoolMemoryResource(maximum_pool_size="64MiB"), 1 << 40))
from numba import cuda
kept = [tarn.DeviceBuffer(size=16 << 20) for _ in range(3)]
for allocate in (lambda: tarn.DeviceBuffer(size=32 << 20), lambda: cuda.device_array(32 << 20, "u1")):
    try:
        allocate()
    except Exception as error:
        print(type(error).__name__)
"""


def test_a_binary_log_has_the_growth_of_the_pool_and_its_report_on_a_failure(tmp_path):
    program, path, page = tmp_path / "program.py", tmp_path / "log", tmp_path / "page.html"
    program.write_text(OUT_OF_MEMORY)
    done = tarn_tool("run", "--driver", "sim", "--log", path, "--stacks", "16", program, **CLEAN)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["OutOfMemoryError", "OutOfMemoryError"]
    done = tarn_tool("report", path, "-o", page)
    assert (done.returncode, done.stderr) == (0, "")
    said = page.read_text()
    reason = "an allocation of 32.0 MiB failed at [0-9.]+ .?s: the pool has reached its own maximum"
    # A buffer on a stream, and an array of Numba without one, which Numba tries twice.
    assert len(re.findall(reason, said)) == 2, said
    assert "it failed 2 times, within a second of each other" in said
    assert re.search("live 48.0 MiB of 48.0 MiB reserved", said), said


def test_a_binary_log_has_the_growth_of_a_pool_with_the_stack_of_the_allocation(tmp_path):
    code = """
import os, tarn
pool = tarn.mr.PoolMemoryResource()
first = tarn.DeviceBuffer(size=1 << 20, mr=pool)
def grow():
    return tarn.DeviceBuffer(size=64 << 20, mr=pool)
second = grow()
os._exit(0)  # before any free
"""
    program, path = tmp_path / "program.py", tmp_path / "log"
    program.write_text(code)
    done = tarn_tool("run", "--driver", "sim", "--log", path, "--stacks", "16", program, **CLEAN)
    assert (done.returncode, done.stderr) == (0, "")
    log = Log(path)
    *_, last = log.pools()
    assert (last.cause, last.live) == (Pool.GROWTH, 65 << 20)
    assert log.stack(last.stack)[0] == "grow"


def test_wrong_options_of_the_environment_are_warned_of(tmp_path):
    env = {
        "TARN_DRIVER": "sim", "TARN_LOG": str(tmp_path / "log"), "TARN_LOG_STACKS": "none",
        "TARN_LOG_RING": "5", "TARN_LOG_FORMAT": "xml",
    }  # fmt: skip
    code = "import tarn; tarn.DeviceBuffer(size=1)"

    def words(**changes):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **env, **changes},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "TARN_LOG_FORMAT=xml is ignored" in words()
    said = words(TARN_LOG_FORMAT="binary")
    assert "TARN_LOG_STACKS=none is ignored" in said and "TARN_LOG_RING=5 is ignored" in said
    assert (tmp_path / "log").read_bytes().startswith(b"TARNLOG\0")
    said = words(TARN_LOG="/no/such/log.csv", TARN_LOG_FORMAT="csv", TARN_LOG_STACKS="1")
    assert said.count("cannot") == 1 and "/no/such/log.csv" in said
    for owner in {}, {"TARN_LOG_PID": "1"}:  # with the process id in the second name
        said = words(TARN_LOG="/log" * 2000, TARN_LOG_FORMAT="csv", TARN_LOG_STACKS="1", **owner)
        assert said.count("cannot") == 1 and "File name too long" in said


def test_a_log_that_cannot_be_written_is_an_error_of_numbas_first_use(monkeypatch):
    code = """
import tarn.numba
from numba import cuda
tarn.numba.use_tarn_for_numba()
try:
    cuda.device_array(1)
except tarn.TarnError as error:
    print(error)
"""
    for name in CLEAN:
        monkeypatch.delenv(name, raising=False)
    done = numba_support.run(["-c", code], TARN_LOG="/no/such/log.csv")
    assert "/no/such/log.csv" in done.stdout and done.stderr == ""


# --- children -----------------------------------------------------------------------------

CHILDREN = """
import multiprocessing, os, subprocess, sys
import tarn

def work(size):
    block = tarn.DeviceBuffer(size=size)
    del block
    return size

def child_of_child(size):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(work, [size])
        pool.close()
        pool.join()

if __name__ == "__main__":
    for method, size in (("fork", 11), ("spawn", 12), ("forkserver", 13)):
        process = multiprocessing.get_context(method).Process(target=work, args=(size,))
        process.start()
        process.join()
        assert process.exitcode == 0, method
    process = multiprocessing.get_context("spawn").Process(target=child_of_child, args=(14,))
    process.start()
    process.join()
    subprocess.run([sys.executable, "-c", "import tarn; tarn.DeviceBuffer(size=15)"], check=True)
    subprocess.run([sys.executable, "-c", "import os"], check=True)
    work(16)
"""


def test_each_child_writes_a_file_of_its_own(run, tmp_path):
    log = run(CHILDREN)
    assert sizes(log) == Counter([16]) and balance(log) == {}
    found = {}
    for path in tmp_path.glob("log.csv.*"):
        assert path.suffix[1:].isdigit()
        child = rows(path.read_text())
        assert balance(child) == {}
        found.update(sizes(child))
    assert found == dict.fromkeys([11, 12, 13, 14, 15], 1)
    assert len(list(tmp_path.glob("log.csv.*"))) == 5  # none of a process without memory


def test_frameworks_of_children_allocate_from_tarn(run, tmp_path):
    code = """
import subprocess, sys
code = "from numba import cuda; cuda.device_array(21, dtype='u1')"
subprocess.run([sys.executable, "-c", code], check=True)
code = '''
from cuda.core import Device
device = Device(); device.set_current()
device.allocate(22, stream=device.default_stream).close()
'''
subprocess.run([sys.executable, "-c", code], check=True)
import tarn
tarn.DeviceBuffer(size=23)
"""
    assert sizes(run(code)) == Counter([23])
    children = [rows(path.read_text()) for path in tmp_path.glob("log.csv.*")]
    assert sum(map(sizes, children), Counter()) == Counter([21, 22])


CHILD_OF_ROWS = """
import os, tarn, warnings
warnings.simplefilter("ignore")  # Python 3.12 warns of a fork beside threads
limiter = tarn.mr.LimitingResourceAdaptor(tarn.mr.CudaMemoryResource(), 1000)
limiter.deallocate(limiter.allocate(200), 200)
kept = tarn.DeviceBuffer(size=300, mr=limiter)
child = os.fork()
if child == 0:
    try:
        limiter.allocate(5000)
    except MemoryError:
        os._exit(len(tarn.csv_log().splitlines()) - 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_the_log_of_a_forked_child_begins_after_the_fork(tmp_path):
    program, path = tmp_path / "program.py", tmp_path / "log.csv"
    program.write_text(CHILD_OF_ROWS)
    done = tarn_tool("run", "--driver", "sim", "--log", path, program, **CLEAN)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    (child,) = tmp_path.glob("log.csv.*")
    assert [row["Size (bytes)"] for row in rows(child.read_text())] == ["5000"]
    assert sizes(rows(path.read_text())) == Counter([200, 300])


WITHOUT_A_FILE = """
import os, tarn, warnings
warnings.simplefilter("ignore")  # Python 3.12 warns of a fork beside threads
child = os.fork()
tarn._tarn.Manager(0, logging=True).memalloc(100).release()
assert len(tarn.csv_log().splitlines()) == 3
if child == 0:
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


def test_a_forked_child_of_a_process_without_a_log_writes_no_file(tmp_path, monkeypatch):
    for name in CLEAN:
        monkeypatch.delenv(name, raising=False)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_FILE], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("0\n", "") and list(tmp_path.iterdir()) == []


INHERITED = """
import os, tarn, warnings
from numba import cuda
warnings.simplefilter("ignore")  # Python 3.12 warns of a fork beside threads
array, buffer = cuda.device_array(100), tarn.DeviceBuffer(size=200)
child = os.fork()
if child == 0:
    raise SystemExit(0)
os.waitpid(child, 0)
"""


def test_a_forked_child_has_no_rows_for_blocks_of_its_parent(tmp_path):
    program, path = tmp_path / "program.py", tmp_path / "log"
    program.write_text(INHERITED)
    done = tarn_tool("run", "--driver", "sim", "--log", path, program, **CLEAN)
    assert (done.returncode, done.stderr) == (0, "")
    for log in tmp_path.glob("log*"):
        done = tarn_tool("log", "--check", log)
        assert done.returncode == 0, done.stdout + done.stderr
