"""`tarn run`: the program's environment, and errors before the program starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_tool import TOOL, refused, tarn_tool

NAMES = [
    "LD_LIBRARY_PATH",
    "NUMBA_CUDA_MEMORY_MANAGER",
    "TARN_DRIVER",
    "TARN_LOG",
    "TARN_LOG_PID",
    "TARN_RESOURCE",
]
CLEAN = dict.fromkeys([*NAMES, "NUMBA_ENABLE_CUDASIM"])


def show(*args, **environment):
    """The program's environment, arguments and process id."""
    code = "import os, json, sys;print(json.dumps([dict(os.environ), sys.argv[1:], os.getpid()]))"
    changed = {**CLEAN, **environment}
    done = tarn_tool("run", *args, sys.executable, "-c", code, "a", "--log", "b", **changed)
    assert done.returncode == 0, done.stderr
    found, arguments, process = json.loads(done.stdout)
    assert arguments == ["a", "--log", "b"]
    return {name: found.get(name) for name in NAMES}, process, done.stderr


def test_sets_numbas_manager_and_nothing_that_was_not_asked_for():
    found, _, said = show()
    assert found.pop("NUMBA_CUDA_MEMORY_MANAGER") == "tarn.numba"
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
