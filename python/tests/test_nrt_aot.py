"""Functions compiled ahead of time: the example in C without Python, and rejected functions."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import aot_functions
import numpy as np
import pytest
import tarn
from numba import njit
from tarn.nrt import _command, aot

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "aot"


def build(folder, *sources, static=False):
    """Link C sources as a user of the wheel would; returns the program."""
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-I", folder, *sources]
    command += [*_command.compiler_flags(), *_command.linker_flags(static)]
    done = subprocess.run([*command, "-o", folder / "program"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "program"


def in_python(path):
    """Return the results of the example's functions under Python."""
    spec = importlib.util.spec_from_file_location("kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_runs_without_python(tmp_path):
    subprocess.run([sys.executable, EXAMPLE / "kernels.py", tmp_path], check=True)
    program = build(tmp_path, EXAMPLE / "main.c", tmp_path / "kernels.o")
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.stdout.splitlines()[:-1] == [
        "norm: 13",
        "smooth: 3.5 2 6 6 0",
        "columns: 12 15 18 21",
        f"walk: {in_python(EXAMPLE / 'kernels.py').walk(42, 3):.6f}",
        "norm of nothing: status 1, ValueError: no items",
    ], done.stdout + done.stderr
    assert re.fullmatch(r"MemInfos: (\d+) made, \1 gone", done.stdout.splitlines()[-1])
    needed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    assert "libtarn" in needed and "libpython" not in needed
    assert "Py" not in subprocess.run(["nm", "-u", program], capture_output=True, text=True).stdout


def needs_python(a):
    if a.size == 0:
        raise ValueError("these:", a)
    return a[0]


def harmless(a):
    return a[0]


def test_a_function_that_needs_python_is_refused_by_name(tmp_path):
    functions = {
        "good": (harmless, "float64(float64[::1])"),
        "bad": (needs_python, "float64(float64[::1])"),
    }
    with pytest.raises(aot.NeedsPythonError, match="^bad needs .*NRT_adapt_ndarray") as caught:
        aot.compile_ahead("both", functions, tmp_path)
    assert set(caught.value.needs) == {"bad"}
    assert os.listdir(tmp_path) == []


def test_a_helper_that_is_not_there_is_refused(tmp_path, monkeypatch):
    # Numba requires scipy for the compilation; this test is about the AOT support library.
    monkeypatch.setattr("numba.np.linalg.ensure_blas", lambda: None)
    signature = "float64[:, ::1](float64[:, ::1], float64[:, ::1])"
    functions = {"multiply": (lambda a, b: np.dot(a, b), signature)}
    with pytest.raises(aot.NeedsPythonError, match="multiply needs .*numba_xxgemm"):
        aot.compile_ahead("blas", functions, tmp_path)


def test_a_type_without_a_word_in_c_is_refused():
    with pytest.raises(TypeError, match="unicode_type has no C type"):
        aot.compile_ahead("text", {"f": (lambda text: text, "unicode_type(unicode_type)")})


def test_the_helpers_that_are_promised_are_in_the_library():
    archive = pathlib.Path(tarn.get_library_dir()) / "libtarn_aot.a"
    names = subprocess.run(["nm", "--defined-only", archive], capture_output=True, text=True)
    there = {line.split()[-1] for line in names.stdout.splitlines() if line.count(" ") >= 2}
    numbas = {name for name in there if name.startswith(("numba_", "_numba_", "NRT_"))}
    assert numbas == aot.HELPERS and there >= set(aot._ARGUMENTS.values())


def test_the_undefined_names_of_an_object_are_those_of_nm(tmp_path):
    source = tmp_path / "a.c"
    source.write_text('#include <stdio.h>\nextern int x; int f(void) { return puts("") + x; }')
    subprocess.run(["cc", "-c", source, "-o", tmp_path / "a.o"], check=True)
    names = aot.undefined_names((tmp_path / "a.o").read_bytes())
    shown = subprocess.run(["nm", "-u", tmp_path / "a.o"], capture_output=True, text=True).stdout
    assert names == sorted(shown.split()[1::2])
    with pytest.raises(ValueError):
        aot.undefined_names(b"no object")


EVERY = {
    "integers": (lambda a, b: a // b + a % b, "int64(int64, int64)"),
    "power": (lambda a, b: a**b, "float64(float64, int64)"),
    "poisson": (lambda mean: np.random.poisson(mean), "int64(float64)"),
    "after": (lambda a, b: np.nextafter(a, b), "float64(float64, float64)"),
    "tail": (lambda a, n: a[n:].copy(), "float64[::1](float64[::1], int64)"),
    "ordered": (lambda a: np.sort(a), "float64[::1](float64[::1])"),
    "distinct": (lambda n: len(set([i % 7 for i in range(n)])), "int64(int64)"),  # noqa: C403
    "middle": (lambda a: np.median(a), "float64(float64[::1])"),
    "positive": (lambda a: np.where(a > 0, a, 0.0), "float64[::1](float64[::1])"),
    "shuffled": (lambda a: np.random.shuffle(a), "void(float64[::1])"),
    "weighed": (lambda x, a, b: np.interp(x, a, b),
                "float64[::1](float64[::1], float64[::1], float64[::1])"),
}  # fmt: skip


FEW = ("integers", "power", "poisson", "after", "tail")  # they compile in a second each or less


@pytest.mark.parametrize(
    "names", [FEW, pytest.param(tuple(EVERY), marks=pytest.mark.full)], ids=len
)
def test_much_of_numpy_compiles_without_python(tmp_path, names):
    aot.compile_ahead("every", {name: EVERY[name] for name in names}, tmp_path)
    main = tmp_path / "main.c"
    names = ", ".join(f"(void (*)(void)){name}" for name in names)
    main.write_text(
        f'#include "every.h"\nvoid (*volatile functions[])(void) = {{{names}}};\n'
        "int main(void)\n{\n    int64_t result;\n    const tarn_aot_error *error;\n"
        "    return functions[0] ? integers(&result, &error, 17, 5) || result != 5 : 1;\n}\n"
    )
    program = build(tmp_path, main, tmp_path / "every.o")
    assert subprocess.run([program]).returncode == 0


@pytest.mark.parametrize(
    "functions",
    [aot_functions.FEW, pytest.param(aot_functions.ALL, marks=pytest.mark.full)],
    ids=len,
)
def test_a_program_without_python_has_the_results_of_numba(tmp_path, functions):
    """No function was called before. Some are recursive, use containers or raise."""
    aot.compile_ahead("functions", functions, tmp_path)
    main = tmp_path / "main.c"
    main.write_text(aot_functions.program(functions))
    program = build(tmp_path, main, tmp_path / "functions.o", static=True)
    done = subprocess.run([program], capture_output=True, text=True)
    compiled = {
        name: function if hasattr(function, "py_func") else njit(function)
        for name, (function, _) in functions.items()
    }
    compiled["even"] = aot_functions.is_even
    assert done.stdout.splitlines() == [
        f"{name}: {aot_functions.outcome(compiled[name], number)}"
        for number in aot_functions.NUMBERS
        for name in functions
    ]
    assert done.returncode == 0
    needed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    assert "libtarn" not in needed and "libpython" not in needed


@njit
def ends(n):
    return 0 if n < 1 else begins(n - 1)


@njit
def begins(n):
    return 0 if n < 1 else ends(n - 1)


def test_a_recursive_function_that_was_called_before_compiles(tmp_path):
    begins(3)
    for function in (ends, begins, ends.py_func):
        aot.compile_ahead("either", {"either": (function, "int64(int64)")}, tmp_path)
        code = (tmp_path / "either.o").read_bytes()
        assert not [name for name in aot.undefined_names(code) if "unresolved" in name]
