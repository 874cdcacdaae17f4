"""`tarn run`: the program's environment, and errors before the program starts."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import _tarn_start
import pytest
from cli_tool import TOOL, refused, tarn_tool
from tarn import _frameworks, _resources

NAMES = [
    "LD_LIBRARY_PATH",
    "NUMBA_CUDA_DRIVER",
    "NUMBA_CUDA_MEMORY_MANAGER",
    "TARN_DRIVER",
    "TARN_LOG",
    "TARN_LOG_FORMAT",
    "TARN_LOG_PID",
    "TARN_LOG_RING",
    "TARN_LOG_STACKS",
    "TARN_RESOURCE",
    "TARN_SIM",
    "TARN_USE",
]
SOURCE = Path(__file__).parents[2]
REPORT = "tarn run: Tarn allocated no memory: the program imported no framework that Tarn serves\n"
CLEAN = dict.fromkeys([*NAMES, "NUMBA_ENABLE_CUDASIM"])


def show(*args, **environment):
    """The program's environment, arguments and process id."""
    code = "import os, json, sys;print(json.dumps([dict(os.environ), sys.argv[1:], os.getpid()]))"
    changed = {**CLEAN, **environment}
    done = tarn_tool("run", *args, sys.executable, "-c", code, "a", "--log", "b", **changed)
    assert done.returncode == 0, done.stderr
    found, arguments, process = json.loads(done.stdout)
    assert arguments == ["a", "--log", "b"]
    assert done.stderr.endswith(REPORT)
    return {name: found.get(name) for name in NAMES}, process, done.stderr.removesuffix(REPORT)


def test_sets_the_frameworks_and_nothing_that_was_not_asked_for():
    found, _, said = show()
    assert found.pop("NUMBA_CUDA_MEMORY_MANAGER") == "tarn.numba"
    assert found.pop("TARN_USE") == "all"
    assert set(found.values()) == {None}
    assert said == ""


def test_the_simulators_folder_comes_first():
    for asked in [["--driver", "sim"], {}], [[], {"TARN_DRIVER": "sim"}]:
        found, _, _ = show(*asked[0], **asked[1], LD_LIBRARY_PATH="/a:/b")
        assert found["TARN_DRIVER"] == "sim"
        first, rest = found["LD_LIBRARY_PATH"].split(":", 1)
        assert rest == "/a:/b"
        assert os.path.exists(f"{first}/libcuda.so.1")
        assert os.path.exists(f"{first}/libcuda.so")
    found, _, _ = show("--driver", "sim")
    assert ":" not in found["LD_LIBRARY_PATH"]


def test_a_drivers_folder_comes_first_if_it_is_called_like_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "libcuda.so.1").write_text("")
    (tmp_path / "other.so").write_text("")
    found, _, _ = show("--driver", "libcuda.so.1")
    assert found["TARN_DRIVER"] == f"{tmp_path}/libcuda.so.1"
    assert found["LD_LIBRARY_PATH"] == str(tmp_path)
    found, _, _ = show("--driver", tmp_path / "other.so")
    assert found["TARN_DRIVER"] == f"{tmp_path}/other.so"
    assert found["LD_LIBRARY_PATH"] is None


def test_the_log_is_empty_and_belongs_to_the_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("of yesterday")
    found, process, _ = show("--log", "a.csv", "--resource", "async")
    assert found["TARN_LOG"] == f"{tmp_path}/a.csv"
    assert found["TARN_LOG_PID"] == str(process)
    assert found["TARN_RESOURCE"] == "async"
    assert (tmp_path / "a.csv").read_text() == ""


def test_the_exit_code_is_the_programs():
    for code in 0, 1, 7:
        assert tarn_tool("run", "sh", "-c", f"exit {code}", **CLEAN).returncode == code


def test_says_that_a_program_without_tarn_left_its_log_empty(tmp_path):
    log = tmp_path / "c.tlog"
    for code in 0, 7:
        done = tarn_tool("run", "--log", log, "sh", "-c", f"echo out; exit {code}", **CLEAN)
        assert (done.returncode, done.stdout) == (code, "out\n")
        assert done.stderr == (
            f"tarn run: the log {log} is empty: sh made no allocation through Tarn, "
            "or did not load it\n"
        )


def test_says_nothing_where_a_program_or_its_child_has_a_log(tmp_path):
    for name in "c.tlog", "c.tlog.4711":
        log = tmp_path / "c.tlog"
        done = tarn_tool("run", "--log", log, "sh", "-c", f"echo row > {tmp_path}/{name}", **CLEAN)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_program_that_is_not_there_is_one_line(tmp_path):
    done = tarn_tool("run", "--log", tmp_path / "c.tlog", "no-such-program", **CLEAN)
    assert done.stderr == "tarn run: cannot find the program no-such-program\n"


def test_a_python_says_itself_why_its_log_is_empty(tmp_path):
    done = tarn_tool("run", "--log", tmp_path / "p.tlog", sys.executable, "-c", "pass", **CLEAN)
    assert done.stderr == REPORT


def test_refuses_what_cannot_work(tmp_path):
    old = tmp_path / "old.csv"
    old.write_text("of yesterday")
    keep = ["--log", old]
    refused(1, "cannot find the program no.py", "run", *keep, "no.py", **CLEAN)
    refused(1, "cannot find the program /no/such", "run", "/no/such", **CLEAN)
    refused(1, "cannot find the program no-such-program", "run", "no-such-program", **CLEAN)
    refused(1, "cannot run /etc/passwd: Permission denied", "run", "/etc/passwd", **CLEAN)
    refused(1, "cannot find the driver /no/libcuda.so.1: No such file", "run", *keep,
            "--driver", "/no/libcuda.so.1", "true", **CLEAN)  # fmt: skip
    refused(1, "cannot find the driver /: Is a directory", "run", "--driver", "/", "true",
            **CLEAN)  # fmt: skip
    refused(1, "cannot write the log /no/a.csv: No such file", "run", "--log", "/no/a.csv",
            "true", **CLEAN)  # fmt: skip
    refused(1, "cannot write the log", "run", "--log", tmp_path, "true", **CLEAN)
    refused(1, "NUMBA_ENABLE_CUDASIM=1", "run", *keep, "true",
            **{**CLEAN, "NUMBA_ENABLE_CUDASIM": "1"})  # fmt: skip
    assert old.read_text() == "of yesterday"


def test_numbas_simulator_switched_off_is_no_reason_to_refuse():
    done = tarn_tool("run", "true", **{**CLEAN, "NUMBA_ENABLE_CUDASIM": "0"})
    assert (done.returncode, done.stderr) == (0, "")


def test_says_that_it_replaces_another_manager():
    found, _, said = show(NUMBA_CUDA_MEMORY_MANAGER="rmm.allocators.numba")
    assert found["NUMBA_CUDA_MEMORY_MANAGER"] == "tarn.numba"
    assert said == (
        "tarn run: NUMBA_CUDA_MEMORY_MANAGER=rmm.allocators.numba is replaced by tarn.numba\n"
    )
    for quiet in "default", "tarn", "tarn.numba", "":
        assert show(NUMBA_CUDA_MEMORY_MANAGER=quiet)[2] == ""


def test_python_files_run_with_the_interpreter_beside_the_tool(tmp_path):
    if not (Path(TOOL).parent / "python3").exists():
        pytest.fail("these tests want the tool of an environment: there is no python3 "
                    f"beside {TOOL}")  # fmt: skip
    program = tmp_path / "show.py"  # not executable
    program.write_text(
        "import sys, os\nprint(sys.prefix, __name__, sys.argv[1:], sys.path[0])\nsys.exit(5)\n"
    )
    done = tarn_tool("run", "--driver", "sim", program, "a", "--json", PATH="/nowhere", **CLEAN)
    assert done.returncode == 5, done.stderr
    assert done.stdout == f"{sys.prefix} __main__ ['a', '--json'] {tmp_path}\n"
    assert "tarn run: Tarn allocated no memory" in done.stderr


def test_old_log_stays_where_there_is_no_program_to_run(tmp_path):
    log, plain = tmp_path / "old.csv", tmp_path / "plain"
    plain.write_text("no program\n")
    log.write_text("old\n")
    for program, says in (
        (tmp_path / "none", "cannot find the program"),
        (tmp_path / "none.py", "cannot find the program"),
        (plain, "Permission denied"),
    ):
        done = tarn_tool("run", "--log", log, program)
        assert done.returncode == 1
        assert says in done.stderr
        assert log.read_text() == "old\n"


def test_any_program_of_the_driver_runs_on_the_simulator(tmp_path):
    source, program = Path(__file__).with_name("driver_client.c"), tmp_path / "client"
    subprocess.run(["cc", "-Wall", "-Werror", source, "-o", program, "-ldl"], check=True)
    needed = subprocess.run(["readelf", "-d", program], capture_output=True, text=True).stdout
    assert "NEEDED" in needed and "cuda" not in needed and "tarn" not in needed
    done = tarn_tool("run", "--driver", "sim", program, **CLEAN)
    assert (done.returncode, done.stdout) == (0, "Tarn simulated GPU: there\n"), done.stderr
    assert done.stderr == ""


def test_the_tool_knows_the_frameworks_of_tarn_use():
    listed = done_text("run", "--use", "no-such", "true").partition("frameworks are ")[2]
    names = listed.partition(", or all")[0].split(", ")
    assert names == list(_frameworks._FRAMEWORKS) == list(_tarn_start.FRAMEWORKS)
    for name in names:
        assert show("--use", name)[0]["TARN_USE"] == name
    found, _, _ = show("--use", "cupy,torch")
    assert (found["TARN_USE"], found["NUMBA_CUDA_MEMORY_MANAGER"]) == ("cupy,torch", None)


def test_the_tool_knows_the_resources_of_the_package():
    listed = done_text("run", "--resource", "no-such", "true").partition("resources are ")[2]
    assert listed.splitlines()[0].split(", ") == list(_resources._classes())
    named = "pool:policy=tight,maximum_pool_size=8GiB"
    assert show("--resource", named)[0]["TARN_RESOURCE"] == named


def test_a_log_ends_where_the_program_is_interrupted(tmp_path):
    """Python ends by the signal then, and calls no function of atexit()."""
    code = (
        "import tarn.mr; p = tarn.mr.PoolMemoryResource(); p.allocate(9); raise KeyboardInterrupt"
    )
    log = tmp_path / "a.tlog"
    done = tarn_tool("run", "--driver", "sim", "--log", log, "-c", code, **CLEAN)
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr
    assert "has no end" not in tarn_tool("log", log, **CLEAN).stdout


def done_text(*args):
    done = tarn_tool(*args, **CLEAN)
    assert done.returncode == 2
    return done.stderr


def test_options_of_the_log_reach_the_program(tmp_path):
    log = tmp_path / "a.csv"
    options = ["--format", "binary", "--stacks", "16", "--ring", "64MiB"]
    found, _, _ = show("--log", log, *options)
    assert (found["TARN_LOG_FORMAT"], found["TARN_LOG_STACKS"]) == ("binary", "16")
    assert found["TARN_LOG_RING"] == "64MiB"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--stacks", "0", "--log", "a"], "--stacks 0 is not a number from 1 to 128"),
        (["--stacks", "129", "--log", "a"], "--stacks 129 is not a number from 1 to 128"),
        (["--stacks", "many", "--log", "a"], "--stacks many is not a number"),
        (["--stacks", "16"], "--stacks requires --log FILE"),
        (["--format", "csv"], "--format requires --log FILE"),
        (["--ring", "1MiB"], "--ring requires --log FILE"),
        (["--stacks", "2", "--log", "a.csv"], "--stacks requires a binary log"),
        (["--ring", "1MiB", "--log", "a", "--format", "csv"], "--ring requires a binary log"),
        (["--format", "xml", "--log", "a"], "unknown format xml; the formats are csv, binary"),
        (["--resource", "pools"], "unknown resource pools; the resources are cuda, async"),
        (["--use", ""], "--use requires the names of frameworks, or all"),
        (["--use", "cupy,,torch"], "unknown framework ;"),
        (["-m"], "-m requires a value"),
        (["-c"], "-c requires a value"),
    ],
)
def test_wrong_options_are_named(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = [] if options[-1] in ("-m", "-c") else ["true"]
    assert message in done_text("run", *options, *program)
    assert not (tmp_path / "a").exists()


# --- the forms of a program ---------------------------------------------------------------

SHOW = "import sys; print(sys.argv, __name__, sys.path[0], sys.exit.__name__)"


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A folder with a file, a module and a package that show what they see."""
    (tmp_path / "show.py").write_text(SHOW + "\nprint(__file__, __spec__ and __spec__.name)\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("")
    (tmp_path / "package/__main__.py").write_text(SHOW)
    (tmp_path / "fails.py").write_text("def f():\n    raise KeyError(1)\nf()\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["show.py", "a", "--log"],
        ["-m", "show", "-c", "b"],
        ["-m", "package", "--", "-x"],
        ["-c", SHOW, "-m", "c"],
        ["-m", "no_such_module"],
        ["fails.py"],
        ["-m", "fails"],
        ["-c", "import fails"],
        ["-c", "x ="],
        ["-c", "import sys; sys.exit(7)"],
        ["-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"],
        ["-c", "import os, signal; os.kill(os.getpid(), signal.SIGINT)"],
    ],
)
def test_a_program_sees_what_python_shows_it(modules, words):
    """Output, traceback, exit code and signal are those of python itself."""
    python = Path(sys.executable).with_name("python3")
    there = subprocess.run([python, *words], capture_output=True, text=True)
    here = tarn_tool("run", *words, **CLEAN)
    assert (here.returncode, here.stdout) == (there.returncode, there.stdout)
    assert here.stderr.removesuffix(REPORT) == there.stderr


def test_a_command_beside_the_tool_comes_before_the_path(tmp_path):
    """The environment need not be active for its scripts to run with its Python."""
    fake = tmp_path / "pytest"
    fake.write_text("#!/bin/sh\necho fake\n")
    fake.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = tarn_tool("run", "pytest", "--version", **{**CLEAN, "PATH": path})
    output = done.stdout + done.stderr
    assert done.returncode == 0 and "pytest" in output, output
    assert "fake" not in done.stdout
    done = tarn_tool("run", "python", "-c", "import sys; print(sys.prefix)", **CLEAN)
    assert done.stdout.strip() == sys.prefix


def test_a_python_that_imports_no_framework_does_not_import_tarn():
    code = "import sys, json; print(any(name.startswith('tarn') for name in sys.modules))"
    done = tarn_tool("run", "-c", code, **CLEAN)
    assert (done.returncode, done.stdout) == (0, "False\n")


def test_a_framework_that_is_named_and_cannot_is_an_error(tmp_path):
    (tmp_path / "warp.py").write_text("class config: version = '0.1'")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import warp"
    done = tarn_tool("run", "--use", "warp", "-c", code, **CLEAN)
    assert done.returncode == 1 and "warp" in done.stderr and "Traceback" in done.stderr
    done = tarn_tool("run", "-c", code, **CLEAN)
    assert done.returncode == 0 and "RuntimeWarning: tarn.use: warp is skipped" in done.stderr


# --- tarn sim -----------------------------------------------------------------------------


def show_sim(*args, **environment):
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    done = tarn_tool("sim", *args, "-c", code, **{**CLEAN, **environment})
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_sim_sets_the_driver_and_no_memory_manager():
    found = show_sim(CUDA_VISIBLE_DEVICES="7", NUMBA_CUDA_DRIVER="/usr/lib/libcuda.so")
    assert found["TARN_DRIVER"] == "sim"
    folder = found["LD_LIBRARY_PATH"].split(":")[0]
    assert found["NUMBA_CUDA_DRIVER"] == f"{folder}/libcuda.so.1"
    assert not {"NUMBA_CUDA_MEMORY_MANAGER", "TARN_USE", "TARN_SIM"} & set(found)
    assert "CUDA_VISIBLE_DEVICES" not in found


def test_sim_puts_its_options_behind_those_of_the_environment():
    assert show_sim("--memory", "1GiB", "--devices", "3")["TARN_SIM"] == "memory=1GiB,devices=3"
    found = show_sim("--devices", "3", "--", TARN_SIM="seed=7,devices=1")
    assert found["TARN_SIM"] == "seed=7,devices=1,devices=3"


def test_sim_takes_every_option_of_the_simulator():
    page = (SOURCE / "docs/sim.md").read_text()
    table = page.partition("| option | value |")[2].partition("\n\n")[0]
    names = re.findall(r"^\| `([a-z-]+)` \|", table, re.M)
    assert {"fail", "launches", "races"} <= set(names)
    words = [word for name in names for word in (f"--{name}", "1")]
    assert show_sim(*words)["TARN_SIM"] == ",".join(f"{name}=1" for name in names)
    shown = tarn_tool("sim", "--help", **CLEAN).stdout
    assert [name for name in names if f"--{name}" not in shown] == []


def test_sim_runs_a_client_of_the_driver(tmp_path):
    source, program = Path(__file__).with_name("driver_client.c"), tmp_path / "client"
    subprocess.run(["cc", "-Wall", "-Werror", source, "-o", program, "-ldl"], check=True)
    done = tarn_tool("sim", "--", program, **CLEAN)
    assert (done.returncode, done.stdout) == (0, "Tarn simulated GPU: there\n"), done.stderr
    code = "import tarn; print(tarn.driver_info().device_count, tarn.device_info(0).total_bytes)"
    done = tarn_tool("sim", "--devices", "3", "--memory", "64MiB", "python", "-c", code, **CLEAN)
    assert (done.returncode, done.stdout) == (0, f"3 {64 << 20}\n"), done.stderr


def test_sim_refuses_what_cannot_work():
    refused(2, "a program is required", "sim", **CLEAN)
    refused(2, "--memory 1GiB,devices=3 is not one value", "sim", "--memory", "1GiB,devices=3",
            "true", **CLEAN)  # fmt: skip
    refused(1, "cannot find the program /no/such", "sim", "/no/such", **CLEAN)


def test_info_without_a_driver_names_tarn_sim():
    done = tarn_tool("info", **{**CLEAN, "TARN_DRIVER": "/no/libcuda.so.1"})
    assert done.returncode == 1 and "    tarn sim -- COMMAND\n" in done.stderr
