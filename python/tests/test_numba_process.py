"""tarn.numba in processes of their own: registration, environment, exit."""

import pathlib
import shutil

import numba_support
import pytest
from cli_tool import tarn_tool
from numba_support import fork, fork_code, rows, run, run_code

pytest.importorskip("numba")

import tarn

ON_SIM = tarn.driver_info().is_simulator
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "numba"

ARRAY = """
import numpy, tarn
from numba import cuda
array = cuda.to_device(numpy.zeros(10))
del array
"""


# --- registration -----------------------------------------------------------------------


def test_importing_the_module_imports_no_numba_and_opens_no_driver():
    code = "import sys, tarn.numba; print('numba' in sys.modules)"
    assert run_code(code, TARN_DRIVER="/no/such/driver") == "False"


def test_registering_makes_no_driver_call_and_a_driver_that_is_missing_is_told_at_first_use():
    code = """
import tarn.numba
from numba import cuda
tarn.numba.use_tarn_for_numba()
print(tarn.numba.TarnNumbaManager(context=None).interface_version)
try:
    cuda.device_array(1)
except tarn.NoDriverError as error:
    print(error)
"""
    env = {**numba_support.environment(), "TARN_DRIVER": "/no/such/driver"}
    words = run_code(code, **env).splitlines()
    assert words[0] == "1" and "/no/such/driver" in words[1]


def test_importing_tarn_imports_no_numba_before_or_after_numba_looks_for_it():
    code = """
import sys, tarn
assert "tarn.numba" not in sys.modules
print(hasattr(tarn, "_numba_memory_manager"), hasattr(tarn, "_no_such_name"))
print("numba" in sys.modules, tarn._numba_memory_manager is tarn.numba._numba_memory_manager)
"""
    assert run_code(code, TARN_DRIVER="/no/such/driver") == "True False\nFalse True"


@pytest.mark.parametrize("module", ["tarn", "tarn.numba"])
def test_the_environment_registers_too(module):
    code = ARRAY + "print(tarn.csv_log())"
    log = rows(run_code(code, NUMBA_CUDA_MEMORY_MANAGER=module))
    assert [(row["Event Type"], row["Location"]) for row in log] == [
        ("Alloc", "<string>:4"),
        ("Free", "<string>:5"),
    ]


def test_a_call_that_comes_too_late_is_an_error_in_words():
    code = """
from numba import cuda
import tarn.numba
array = cuda.device_array(1)
try:
    tarn.numba.use_tarn_for_numba()
except RuntimeError as error:
    print(error)
"""
    words = fork_code(code)
    assert "too late: Numba has a context on device 0" in words
    assert "NumbaCUDAMemoryManager" in words
    assert "NUMBA_CUDA_MEMORY_MANAGER=tarn.numba" in words


def test_a_call_after_numba_has_listed_the_devices_is_not_too_late():
    code = "from numba import cuda\nprint(len(cuda.gpus) > 0)\n"
    assert fork_code(code + "import tarn; tarn.use_tarn_for_numba()") == "True"


@pytest.mark.parametrize("module", ["tarn", "tarn.numba"])
def test_a_late_call_of_what_the_environment_set_is_no_error(module):
    code = ARRAY + "import tarn.numba; tarn.numba.use_tarn_for_numba(); print('fine')"
    assert run_code(code, NUMBA_CUDA_MEMORY_MANAGER=module) == "fine"


OTHER = """
from numba import cuda
class Other(cuda.HostOnlyCUDAMemoryManager):
    interface_version = 1
    def memalloc(self, size): ...
    def initialize(self): ...
    def get_ipc_handle(self, memory): ...
    def get_memory_info(self): ...
cuda.set_memory_manager(Other)
"""


def test_another_manager_is_not_replaced():
    code = (
        OTHER
        + """
import tarn.numba
try:
    tarn.numba.use_tarn_for_numba()
except RuntimeError as error:
    print(error)
"""
    )
    words = fork_code(code)
    assert "another memory manager was set before: __main__.Other" in words


def test_a_manager_that_the_environment_named_as_well_is_warned_of():
    code = "import tarn.numba; tarn.numba.use_tarn_for_numba()"
    done = run(["-c", code], NUMBA_CUDA_MEMORY_MANAGER="rmm.allocators.numba")
    assert done.returncode == 0
    assert "NUMBA_CUDA_MEMORY_MANAGER=rmm.allocators.numba is ignored" in done.stderr
    for ours in ("tarn", "tarn.numba", "default"):
        assert run_code(code, NUMBA_CUDA_MEMORY_MANAGER=ours) == ""


def test_on_numbas_simulator_a_program_is_warned_and_goes_on():
    code = """
import tarn.numba, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    tarn.numba.use_tarn_for_numba(resource="pool", mode="single-stream")
    tarn.use_tarn_for_numba()
assert [w.category for w in caught] == [UserWarning] * 2
assert caught[0].filename == "<string>", caught[0].filename
print(caught[0].message)
import numpy as np
from numba import cuda
print(cuda.to_device(np.arange(5)).copy_to_host().sum())
try:
    tarn.numba.manager_class()
except RuntimeError as error:
    print(error)
"""
    words = run_code(code, NUMBA_ENABLE_CUDASIM="1", TARN_DRIVER="/no/such/driver").splitlines()
    assert "NUMBA_ENABLE_CUDASIM is set" in words[0] and "Tarn allocates no memory" in words[0]
    assert words[1] == "10" and "NUMBA_ENABLE_CUDASIM is set" in words[2]


@pytest.mark.parametrize("missing", ["numba", "numba.cuda"])
def test_without_numba_the_package_that_is_missing_is_named(missing):
    """As if it were not installed; tests/install/test_bare.py has a Python without it."""
    code = f"""
import sys
if {missing!r} == "numba.cuda":
    import numba
    sys.modules.pop("numba.cuda", None)
    vars(numba).pop("cuda", None)
sys.modules[{missing!r}] = sys.modules["numba_cuda_mlir"] = None
import tarn
try:
    tarn.use_tarn_for_numba()
except ModuleNotFoundError as error:
    print(error.name, error)
"""
    words = run_code(code)
    assert words.startswith("numba_cuda tarn.numba: this Python has no Numba with CUDA")
    assert "install numba-cuda (pip install numba-cuda)" in words


def test_a_numba_that_is_broken_says_so_itself():
    code = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "llvmlite":
            raise ImportError("llvmlite is broken", name="llvmlite")
sys.meta_path.insert(0, Broken())
import tarn
try:
    tarn.use_tarn_for_numba()
except ImportError as error:
    print(error)
"""
    assert run_code(code) == "llvmlite is broken"


@pytest.mark.skipif(not ON_SIM, reason="needs two drivers")
def test_another_driver_than_tarns_is_told_at_first_use(tmp_path):
    info = tarn.driver_info()
    for name in ("libcuda.so.1", "libcuda.so"):
        shutil.copy(pathlib.Path(info.path).with_name(name), tmp_path / name)
    code = """
import tarn
from numba import cuda
for _ in range(2):
    try:
        cuda.device_array(1)
    except tarn.TarnError as error:
        print(error)
"""
    changes = {"LD_LIBRARY_PATH": str(tmp_path), "NUMBA_CUDA_MEMORY_MANAGER": "tarn.numba"}
    words = run_code(code, **changes)
    assert words.count(str(tmp_path)) == 2, words


# --- resources --------------------------------------------------------------------------

RESOURCE = ARRAY + "print(type(tarn.mr.get_current_device_resource()).__name__)"


@pytest.mark.parametrize(
    "name, expected",
    [
        ("cuda", "CudaMemoryResource"),
        ("async", "CudaAsyncMemoryResource"),
        ("async-exportable", "CudaAsyncMemoryResource"),
        ("managed", "ManagedMemoryResource"),
        ("pinned", "PinnedHostMemoryResource"),
        ("pool", "PoolMemoryResource"),
        ("cuda-pool", "PoolMemoryResource"),
        ("slab", "FixedSizeMemoryResource"),
        ("binning", "BinningMemoryResource"),
    ],
)
def test_the_environment_names_the_resource(name, expected):
    env = {"NUMBA_CUDA_MEMORY_MANAGER": "tarn.numba", "TARN_RESOURCE": name}
    assert fork_code(RESOURCE, **env) == expected
    code = f"import tarn.numba; tarn.numba.use_tarn_for_numba(resource={name!r})"
    assert fork_code(code + RESOURCE) == expected


def test_the_environment_has_options_of_the_pool():
    code = """
import tarn
tarn.use(frameworks="numba")
from numba import cuda
cuda.device_array(1000)
pool = tarn.mr.get_current_device_resource()
print(type(pool.upstream_mr).__name__, pool.pool_size())
try:
    pool.allocate(9 << 20)
except MemoryError as error:
    print(error)
"""
    words = fork_code(code, TARN_RESOURCE="cuda-pool:maximum_pool_size=8MiB,initial_pool_size=4MiB")
    assert words.startswith("CudaMemoryResource 4194304\npool: cannot allocate 9437184 bytes")
    assert "of 8388608 reserved" in words


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda:policy=tight", "only pool, cuda-pool, exportable take options, not cuda"),
        ("pool:", "'' is no option; the options are initial_pool_size=…, maximum_pool_size=…"),
        ("pool:unknown=tight", "'unknown=tight' is no option"),
        ("pool:policy=", "'policy=' is no option"),
        ("pool:policy=tight,policy=tight", "'policy=tight' is no option"),
        ("pool:policy=loose", "policy has to be 'default' or 'tight', not 'loose'"),
        ("pool:growth=many", "many"),
    ],
)
def test_wrong_options_of_the_environment_are_named(name, message):
    code = f"""
from tarn import _resources
try:
    _resources._class_of({name!r})(device=0)
except ValueError as error:
    print(error)
"""
    assert message in fork_code(code)


def test_a_resource_of_the_program_is_left_in_charge():
    code = """
import tarn.numba
tarn.numba.use_tarn_for_numba(resource=tarn.mr.ManagedMemoryResource())
"""
    assert fork_code(code + RESOURCE, TARN_RESOURCE="async") == "ManagedMemoryResource"


def test_the_default_is_left_in_charge_where_the_program_set_it():
    code = """
import tarn.numba
tarn.mr.set_current_device_resource(tarn.mr.CudaMemoryResource())
tarn.numba.use_tarn_for_numba()
"""
    assert fork_code(code + RESOURCE, TARN_RESOURCE="async") == "CudaMemoryResource"


def test_a_name_may_be_given_again_when_devices_are_in_use():
    code = """
import tarn.numba
from numba import cuda
names = []
for name in ("cuda", "async", "managed", "async"):
    tarn.numba.use_tarn_for_numba(resource=name)
    array = cuda.device_array(10)
    names.append(type(tarn.mr.get_current_device_resource()).__name__)
for wrong, error in (("goldmine", ValueError), (7, TypeError)):
    try:
        tarn.numba.use_tarn_for_numba(resource=wrong)
    except error as refusal:
        assert repr(wrong) in str(refusal), refusal
    else:
        raise SystemExit(f"{wrong} is taken")
names.append(type(tarn.mr.get_current_device_resource()).__name__)
print(*names)
"""
    assert fork_code(code) == (
        "CudaMemoryResource CudaAsyncMemoryResource ManagedMemoryResource "
        "CudaAsyncMemoryResource CudaAsyncMemoryResource"
    )


DEFAULT = """
import tarn, tarn.numba
from numba import cuda
def upstream():
    pool = tarn.mr.get_current_device_resource()
    return type(pool).__name__, type(getattr(pool, "upstream_mr", None)).__name__
START
cuda.device_array(1)
print(*upstream())
"""


@pytest.mark.parametrize(
    "start, wanted",
    [
        ("tarn.use_tarn_for_numba()", "PoolMemoryResource CudaMemoryResource"),
        ("tarn.use_tarn_for_numba(resource='cuda')", "CudaMemoryResource NoneType"),
        ("tarn.mr.set_current_device_resource(tarn.mr.CudaMemoryResource())\n"
         "tarn.use_tarn_for_numba()", "CudaMemoryResource NoneType"),
        ("tarn.use_tarn_for_numba()\n"
         "with tarn.numba.using_resource('async'): cuda.device_array(1)",
         "PoolMemoryResource CudaMemoryResource"),
    ],
)  # fmt: skip
def test_a_pool_over_the_drivers_memory_serves_unless_something_else_was_asked_for(start, wanted):
    assert fork_code(DEFAULT.replace("START", start)) == wanted


def test_without_tarns_manager_a_block_leaves_the_default_alone():
    code = """
import tarn.numba
with tarn.numba.using_resource("async"):
    pass
print(type(tarn.mr.get_current_device_resource()).__name__)
"""
    assert fork_code(code) == "CudaMemoryResource"


def test_a_resource_that_there_is_not_is_told_at_first_use():
    code = """
from numba import cuda
for _ in range(2):
    try:
        cuda.device_array(1)
    except ValueError as error:
        print(error)
"""
    env = {"NUMBA_CUDA_MEMORY_MANAGER": "tarn.numba", "TARN_RESOURCE": "goldmine"}
    words = fork_code(code, **env)
    assert words.count("unknown resource 'goldmine'; the names are cuda, async") == 2


# --- several devices, closing -----------------------------------------------------------


@pytest.mark.skipif(not numba_support.CAN_HAVE_TWO_DEVICES, reason="needs two devices")
def test_each_device_has_its_manager_and_its_resource():
    code = """
import numpy, tarn.numba
from numba import cuda
tarn.numba.use_tarn_for_numba(resource="async")
arrays = []
for number in (1, 0):
    with cuda.gpus[number]:
        arrays.append(cuda.to_device(numpy.arange(number + 5)))
        assert cuda.current_context().memory_manager._manager.device == number
        assert tarn.mr.get_per_device_resource(number).device == number
with cuda.gpus[1]:
    assert arrays[0].copy_to_host().tolist() == [0, 1, 2, 3, 4, 5]
with cuda.gpus[1]:
    cuda.current_context().reset()
with cuda.gpus[0]:
    assert arrays[1].copy_to_host().tolist() == [0, 1, 2, 3, 4]
arrays.clear()
print(tarn.csv_log())
"""
    log = rows(fork_code(code, TARN_SIM="devices=2"))
    assert [(row["Event Type"], row["Device ID"]) for row in log] == [
        ("Alloc", "1"),
        ("Alloc", "0"),
        ("Free", "1"),
        ("Free", "0"),
    ]


CLOSE = """
import numpy, tarn.numba
from numba import cuda
tarn.numba.use_tarn_for_numba(resource=RESOURCE)
for turn in range(3):
    array, mapped = cuda.to_device(numpy.arange(100)), cuda.mapped_array(10)
    pinned = cuda.pinned_array(100)
    pinned[:] = array.copy_to_host()
    assert pinned[99] == 99
    cuda.close()
    del array, mapped, pinned
print(tarn._tarn.log_counts()[2])
"""


@pytest.mark.parametrize("name", ["cuda", "pool", "cuda-pool", "async"])
def test_cuda_can_be_closed_and_used_again(name):
    """A pool ends with its context: one that was selected by name is created again."""
    assert fork_code(CLOSE.replace("RESOURCE", repr(name))) == "0"


def test_after_a_close_the_context_outlives_another_librarys_release():
    code = """
import tarn
from cuda.bindings import driver
from numba import cuda
tarn.use_tarn_for_numba(resource="cuda")
for turn in range(3):
    driver.cuDevicePrimaryCtxRetain(0)
    array = cuda.to_device([turn])
    driver.cuDevicePrimaryCtxRelease(0)
    print(array.copy_to_host()[0])
    del array
    cuda.close()
"""
    assert fork_code(code).split() == ["0", "1", "2"]


def test_a_named_resource_serves_again_after_a_reset():
    code = """
import tarn
from numba import cuda
tarn.use_tarn_for_numba(resource="pool")
cuda.current_context().reset()
cuda.device_array(1)
print(type(tarn.mr.get_current_device_resource()).__name__)
"""
    assert fork_code(code) == "PoolMemoryResource"


@pytest.mark.skipif(not numba_support.CAN_HAVE_TWO_DEVICES, reason="needs two devices")
def test_threads_use_their_own_devices_at_the_same_time():
    code = """
import threading, numpy, tarn.numba
from numba import cuda
tarn.numba.use_tarn_for_numba(resource="pool")
list(cuda.gpus)  # Numba makes that list in two threads at once, and one of them fails
wrong = []
def work(number, seed):
    with cuda.gpus[number]:
        for i in range(1, 60):
            host = numpy.full(i * 50, seed * i)
            array, pinned = cuda.to_device(host), cuda.pinned_array(i)
            if not (array.copy_to_host() == host).all():
                wrong.append((number, i))
            if tarn.mr.get_per_device_resource(number).device != number:
                wrong.append(number)
threads = [threading.Thread(target=work, args=(i % 2, i)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
log = tarn.csv_log().splitlines()[1:]
print(wrong, sorted({row.split(",")[1] for row in log}), tarn._tarn.log_counts()[2])
"""
    assert fork_code(code, TARN_SIM="devices=2") == "[] ['0', '1'] 0"


# --- the log of a process ---------------------------------------------------------------


def test_what_is_freed_at_exit_says_so_and_is_in_the_file(tmp_path):
    code = """
import numpy, tarn.numba
from numba import cuda
tarn.numba.use_tarn_for_numba()
kept = cuda.to_device(numpy.zeros(10)), cuda.pinned_array(10)
mapped, managed = cuda.mapped_array(10), cuda.managed_array(10)
"""
    fork_code(code, TARN_LOG=str(tmp_path / "log.csv"))
    log = rows((tmp_path / "log.csv").read_text())
    assert len(log) == 8 and log[-1]["Current Allocs"] == "0"
    assert [row["Location"] for row in log] == ["<string>:5"] * 2 + ["<string>:6"] * 2 + [
        "<exit>"
    ] * 4


CHILDREN = """
import multiprocessing, numpy
from numba import cuda

def work(count):
    return cuda.to_device(numpy.arange(count)).copy_to_host().sum()

if __name__ == "__main__":
    if METHOD == "spawn":
        work(7)
    with multiprocessing.get_context(METHOD).Pool(2) as pool:
        assert pool.map(work, [10, 20, 30]) == [45, 190, 435]
        pool.close()
        pool.join()
"""


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_children_write_files_of_their_own(tmp_path, method):
    program = tmp_path / "program.py"
    program.write_text(CHILDREN.replace("METHOD", repr(method)))
    path = tmp_path / "log.csv"
    env = {"NUMBA_CUDA_MEMORY_MANAGER": "tarn.numba", "TARN_LOG": str(path)}
    if method == "fork":
        env["TARN_LOG_PID"] = "1"  # no process
    done = run([str(program)], **env)
    assert done.returncode == 0, done.stderr
    assert path.exists() == (method == "spawn")
    if method == "spawn":
        assert {row["Size (bytes)"] for row in rows(path.read_text())} == {"56"}
    found = [rows(file.read_text()) for file in tmp_path.glob("log.csv.*")]
    events = [row["Event Type"] for log in found for row in log]
    assert events.count("Alloc") == events.count("Free") == 3


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_that_a_pool_ends_with_a_signal_leave_whole_logs(tmp_path, method):
    """No forked process writes the file itself, though it may be the first to log."""
    program = tmp_path / "program.py"
    code = CHILDREN.replace("METHOD", repr(method)).replace("work(7)", "pass")
    program.write_text("".join(code.split("        pool.close()\n        pool.join()\n")))
    path = tmp_path / "log.csv"
    env = {"NUMBA_CUDA_MEMORY_MANAGER": "tarn.numba", "TARN_LOG": str(path)}
    done = run([str(program)], **env)
    assert done.returncode == 0, done.stderr
    assert not path.exists()
    found = [rows(file.read_text()) for file in tmp_path.glob("log.csv.*")]
    events = [row["Event Type"] for log in found for row in log]
    assert events.count("Alloc") == events.count("Free") == 3


def test_a_log_on_a_full_disk_is_told_at_first_use():
    code = """
import tarn
from numba import cuda
try:
    cuda.device_array(1)
except tarn.TarnError as error:
    print(error)
"""
    env = {"NUMBA_CUDA_MEMORY_MANAGER": "tarn.numba", "TARN_LOG": "/dev/full"}
    said = fork_code(code, **env, TARN_LOG_FORMAT="csv")
    assert "cannot write /dev/full: No space left" in said


def test_a_log_that_could_not_be_written_to_its_end_is_one_warning(tmp_path):
    """A limit on the size of files replaces a full disk."""
    code = """
import resource, signal
from numba import cuda
kept = cuda.device_array(1)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for _ in range(50):
    cuda.device_array(1)
"""
    path = tmp_path / "log.csv"
    env = {"NUMBA_CUDA_MEMORY_MANAGER": "tarn.numba", "TARN_LOG": str(path)}
    done = fork(code, **env)
    assert done.returncode == 0
    assert f"tarn: warning: trace: cannot write {path}: File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert path.read_text().endswith("\n# incomplete: File too large\n")


def test_a_log_that_cannot_be_written_is_told_at_first_use():
    code = """
import tarn
from numba import cuda
try:
    cuda.device_array(1)
except tarn.TarnError as error:
    print(error)
"""
    env = {"NUMBA_CUDA_MEMORY_MANAGER": "tarn.numba", "TARN_LOG": "/no/such/folder/log"}
    assert "/no/such/folder/log" in fork_code(code, **env)


@pytest.mark.parametrize("call", ["use_tarn_for_numba(logging=False)", "use()"])
def test_nothing_is_logged_where_nobody_wants_it(call):
    code = f"import tarn; tarn.{call}"
    assert rows(fork_code(code + ARRAY + "print(tarn.csv_log())")) == []


# --- programs ---------------------------------------------------------------------------


def test_the_program_of_nbep_7_prints_its_log():
    done = run([str(EXAMPLES / "nbep7.py")])
    assert done.returncode == 0, done.stderr
    one, two = rows(done.stdout.strip())
    expected = {"Size (bytes)": "80", "Stream": "none", "Device ID": "0"}
    for row, event, live in ((one, "Alloc", "1"), (two, "Free", "0")):
        found = expected | {"Event Type": event, "Current Allocs": live}
        assert found.items() <= row.items()
    assert one["Address"] == two["Address"] and int(one["Address"], 16) > 0
    program = (EXAMPLES / "nbep7.py").read_text().splitlines()
    lines = [program.index(line) + 1 for line in ("d_a = cuda.to_device(a)", "del d_a")]
    assert [row["Location"] for row in (one, two)] == [
        f"{EXAMPLES / 'nbep7.py'}:{line}" for line in lines
    ]


def test_a_few_hundred_arrays_on_several_streams_leave_a_whole_log(tmp_path):
    path = tmp_path / "log.csv"
    env = {"NUMBA_CUDA_MEMORY_MANAGER": "tarn.numba", "TARN_LOG": str(path)}
    done = run([str(EXAMPLES / "arrays.py")], **env)
    assert done.returncode == 0 and "all results are right" in done.stdout, done.stderr
    log = rows(path.read_text())
    events = [row["Event Type"] for row in log]
    assert events.count("Alloc") == events.count("Free") > 200
    assert log[-1]["Current Allocs"] == "0"


# --- tarn run ---------------------------------------------------------------------------


def under_run(*arguments, **changes):
    options = ["--log", changes.pop("TARN_LOG")] if "TARN_LOG" in changes else []
    return tarn_tool("run", *options, *arguments, **numba_support.environment(**changes))


@pytest.fixture
def program(tmp_path):
    def write(code, name="program.py"):
        path = tmp_path / name
        path.write_text(code)
        return path

    return write


def test_a_program_sees_what_it_sees_under_python(program):
    (path := program("VALUE = 5", "neighbour.py"))
    code = """
import sys, pickle, neighbour
class Thing: pass
print(sys.argv[1:], __name__, __file__, sys.path[0], __spec__, __doc__, __package__)
print(neighbour.VALUE, sys.modules["__main__"].Thing is Thing, sorted(globals()))
print(type(pickle.loads(pickle.dumps(Thing()))) is Thing, __loader__.name)
"""
    path = program(code)
    here, there = under_run(path, "a", "b c"), run([str(path), "a", "b c"])
    assert there.returncode == 0
    assert here.stdout == there.stdout


@pytest.mark.parametrize("how", ["relative", "absolute"])
def test_a_failing_program_fails_as_under_python(program, monkeypatch, how):
    path = program("import sys\ndef f():\n    return 1 / 0\n\nf()\n")
    if how == "relative":
        monkeypatch.chdir(path.parent)
        path = path.name
    here, there = under_run(path), run([str(path)])
    assert here.returncode == there.returncode == 1
    assert here.stderr.startswith(there.stderr)


@pytest.mark.parametrize("code", ["sys.exit(7)", "sys.exit('no')", "sys.exit()", "x ="])
def test_exit_codes_are_the_programs(program, code):
    path = program(f"import sys\n{code}\n")
    here, there = under_run(path), run([str(path)])
    assert here.returncode == there.returncode
    assert here.stderr.startswith(there.stderr)


def test_it_says_nothing_where_memory_came_through(program):
    done = under_run(program(ARRAY))
    assert (done.returncode, done.stderr) == (0, "")


def test_it_says_nothing_where_numba_is_served_without_the_variable(program):
    done = under_run(program("import os; del os.environ['NUMBA_CUDA_MEMORY_MANAGER']" + ARRAY))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "code, changes, reason",
    [
        ("print(1)", {}, "the program imported no framework that Tarn serves"),
        ("import numba", {}, "the program imported no framework that Tarn serves"),
        ("from numba import cuda", {}, "Numba created no CUDA context"),
        ("from numba import cuda; cuda.current_context()", {}, "requested no memory from Numba"),
        (OTHER, {}, "the program set another memory manager: __main__.Other"),
        (
            "import os; del os.environ['NUMBA_CUDA_MEMORY_MANAGER']; del os.environ['TARN_USE']\n"
            "import sys; sys.meta_path[:] = [x for x in sys.meta_path if 'tarn' not in repr(x)]"
            + ARRAY,
            {},
            "NUMBA_CUDA_MEMORY_MANAGER was changed",
        ),
        (
            "import os; os.environ['NUMBA_ENABLE_CUDASIM'] = '1'; from numba import cuda",
            {},
            "NUMBA_ENABLE_CUDASIM is set",
        ),
    ],
)
def test_it_says_why_nothing_came(program, code, changes, reason):
    done = under_run(program(code), **changes)
    assert done.returncode == 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("tarn run: Tarn allocated no memory: ") and reason in last


def test_it_says_why_a_program_that_hides_the_error_has_no_rows(program):
    code = """
from numba import cuda
try:
    cuda.device_array(1)
except Exception:
    pass
"""
    done = under_run(program(code), TARN_RESOURCE="goldmine")
    assert "Tarn allocated no memory: tarn: unknown resource" in done.stderr


def test_it_names_the_logs_of_children(program, tmp_path):
    path = program(CHILDREN.replace("METHOD", "'fork'"))
    log = str(tmp_path / "log.csv")
    done = under_run(path, TARN_LOG=log)
    assert done.returncode == 0, done.stderr
    assert f"the logs of its child processes are {log}." in done.stderr


def test_a_program_that_is_not_there_is_told(tmp_path):
    done = under_run(tmp_path / "nothing.py")
    assert done.returncode == 1 and "cannot find the program" in done.stderr


@pytest.mark.skipif(not ON_SIM, reason="others may use the card")
def test_rows_of_a_pool_say_what_is_left_after_each_block():
    """The device is queried once in a millisecond; between that, blocks are counted."""
    code = """
import tarn.numba
from numba import cuda
tarn.numba.use_tarn_for_numba(resource="pool")
context = cuda.current_context()
for _ in range(300):
    first, second = context.memalloc(80), context.memalloc(1 << 16)
    del first, second
print(tarn.csv_log())
"""
    log = rows(run_code(code))[-1000:]
    assert len(log) == 1000
    free = [int(row["Free Memory"]) for row in log]
    signs, taken = {"Alloc": -1, "Free": 1}, {"80": 512, "65536": 1 << 16}
    for before, after, row in zip(free, free[1:], log[1:]):
        assert after - before == signs[row["Event Type"]] * taken[row["Size (bytes)"]]


@pytest.mark.parametrize("names", [{}, {"NUMBA_CUDA_MEMORY_MANAGER": "tarn.numba"}])
def test_use_keeps_the_settings_of_an_earlier_call(names):
    code = """
import tarn
from numba import cuda
tarn.use_tarn_for_numba(mode="single-stream", logging=True)
print(tarn.use(frameworks="numba"))
cuda.device_array(1000)
print(tarn.csv_log().count("\\nAlloc"), tarn.numba._Settings.single_stream)
"""
    assert fork_code(code, **names).splitlines() == ["{'numba': 'active'}", "1 True"]


def test_use_configures_numba_cuda_mlir_without_numba():
    """Modules replace numba_cuda_mlir here; tests/install/test_numba_versions.py has the real one."""
    code = """
import sys, types

def module(name, **members):
    made = sys.modules[name] = types.ModuleType(name)
    vars(made).update(members)
    return made

class Manager:
    __module__ = "numba_cuda_mlir.numba_cuda.cudadrv.driver"

names = {"BaseCUDAMemoryManager": Manager, "HostOnlyCUDAMemoryManager": Manager,
         "set_memory_manager": lambda manager: setattr(driver, "_memory_manager", manager)}
devices = types.SimpleNamespace(devices={})
driver = module(Manager.__module__, driver=devices, _memory_manager=None)
module("numba_cuda_mlir.numba_cuda", **names)
module("numba_cuda_mlir.cuda", **names)
import tarn
print(tarn.use(frameworks=["numba", "numba_cuda_mlir"]), "numba" in sys.modules)
print(driver._memory_manager is tarn.numba.manager_class(sys.modules["numba_cuda_mlir.cuda"]))
"""
    assert run_code(code).splitlines() == [
        "{'numba': 'pending', 'numba_cuda_mlir': 'active'} False", "True",
    ]  # fmt: skip
