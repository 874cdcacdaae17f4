"""tarn.hpp compiled by g++ and clang++ as C++17 and C++20: alone, with CCCL, and with RMM.

The programs run on the simulator, with build/release (TARN_BUILD names another build). The headers
and libraries of CCCL, RMM and the CUDA runtime are those of the wheels in this environment.
"""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
BUILD = Path(os.environ.get("TARN_BUILD", PROJECT / "build" / "release"))
SITE = Path(sysconfig.get_paths()["purelib"])
CUDA = SITE / "nvidia" / "cu13"

WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wnon-virtual-dtor", "-Werror"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]
TARN = [f"-I{PROJECT / 'include'}"]
LIBRARIES = ["-ltarn", "-ldl", "-pthread"]
FOLDERS = [BUILD / "lib"]

# Each kind of program: include folders, libraries, folders of libraries.
PLAIN = ([], [], [])
CCCL = (
    [CUDA / "include", CUDA / "include" / "cccl"],
    ["-l:libcudart.so.13"],
    [CUDA / "lib"],
)
RMM = (
    [
        SITE / "librmm" / "include",
        SITE / "librmm" / "include" / "rapids",  # RMM's own CCCL
        SITE / "rapids_logger" / "include",
        CUDA / "include",
    ],
    ["-lrmm", "-lrapids_logger", "-l:libcudart.so.13"],
    [SITE / "librmm" / "lib64", SITE / "rapids_logger" / "lib64", CUDA / "lib"],
)


def run(*command, **options):
    """Run a command that has to succeed, and return its output."""
    done = subprocess.run(
        [str(part) for part in command],
        text=True,
        timeout=300,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **options,
    )
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}"
    return done.stdout


def compile_program(kind, out, sources, compiler="g++", standard=17, options=()):
    """Compile a program against the wheels of one kind."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    includes, libraries, folders = kind
    system = [flag for folder in includes for flag in ("-isystem", folder)]
    paths = [
        flag for folder in [*FOLDERS, *folders] for flag in (f"-L{folder}", f"-Wl,-rpath,{folder}")
    ]
    run(
        compiler,
        f"-std=c++{standard}",
        *WARNINGS,
        *options,
        *TARN,
        *system,
        *sources,
        "-o",
        out,
        *paths,
        *libraries,
        *LIBRARIES,
    )
    return out


def on_simulator(program):
    """Run a program on the simulator, which the CUDA runtime finds as well."""
    simulator = BUILD / "lib" / "tarn" / "sim"
    environment = {
        **os.environ,
        "TARN_DRIVER": str(simulator / "libcuda.so.1"),
        "LD_LIBRARY_PATH": str(simulator),
    }
    return run(program, env=environment)


def cases(name):
    """Return the number of test cases in a program."""
    return (HERE / name).read_text().count("\nTEST(")


def check(kind, folder, *sources, **options):
    """Compile and run a program; each of its test cases has to pass."""
    program = compile_program(kind, folder / "program", [HERE / one for one in sources], **options)
    said = on_simulator(program)
    assert said.count("ok ") == cases(sources[0]), said


@pytest.mark.parametrize("standard", [17, 20])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_owners(compiler, standard, tmp_path):
    check(PLAIN, tmp_path, "owners.cpp", compiler=compiler, standard=standard)


@pytest.mark.parametrize("standard", [17, 20])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_resources_of_cccl(compiler, standard, tmp_path):
    check(CCCL, tmp_path, "cccl.cpp", compiler=compiler, standard=standard)


@pytest.mark.parametrize("standard", [17, 20])
def test_resources_of_rmm(standard, tmp_path):
    """Clang 14 does not compile RMM's headers."""
    check(RMM, tmp_path, "rmm.cpp", "plain.cpp", standard=standard)


@pytest.mark.parametrize("program", ["owners", "rmm"])
def test_no_error_under_sanitizers(program, tmp_path):
    """The libraries themselves are those without sanitizers."""
    kind = RMM if program == "rmm" else PLAIN
    sources = ["rmm.cpp", "plain.cpp"] if program == "rmm" else ["owners.cpp"]
    check(kind, tmp_path, *sources, options=SANITIZERS)


def test_exceptions_of_pytorch(tmp_path, monkeypatch):
    """An imitation of PyTorch's library has its classes; tests/gpu/test_torch.py has PyTorch."""
    library = tmp_path / "libc10.so"
    named = "-Wl,-soname,libc10.so"
    run("g++", "-std=c++17", "-shared", "-fPIC", named, HERE / "c10.cpp", "-o", library)
    monkeypatch.setenv("C10_FOLDER", str(tmp_path))
    check(PLAIN, tmp_path, "torch.cpp")


def test_macros_select_cccl_and_rmm(tmp_path):
    source = tmp_path / "selected.cpp"
    source.write_text(
        "#include <tarn/tarn.hpp>\n"
        "static_assert(cuda::mr::resource_with<tarn::resource, cuda::mr::device_accessible>);\n"
        "#ifdef TARN_WITH_RMM\n"
        "static_assert(std::is_base_of_v<rmm::out_of_memory, tarn::out_of_memory>);\n"
        "#endif\n"
    )
    for kind, macro in ((CCCL, "-DTARN_WITH_CCCL"), (RMM, "-DTARN_WITH_RMM")):
        compile_program(kind, tmp_path / "out.o", [source], options=["-c", macro])


def test_the_header_alone_causes_no_warning(tmp_path):
    source = tmp_path / "strict.cpp"
    source.write_text("#include <tarn/tarn.hpp>\nint main() { tarn::make_pool(); }\n")
    strict = ["-pedantic", "-Wold-style-cast", "-Woverloaded-virtual", "-Wuseless-cast", "-c"]
    compile_program(PLAIN, tmp_path / "out.o", [source], options=strict)


def test_the_example_with_rmm(tmp_path):
    source = PROJECT / "examples" / "cpp" / "rmm.cpp"
    program = compile_program(RMM, tmp_path / "rmm", [source], standard=20)
    assert on_simulator(program) == (
        "1000 bytes\nlimiter: 1000 bytes exceed the limit, 0 of 100 bytes are in use\n"
    )
