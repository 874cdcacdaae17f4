"""The examples run, and every listing of the README is in one of them."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import BUILD, PROJECT, run

C_EXAMPLES = sorted(p.stem for p in PROJECT.glob("examples/c/*.c"))
PYTHON_EXAMPLES = sorted(PROJECT.glob("examples/python/*.py"))
NUMBA_EXAMPLES = sorted(PROJECT.glob("examples/numba/*.py"))
FRAMEWORK_EXAMPLES = sorted(PROJECT.glob("examples/frameworks/*.py"))  # those without a kernel
TARN = pathlib.Path(sys.executable).with_name("tarn")


def test_there_are_examples_of_each_kind():
    assert C_EXAMPLES and PYTHON_EXAMPLES and NUMBA_EXAMPLES and FRAMEWORK_EXAMPLES


@pytest.mark.parametrize("name", C_EXAMPLES)
def test_c(name):
    assert run(BUILD / "bin" / f"example_{name}")


def test_cpp():
    assert run(BUILD / "bin" / "example_cpp_first").startswith("limiter: ")


@pytest.mark.parametrize("path", PYTHON_EXAMPLES, ids=lambda p: p.stem)
def test_python(path):
    environment = {**os.environ, "TARN_CACHE_DIR": str(PROJECT / "build" / "cache")}
    assert run(sys.executable, path, env=environment)


@pytest.mark.parametrize("path", NUMBA_EXAMPLES, ids=lambda p: p.stem)
def test_numba(path, tmp_path):
    log = tmp_path / "log.csv"
    run(TARN, "run", "--driver", "sim", "--log", log, path)
    assert run(TARN, "log", "--check", log)


@pytest.mark.parametrize("path", FRAMEWORK_EXAMPLES, ids=lambda p: p.stem)
def test_framework(path):
    assert run(TARN, "run", "--driver", "sim", path)


@pytest.mark.parametrize(
    "number, command",
    [
        (0, [sys.executable, PROJECT / "examples/python/first.py"]),
        (1, [BUILD / "bin/example_first"]),
    ],
)
def test_the_programs_of_the_readme_print_what_it_shows(number, command):
    shown = re.findall(r"```text\n(.*?)```", (PROJECT / "README.md").read_text(), re.S)[number]
    printed = run(*command)
    for line in filter(None, shown.splitlines()):
        assert re.search(re.escape(line).replace("…", ".*"), printed), line


# --- a block on two streams: a race without any of the waits ---

WAITS = {
    "c": ["(consumer, written, 0)", "(producer, read, 0)"],
    "python": ["consumer.wait(producer)", "producer.wait(consumer)"],
    "numba": ["written.wait(consumer)"],
}


def two_streams(kind, folder, seed, without=None):
    """Return the example's output on the simulator, which reports races; without a wait."""
    source = next((PROJECT / "examples" / kind).glob("two_streams.*"))
    lines = source.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not (without and without in line)]
    assert without is None or len(kept) < len(lines)
    program = folder / source.name
    program.write_text("".join(kept))
    environment = {
        **os.environ,
        "TARN_DRIVER": "sim",
        "TARN_SIM": f"mode=seeded,races=on,seed={seed}",
    }
    if kind == "python":
        command = [sys.executable, program]
    elif kind == "numba":
        command = [TARN, "run", "--driver", "sim", program]
    else:
        command = [program.with_suffix("")]
        run(
            "cc",
            "-w",
            program,
            "-o",
            command[0],
            f"-I{PROJECT / 'include'}",
            f"-L{BUILD / 'lib'}",
            f"-Wl,-rpath,{BUILD / 'lib'}",
            "-ltarn",
            "-ldl",
        )
    done = subprocess.run(
        [str(part) for part in command],
        text=True,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=100,
    )
    assert without or done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("seeds", [(0, 1), pytest.param((2, 3, 4), marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", WAITS)
def test_two_streams_do_not_race_for_any_seed(kind, seeds, tmp_path):
    for seed in seeds:
        assert "race:" not in two_streams(kind, tmp_path, seed)


@pytest.mark.parametrize("kind, wait", [(kind, wait) for kind in WAITS for wait in WAITS[kind]])
def test_two_streams_race_without_a_wait(kind, wait, tmp_path):
    assert "race:" in two_streams(kind, tmp_path, 0, without=wait)


# --- listings of the documents ---


def code_blocks(document, language, heading):
    text = (PROJECT / document).read_text()
    if heading:
        text = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


@pytest.mark.parametrize(
    "document, heading, language, folder",
    [
        ("README.md", None, "c", "examples/c"),
        ("README.md", None, "python", "examples/python"),
        ("docs/c.md", "Several streams", "c", "examples/c"),
        ("docs/tracking.md", None, "c", "examples/c"),
        ("docs/cpp.md", None, "cpp", "examples/cpp"),
        ("docs/nrt.md", None, "c", "examples/c"),
        ("docs/sim.md", None, "c", "examples/c"),
        ("docs/sim-test.md", "A test that also runs on a GPU", "c", "tests/order"),
        ("docs/managers.md", "Using one", "c", "examples/c"),
        ("docs/managers.md", "Writing one", "c", "examples/plugins"),
        ("docs/aot.md", None, "python", "examples/aot"),
        ("docs/aot.md", None, "c", "examples/aot"),
        ("docs/python.md", "Several streams", "python", "examples/python"),
        ("docs/numba.md", "Several streams", "python", "examples/numba"),
        ("docs/rmm-bridge.md", None, "python", "examples/python"),
        ("docs/logs.md", None, "python", "examples/python"),
        ("docs/use.md", None, "python", "examples/frameworks"),
        ("docs/cuda-core.md", None, "python", "examples/frameworks"),
        ("docs/cupy.md", "Memory without a kernel", "python", "examples/frameworks"),
        ("docs/cupy.md", "All arrays", "python", "examples/frameworks/gpu"),
        ("docs/dlpack.md", "Both directions", "python", "examples/frameworks"),
        ("docs/dlpack.md", "JAX", "python", "examples/frameworks/gpu"),
        ("docs/dask.md", None, "python", "examples/frameworks"),
        ("docs/nccl.md", "A block", "python", "examples/python"),
        ("docs/ucx.md", "A dma-buf descriptor", "python", "examples/python"),
        ("docs/warp.md", None, "python", "examples/frameworks/gpu"),
    ],
)
def test_what_the_documents_show_is_in_an_example(document, heading, language, folder):
    sources = [p.read_text() for p in (PROJECT / folder).iterdir() if p.is_file()]
    blocks = code_blocks(document, language, heading)
    assert blocks
    for block in blocks:
        assert any(block in source for source in sources), block
