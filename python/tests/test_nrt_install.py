"""How Tarn's runtime replaces Numba's: in this process and in its children."""

import os
import pathlib
import sys

import pytest
from nrt_process import on_tarn, python

WHOSE = """
import numba.core.runtime._nrt_python as core
print("tarn" if hasattr(core, "tarn_version") else "numba")
"""


def test_install_puts_it_in_place_and_twice_is_no_error():
    code = "from tarn import nrt; nrt.install(); nrt.install(); assert nrt.installed()"
    assert python("-c", code + WHOSE) == "tarn"


def test_without_it_numba_has_its_own():
    assert python("-c", "import tarn.nrt; assert not tarn.nrt.installed()" + WHOSE) == "numba"


def test_after_numba_it_is_too_late():
    words = python("-c", "import numba, tarn.nrt; tarn.nrt.install()", code=1)
    assert "RuntimeError: tarn.nrt: too late, Numba has loaded its own runtime (/" in words


def test_numba_keeps_its_name_for_the_module():
    code = "import sys, numba; m = sys.modules['numba.core.runtime._nrt_python']; "
    code += "print(m.__name__, m.__spec__.name, m is numba.core.runtime.nrt._nrt)"
    name = "numba.core.runtime._nrt_python"
    assert on_tarn(code) == f"{name} {name} True"


# --- python -m tarn.nrt -------------------------------------------------------------------

SHOW = "import sys; print(__name__, sys.argv, repr(sys.path[0]), '__file__' in globals())"


def test_code_runs_as_with_python():
    wanted = python("-c", SHOW, "a", "-b")
    assert python("-m", "tarn.nrt", "-c", SHOW, "a", "-b") == wanted


def test_a_file_runs_as_with_python(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SHOW + "\nprint(__file__)")
    assert python("-m", "tarn.nrt", program, "a", "-b") == python(program, "a", "-b")


def test_a_module_runs_as_with_python(tmp_path):
    (tmp_path / "somebody.py").write_text(SHOW + "\nprint(__spec__.name, __file__)")
    wanted = python("-m", "somebody", "a", "-b", PYTHONPATH=str(tmp_path))
    assert python("-m", "tarn.nrt", "-m", "somebody", "a", "-b", PYTHONPATH=str(tmp_path)) == wanted


def test_a_program_ends_with_its_own_exit_code_and_traceback(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("def f():\n    raise SystemExit(7)\nf()")
    python("-m", "tarn.nrt", program, code=7)
    program.write_text("1 / 0")
    words = python("-m", "tarn.nrt", program, code=1)
    assert words.splitlines()[1].strip() == f'File "{program}", line 1, in <module>'


@pytest.mark.parametrize("words", [[], ["-c"], ["-m"], ["-x", "a"]])
def test_wrong_use_is_said(words):
    assert "usage: python -m tarn.nrt" in python("-m", "tarn.nrt", *words, code=2)


def test_a_file_that_is_not_there_is_said():
    assert "tarn.nrt: can't open '/nowhere.py'" in python("-m", "tarn.nrt", "/nowhere.py", code=2)


# --- children -----------------------------------------------------------------------------

CHILD = """
import subprocess, sys
sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)
"""


@pytest.mark.parametrize("flags, whose", [
    ([], "tarn"), (["-E"], "tarn"), (["-I"], "tarn"),
    (["-S"], None),  # no .pth file is read: documented
])  # fmt: skip
def test_children_run_on_it_too(flags, whose):
    if whose is None:
        code = "import sys; print([f for f in sys.meta_path if 'tarn' in type(f).__module__])"
        assert python("-m", "tarn.nrt", "-c", CHILD, *flags, "-c", code) == "[]"
        return
    assert python("-m", "tarn.nrt", "-c", CHILD, *flags, "-c", WHOSE) == whose


def test_install_can_leave_children_alone():
    code = f"import tarn.nrt; tarn.nrt.install(children=False){CHILD}"
    assert python("-c", code, "-c", WHOSE) == "numba"


SPAWN = """
import multiprocessing, sys

def whose(_):
    import numba.core.runtime._nrt_python as core
    return hasattr(core, "tarn_version")

if __name__ == "__main__":
    for way in ("spawn", "fork", "forkserver"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(way, pool.map(whose, [0]))
"""


def test_processes_of_multiprocessing_run_on_it(tmp_path):
    (tmp_path / "spawn.py").write_text(SPAWN)
    lines = python("-m", "tarn.nrt", tmp_path / "spawn.py").splitlines()
    assert lines == ["spawn [True]", "fork [True]", "forkserver [True]"]


def test_a_users_sitecustomize_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    lines = python("-c", WHOSE, TARN_NRT="1", PYTHONPATH=str(tmp_path)).splitlines()
    assert lines == ["mine", "tarn"]


def test_the_pth_does_nothing_where_nobody_asked():
    code = "import sys; print([name for name in sys.modules if name.startswith('tarn')])"
    for environment in ({}, {"TARN_NRT": ""}, {"TARN_NRT": "0"}):
        assert python("-c", code, **environment) == "[]"


def test_a_wish_that_is_none_is_said():
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", "pass"], env={**os.environ, "TARN_NRT": "yes"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert "ValueError: tarn.nrt: TARN_NRT has to be 0, 1 or single, not 'yes'" in done.stderr


def test_numbas_files_are_not_changed():
    import numba

    folder = pathlib.Path(numba.__file__).parent / "core" / "runtime"
    assert not [path for path in folder.iterdir() if "tarn" in path.name]
    assert [path for path in folder.iterdir() if path.name.startswith("_nrt_python.c")]


def test_a_numba_without_a_switch_for_statistics_finds_them_on():
    code = """
import sys, types
import tarn.nrt
from tarn.nrt import _finder
tarn.nrt.install()
for version, on in (("0.56.4", True), ("0.57.0", False), ("0.68.1", False), ("1.2", False)):
    sys.modules["numba"] = types.SimpleNamespace(__version__=version)
    assert _finder._counts_without_a_switch() is on, version
"""
    python("-c", code)
