"""The command `tarn`: its verbs, its errors, verbs from the PATH, `tarn info`."""

import json
import os
import subprocess

from cli_tool import RMM, TOOL, refused, tarn_tool


def test_lists_its_verbs():
    for args in [], ["--help"], ["-h"], ["help"]:
        done = tarn_tool(*args)
        assert done.returncode == 0
        for verb in "info", "log", "plan", "replay", "report", "run", "help":
            assert f"\n  {verb} " in done.stdout


def test_helps_with_each_verb():
    for verb in "info", "log", "plan", "replay", "report", "run", "help":
        asked, told = tarn_tool(verb, "--help"), tarn_tool("help", verb)
        assert asked.returncode == told.returncode == 0
        assert asked.stdout == told.stdout
        assert told.stdout.startswith(f"usage: tarn {verb}")
        assert asked.stderr == told.stderr == ""


def test_tells_its_version():
    assert tarn_tool("--version").stdout.startswith("tarn 0.")


def test_refuses_wrong_command_lines_with_the_usage():
    for args, says in [
        (["--nothing"], "unknown option --nothing"),
        (["log"], "tarn log: exactly one log is required"),
        (["log", "a", "b"], "tarn log: exactly one log is required"),
        (["log", "--nothing", "a"], "tarn log: unknown option --nothing"),
        (["log", "-xz", "a"], "tarn log: unknown option -x"),
        (["replay", "a", "--resource"], "tarn replay: --resource requires a value"),
        (["replay", "a", "--resource", "ram"], "tarn replay: unknown resource ram"),
        (["info", "a"], "tarn info: unexpected argument a"),
        (["run"], "tarn run: a program is required"),
        (["run", "--resource", "host", "a"], "tarn run: unknown resource host"),
        (["help", "log", "run"], "tarn help: more than one verb"),
    ]:
        done = refused(2, says, *args)
        assert "\nusage: tarn " in done.stderr


def test_unknown_verb_is_refused_with_the_list():
    done = tarn_tool("bogus\x1b[31m")
    assert done.returncode == 1
    assert "unknown verb bogus\\x1b[31m" in done.stderr
    assert "  replay" in done.stderr
    assert tarn_tool("").returncode == 1


def test_closed_stdout_is_a_failure_and_no_other_file_takes_its_place(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(RMM)
    for line in ["info", "info --json", f"log '{log}'", f"replay '{log}'"]:
        done = subprocess.run(
            f"'{TOOL}' {line} >&-",
            shell=True,
            env={**os.environ, "TARN_DRIVER": "sim"},
            stderr=subprocess.PIPE,
        )
        assert done.returncode == 1, line
        assert b"cannot write the output: Bad file descriptor" in done.stderr


def script(folder, name, text="#!/bin/sh\necho $0 $*; exit 7\n", mode=0o755):
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def test_runs_verbs_from_the_path(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    script(tmp_path, "tarn-no-program", mode=0o644)
    path = script(other, "tarn-hello")
    search = f"{tmp_path}:{other}:/bin:/usr/bin"
    done = tarn_tool("hello", "--json", "b c", PATH=search)
    assert (done.returncode, done.stdout) == (7, f"{path} --json b c\n")
    assert tarn_tool("help", "hello", PATH=search).stdout == f"{path} --help\n"
    assert "  hello\n" in tarn_tool(PATH=search).stdout
    assert tarn_tool("no-program", PATH=search).returncode == 1


def test_runs_no_verb_from_where_it_should_not(tmp_path):
    script(tmp_path, "tarn-hello")
    (tmp_path / "tarn-sub").mkdir()
    script(tmp_path / "tarn-sub", "hello")
    for search in "", ":/bin", "/bin:", "/bin::/usr/bin":
        assert tarn_tool("hello", cwd=tmp_path, PATH=search).returncode == 1
    assert tarn_tool("sub/hello", PATH=str(tmp_path)).returncode == 1
    assert tarn_tool("hello", PATH=None, cwd=tmp_path).returncode == 1
    assert tarn_tool("-hello", PATH=str(tmp_path)).returncode == 2


def test_says_when_its_output_cannot_be_written():
    with open("/dev/full", "w") as full:
        done = subprocess.run([TOOL, "--version"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert b"No space left" in done.stderr


def test_info_tells_driver_devices_and_resources():
    done = tarn_tool("info", "--driver", "sim", TARN_SIM="devices=2,memory=1GiB")
    assert done.returncode == 0, done.stderr
    assert "the driver simulator" in done.stdout
    assert "device 0:" in done.stdout and "device 1:" in done.stdout
    told = json.loads(tarn_tool("info", "--json", TARN_DRIVER="sim").stdout)
    assert told["is_simulator"] and told["driver"].endswith("/libcuda.so.1")
    assert told["driver_version"] >= 12000
    resources = told["devices"][0]["resources"]
    names = ["cuda", "async", "managed", "pinned", "pool", "slab", "binning", "host"]
    assert list(resources) == names
    assert all(resource["works"] for resource in resources.values())
    assert (
        resources["cuda"]["deallocate_synchronizes"]
        and not resources["async"]["deallocate_synchronizes"]
    )
    assert resources["async"]["streams"] and not resources["cuda"]["streams"]


def test_info_says_what_does_not_work_whichever_driver_call_fails():
    reasons = []
    for nth in range(1, 120):
        done = tarn_tool("info", "--json", TARN_DRIVER="sim", TARN_SIM=f"fail=nth:{nth}")
        if done.returncode:
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith("tarn info: "), done.stderr
            continue
        for device in json.loads(done.stdout)["devices"]:
            found = device["resources"].values()
            reasons += [one["message"] for one in found if not one["works"]]
    assert any(message.startswith("cuda: ") for message in reasons)
    assert any(message.startswith("pinned: ") for message in reasons)


def test_info_refuses_what_is_no_driver(tmp_path):
    text = tmp_path / "libcuda.so.1"
    text.write_text("no library")
    refused(1, "tarn info: driver: ", "info", "--driver", text)
    refused(1, "tarn info: driver: ", "info", "--driver", "/nowhere/libcuda.so.1")
    refused(1, "is not a CUDA driver", "info", "--driver", "libz.so.1")
    done = tarn_tool("info", "--driver", "sim", TARN_SIM="memory=lots")
    assert (done.returncode, done.stdout) == (1, "")
    assert "tarn info: driver: " in done.stderr
