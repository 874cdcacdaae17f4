"""tarn.use(): which frameworks it configures, when, and what it says about the others.

The frameworks of most tests are files of a folder, so that any state of an import can be made.
test_frameworks_*.py have the real ones.
"""

import os
import pathlib
import subprocess
import sys

import numba_support
import pytest
import tarn
from tarn import _frameworks

# A framework and the module that configures it, in a folder on sys.path.
FRAMEWORK = """
events = []
import sys, time
print("loading", flush=True)
time.sleep(SLEEP)
held = None
ready = True
"""
CONFIGURES = """
import sys
def _configure():
    module = sys.modules["fake.part"]
    assert module.ready
    if module.held:
        raise BufferError(module.held)
    module.events.append("configured")
"""
BEGIN = """
import sys, threading, warnings
sys.path.insert(0, FOLDER)
import tarn
from tarn import _frameworks
_frameworks._FRAMEWORKS.clear()
_frameworks._FRAMEWORKS["fake"] = _frameworks._Framework("fake.part", "configures")
_frameworks._FRAMEWORKS["absent"] = _frameworks._Framework("absent", "configures")
_frameworks._NAMES.clear()
_frameworks._NAMES.update({"fake.part": "fake", "absent": "absent"})
"""


@pytest.fixture
def run(tmp_path):
    """Run a program to which `fake.part` is a framework; return its lines."""

    def run(code, sleep=0, **changes):
        (tmp_path / "fake").mkdir(exist_ok=True)
        (tmp_path / "fake/__init__.py").write_text("")
        (tmp_path / "fake/part.py").write_text(FRAMEWORK.replace("SLEEP", str(sleep)))
        (tmp_path / "configures.py").write_text(CONFIGURES)
        begin = BEGIN.replace("FOLDER", repr(str(tmp_path)))
        return numba_support.run_code(begin + code, **changes).splitlines()

    return run


# --- when a framework is configured -----------------------------------------------------


def test_a_loaded_framework_is_configured_now_and_once(run):
    code = """
import fake.part
print(tarn.use())
print(tarn.use(), fake.part.events)
"""
    assert run(code) == [
        "loading",
        "{'fake': 'active', 'absent': 'pending'}",
        "{'fake': 'active', 'absent': 'pending'} ['configured']",
    ]


def test_another_one_is_configured_at_its_first_import(run):
    code = """
print(tarn.use(), "fake" in sys.modules)
import fake.part
print(fake.part.events, tarn.use(frameworks="fake"))
"""
    assert run(code) == [
        "{'fake': 'pending', 'absent': 'pending'} False",
        "loading",
        "['configured'] {'fake': 'active'}",
    ]


def test_the_module_sees_its_own_loader(run):
    code = """
tarn.use()
import fake.part, importlib, inspect
print(type(fake.part.__loader__).__name__, type(fake.part.__spec__.loader).__name__)
print(len(inspect.getsource(fake.part)) > 0)
importlib.reload(fake.part)
print(fake.part.events)
"""
    assert run(code) == [
        "loading", "SourceFileLoader SourceFileLoader", "True", "loading", "[]",
    ]  # fmt: skip


def test_a_framework_that_does_not_exist_is_as_missing_as_before(run):
    code = """
tarn.use()
try:
    import absent
except ModuleNotFoundError as error:
    print(error.name)
print(tarn.use()["absent"])
"""
    assert run(code) == ["absent", "pending"]


def test_a_framework_whose_import_fails_can_be_imported_again(run, tmp_path):
    code = """
tarn.use()
import builtins
builtins.missing = None
try:
    import fake.part
except ZeroDivisionError as error:
    print("failed", tarn.use()["fake"])
open(FILE, "w").write("events, held, ready = [], None, True")
import importlib; importlib.invalidate_caches()
import fake.part
print(fake.part.events)
"""
    file = tmp_path / "fake/part.py"
    code = code.replace("FILE", repr(str(file)))
    program = code.replace("import builtins\n", f"open({str(file)!r}, 'w').write('1/0')\n")
    assert run(program.replace("builtins.missing = None\n", "")) == [
        "failed pending", "['configured']",
    ]  # fmt: skip


def test_a_call_while_another_thread_imports_waits_for_the_import(run):
    code = """
import time
thread = threading.Thread(target=__import__, args=("fake.part",))
thread.start()
while "fake.part" not in sys.modules:
    time.sleep(0.01)
print(tarn.use()["fake"], sys.modules["fake.part"].events)
thread.join()
"""
    assert run(code, sleep=0.5) == ["loading", "active ['configured']"]


def test_threads_that_call_and_import_at_once_configure_once(run):
    code = """
calls = [lambda: tarn.use(), lambda: __import__("fake.part")] * 4
threads = [threading.Thread(target=call) for call in calls]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sys.modules["fake.part"].events, tarn.use()["fake"])
print(sum(isinstance(finder, _frameworks._Hook) for finder in sys.meta_path))
"""
    assert run(code, sleep=0.1) == ["loading", "['configured'] active", "1"]


# --- frameworks that cannot be configured -----------------------------------------------


def test_a_framework_that_holds_memory_is_skipped_with_the_reason(run):
    code = """
import fake.part
fake.part.held = "it holds 5 bytes"
print(tarn.use()["fake"])
fake.part.held = None
print(tarn.use()["fake"])
"""
    assert run(code) == ["loading", "skipped: it holds 5 bytes", "active"]


def test_named_explicitly_it_raises_its_own_exception(run):
    code = """
import fake.part
fake.part.held = "it holds 5 bytes"
for frameworks in "fake", ["fake"], ("absent", "fake"):
    try:
        tarn.use(frameworks=frameworks)
    except BufferError as error:
        print(error)
"""
    assert run(code) == ["loading", *["it holds 5 bytes"] * 3]


def test_at_its_import_it_warns_or_raises(run):
    code = """
tarn.use(frameworks=NAMED)
open(FILE, "w").write("events, held, ready = [], 'too old', True")
try:
    with warnings.catch_warnings(record=True) as caught:
        import fake.part
    print([str(warning.message) for warning in caught])
except BufferError as error:
    print("raised", error)
"""
    for named, wanted in (
        ("None", "['tarn.use: fake is skipped: too old']"),
        (
            "'fake'",
            "raised too old",
        ),
    ):
        program = code.replace("FILE", "FILE_").replace("NAMED", named)
        program = "import os\nFILE_ = os.path.join(sys.path[0], 'fake/part.py')\n" + program
        assert run(program) == [wanted]


def test_versions_are_compared_by_number():
    for version in "14.0", "14.2.0", "14.0rc1", "15.0.0a1", "14.0+cu130", "14", "100":
        _frameworks.check_version("Fake", version, "14.0")
    for version in "13.9.9", "9.0", "2.11.0+cu130":
        with pytest.raises(ImportError, match=r"Fake .* too old: version 14\.0 or later"):
            _frameworks.check_version("Fake", version, "14.0")


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"frameworks": "tensorflow"}, ValueError, "unknown framework 'tensorflow'; the names"),
        ({"frameworks": ["cupy", 5]}, ValueError, "unknown framework 5"),
        ({"resource": "lots"}, ValueError, "unknown resource 'lots'"),
        ({"resource": 5}, TypeError, "5 is not a resource of tarn.mr"),
    ],
)
def test_wrong_arguments_change_nothing(arguments, error, words):
    before, path = _frameworks.states(), sys.meta_path[:]
    with pytest.raises(error, match=words):
        tarn.use(**arguments)
    assert (_frameworks.states(), sys.meta_path) == (before, path)


# --- the resource -----------------------------------------------------------------------


def current(code):
    """Return the class of the resource that a framework gets after `code`."""
    return numba_support.run_code(
        "import tarn\nfrom tarn import _resources\n"
        + code
        + "\nprint(type(_resources.current(0)).__name__)"
    )


@pytest.mark.parametrize(
    "code, kind",
    [
        ("tarn.use()", "PoolMemoryResource"),
        ("tarn.use('async')", "CudaAsyncMemoryResource"),
        ("tarn.use(tarn.mr.ManagedMemoryResource())", "ManagedMemoryResource"),
        ("tarn.use(); tarn.use('managed')", "ManagedMemoryResource"),
        (
            "tarn.mr.set_current_device_resource(tarn.mr.CudaMemoryResource()); tarn.use()",
            "CudaMemoryResource",
        ),
        ("tarn.use(); _resources.current(0); tarn.use('slab')", "FixedSizeMemoryResource"),
    ],
)
def test_a_framework_gets_the_resource_of_the_call_the_programs_or_a_pool(code, kind):
    assert current(code) == kind


def test_the_call_opens_no_driver_and_imports_no_framework():
    code = """
import sys, tarn
tarn.use()
tarn.use("async")
import tarn.metrics
print(tarn.metrics.collect()["devices"])
names = {name.partition(".")[0] for name in sys.modules}
print(names & {"numba", "cupy", "torch", "cuda", "warp", "numpy", "dask", "distributed"})
tarn.open_driver("/nowhere")
"""
    done = numba_support.run(["-c", code], TARN_DRIVER="")
    assert done.stdout.splitlines() == ["[]", "set()"]
    assert "/nowhere" in done.stderr  # no other driver was open


# --- files with the names of frameworks -------------------------------------------------

PACKAGE = pathlib.Path(tarn.__file__).parent
OURS = sorted({path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()})
INSTALLED = [
    name for name in ("cupy", "dask", "numba", "rmm", "torch", "warp") if name in OURS
    and any((pathlib.Path(entry) / name / "__init__.py").exists() for entry in sys.path[1:])
]  # fmt: skip


def in_the_folder(arguments):
    """Run Python in the folder of the package."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=PACKAGE, env=numba_support.environment(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_some_files_have_the_names_of_frameworks():
    assert {"numba", "rmm"} <= set(INSTALLED)


@pytest.mark.parametrize("name", INSTALLED)
def test_an_import_in_the_folder_of_the_package_finds_the_framework(name):
    code = f"import {name}, os, sys; print(os.path.dirname({name}.__file__))"
    code += f"; assert sys.modules['{name}'] is {name}; import tarn.{name}"
    done = in_the_folder(["-c", code])
    assert done.returncode == 0, done.stderr
    assert pathlib.Path(done.stdout.strip()) != PACKAGE


@pytest.mark.parametrize("name", INSTALLED)
def test_a_file_of_the_package_can_be_run(name):
    """Each imports the framework, or can."""
    path = PACKAGE / name / "__init__.py" if (PACKAGE / name).is_dir() else PACKAGE / f"{name}.py"
    for arguments in [str(path)], ["-m", f"tarn.{name}"] if path.stem == name else [str(path)]:
        done = in_the_folder(arguments)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_a_program_in_the_folder_of_the_package_finds_the_frameworks(tmp_path):
    folder = tmp_path / "tarn"
    folder.symlink_to(PACKAGE)
    program = "import tarn, numba; print(numba.__file__)"
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); " + program
    assert os.path.join("numba", "__init__.py") in numba_support.run_code(code)
