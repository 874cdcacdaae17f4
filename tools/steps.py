"""steps.py -- the steps of ./check: what each runs, what it needs, what it may cost.

A step is a shell command. Its functions are those of tools/setup.sh and tools/steps.sh.
`cpu` is the budget in CPU seconds and `wall` the usual time in seconds, both on two idle
cores with an empty compiler cache; for `wheel` and `install` after build-release, which
fills the cache. A step with `junit` writes build/check/NAME.xml; any other step is one test
by itself. A step with `setup` installs something and is no test.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Step:
    """One named step."""

    name: str
    about: str
    command: str
    cpu: int
    wall: int
    needs: tuple[str, ...] = ()
    junit: bool = False
    setup: bool = False
    full: bool = False  # part of ./check --full alone
    debian: bool = False  # needs Debian 12 with its own Python 3.11
    jobs: tuple[str, ...] = ()  # of the public CI: see tools/workflow.py


PACKAGES = ("debian-packages",)
WHEEL = ("wheel-installed",)
RELEASE = ("build-release",)

PLAIN = (
    # --- what has to be there ---
    Step(
        "debian-packages",
        "install what is missing of Debian",
        "install_debian_packages tests",
        5,
        5,
        setup=True,
    ),
    Step("environment", ".venv: Numba, RMM, pytest", "make_venv", 60, 40, PACKAGES, setup=True),
    Step(
        "lint-environment",
        ".venv-lint: formatters and linters",
        "make_lint_environment",
        20,
        15,
        PACKAGES,
        setup=True,
    ),
    # --- hygiene ---
    Step(
        "format",
        "clang-format and ruff format leave every file as it is",
        "lint_format",
        30,
        15,
        ("lint-environment",),
        jobs=("hygiene",),
    ),
    Step(
        "ruff",
        "ruff on all Python files",
        "lint_ruff",
        5,
        3,
        ("lint-environment",),
        jobs=("hygiene",),
    ),
    Step(
        "spelling",
        "codespell on all text",
        "lint_spelling",
        10,
        8,
        ("lint-environment",),
        jobs=("hygiene",),
    ),
    Step(
        "shell",
        "shellcheck on all scripts",
        "lint_shell",
        10,
        6,
        ("lint-environment",),
        jobs=("hygiene",),
    ),
    Step(
        "reference",
        "each public declaration has a whole reference comment",
        "reference",
        10,
        6,
        PACKAGES,
        jobs=("hygiene",),
    ),
    Step(
        "mypy",
        "types of the package, of the tools and of the rules",
        "lint_mypy",
        60,
        40,
        ("lint-environment",),
        jobs=("hygiene",),
    ),
    Step(
        "tidy",
        "clang-tidy on the C files that changed",
        "lint_tidy",
        60,
        30,
        ("lint-environment", "build-release"),
        jobs=("hygiene",),
    ),
    # --- C ---
    Step(
        "build-release",
        "RelWithDebInfo, warnings are errors",
        "build_release",
        120,
        60,
        ("environment",),
        jobs=("release",),
    ),
    Step(
        "c-release",
        "all C tests",
        "c_tests release",
        185,
        75,
        RELEASE,
        junit=True,
        jobs=("release",),
    ),
    Step(
        "build-asan", "Debug with ASan and UBSan", "build asan", 110, 60, PACKAGES, jobs=("asan",)
    ),
    Step(
        "c-asan",
        "all C tests under ASan and UBSan",
        "c_tests asan",
        150,
        80,
        ("build-asan",),
        junit=True,
        jobs=("asan",),
    ),
    Step(
        "build-tsan",
        "Debug with TSan, the tests with threads",
        "build tsan tsan-threads",
        48,
        25,
        PACKAGES,
        jobs=("tsan",),
    ),
    Step(
        "c-tsan",
        "C tests with threads under TSan",
        "c_tests tsan -L threads",
        140,
        70,
        ("build-tsan",),
        junit=True,
        jobs=("tsan",),
    ),
    # --- the package ---
    Step("wheel", "both wheels, by pip", "wheels", 28, 15, ("environment",), jobs=("python",)),
    Step(
        "wheel-installed",
        "the wheels in .venv",
        "install_wheel .venv",
        5,
        3,
        ("wheel",),
        setup=True,
    ),
    Step(
        "bare-environment",
        ".venv-bare: Tarn and nothing else",
        "bare_environment",
        15,
        10,
        ("wheel",),
        setup=True,
    ),
    Step(
        "nrt-environment",
        ".venv-nrt: Numba without numba-cuda",
        "nrt_environment",
        30,
        22,
        ("wheel",),
        setup=True,
    ),
    Step(
        "debian-numba",
        ".debian-numba: Debian's Numba 0.56",
        "make_debian_numba",
        20,
        15,
        ("bare-environment",),
        setup=True,
        debian=True,
    ),
    Step(
        "python",
        "tests of the package",
        "py_tests python/tests",
        220,
        120,
        (*WHEEL, "bare-environment", "nrt-environment", "build-release"),
        junit=True,
        jobs=("python",),
    ),
    Step(
        "build-asan-python",
        "the extension in the ASan build",
        "build_asan_python",
        20,
        10,
        ("build-asan", "environment"),
        jobs=("asan",),
    ),
    Step(
        "python-asan",
        "tests of the extension under ASan",
        "asan_py_tests buffer resource pool stream",
        30,
        15,
        ("build-asan-python",),
        junit=True,
        jobs=("asan",),
    ),
    Step(
        "install",
        "other people's projects on an installed Tarn",
        "share_objects && py_tests tests/install",
        70,
        40,
        (*WHEEL, "build-release", "bare-environment", "debian-numba"),
        junit=True,
        jobs=("python",),
    ),
    Step(
        "numba-suite",
        "numba-cuda's tests of memory on Tarn, beside the recorded outcomes on its manager",
        "numba_suite --quick --recorded tools/numba_suite.json",
        52,
        28,
        WHEEL,
        junit=True,
        jobs=("python",),
    ),
    Step(
        "numba-nrt",
        "Numba's tests of its runtime on Tarn, beside the recorded outcomes on its core",
        "numba_nrt_suite --quick --recorded tools/numba_nrt_suite.json",
        62,
        32,
        ("nrt-environment",),
        junit=True,
        jobs=("python",),
    ),
    Step("demo", "./demo", "./demo", 20, 10, WHEEL, jobs=("python",)),
)

FULL = (
    Step("mlir-environment", ".venv-mlir: numba-cuda-mlir", "mlir_environment",
         60, 60, ("wheel",), setup=True, full=True),
    Step("install-mlir", "the installation tests with numba-cuda-mlir",
         "py_tests tests/install -k mlir",
         60, 60, (*WHEEL, "build-release", "mlir-environment"), junit=True, full=True),
    Step("contributing", "the five commands of CONTRIBUTING.md, without root", "contributing",
         150, 120, PACKAGES, full=True),
    Step("builds", "gcc and clang, four build types, without a warning", "builds",
         900, 480, PACKAGES, full=True, jobs=("builds",)),
    Step("python-full", "tests of the package and of installations, on more input",
         "py_tests -m full python/tests tests/install",
         60, 40, (*WHEEL, "build-release", "nrt-environment"), junit=True, full=True),
    Step("c-asan-repetitions", "more seeds of the order of memory and of the simulator, under ASan",
         "c_asan_repetitions",
         60, 50, ("build-asan",), junit=True, full=True),
    Step("order-tsan", "more reuses of memory under TSan",
         "build/tsan/bin/order --reuses 30 --seeds 1 --mode eager",
         40, 25, ("build-tsan",), full=True),
    Step("forks", "200 forks of each object while threads use it",
         "TARN_FORKS=200 c_tests release -R '^unit-forks$'",
         40, 30, RELEASE, junit=True, full=True),
    Step("c-tsan-all", "all C tests under TSan", "build tsan && c_tests tsan",
         400, 240, ("build-tsan",), junit=True, full=True),
    Step("python-asan-full", "more tests of the package under ASan", "asan_py_tests_full",
         300, 160, ("build-asan-python",), junit=True, full=True),
    Step("numba-suite-1", "all of numba-cuda's tests, one device",
         "TARN_SIM=devices=1 numba_suite --at-least 940",
         1200, 700, WHEEL, junit=True, full=True),
    Step("numba-suite-2", "all of numba-cuda's tests, two devices",
         "TARN_SIM=devices=2 numba_suite --at-least 940",
         1200, 700, WHEEL, junit=True, full=True),
    Step("numba-suite-recorded", "the recorded outcomes are those under Numba's manager",
         "numba_suite --quick --verify tools/numba_suite.json",
         60, 35, WHEEL, junit=True, full=True),
    Step("numba-nrt-recorded", "the recorded outcomes are those on Numba's core",
         "numba_nrt_suite --quick --verify tools/numba_nrt_suite.json",
         60, 35, ("nrt-environment",), junit=True, full=True),
    Step("numba-built-in", "tests of the CUDA target in Debian's Numba", "built_in_suite",
         300, 200, ("debian-numba",), junit=True, full=True, debian=True),
    Step("numba-nrt-1", "all of Numba's tests that check its runtime, part 1 of 4",
         "numba_nrt_suite --part 1/4",
         3500, 2000, ("nrt-environment",), junit=True, full=True),
    Step("numba-nrt-2", "all of Numba's tests that check its runtime, part 2 of 4",
         "numba_nrt_suite --part 2/4",
         3500, 2000, ("nrt-environment",), junit=True, full=True),
    Step("numba-nrt-3", "all of Numba's tests that check its runtime, part 3 of 4",
         "numba_nrt_suite --part 3/4",
         3500, 2000, ("nrt-environment",), junit=True, full=True),
    Step("numba-nrt-4", "all of Numba's tests that check its runtime, part 4 of 4",
         "numba_nrt_suite --part 4/4",
         3500, 2000, ("nrt-environment",), junit=True, full=True),
    Step("prune-random", "the pruner beside llvmlite's on 100,000 functions",
         "prune_compare random --count 100000",
         100, 100, WHEEL, full=True),
    Step("prune-sound", "the sound pruner, judged by the interpreter",
         "prune_compare sound --count 100000 --llvmlite --interpreter build/release/bin/prune-interpret",
         300, 300, (*WHEEL, "build-release"), full=True),
    Step("prune-old", "the pass on text beside Numba's", "prune_compare old --count 10000",
         60, 60, WHEEL, full=True),
    Step("prune-random-debian", "the pruner for LLVM 14 beside Debian's llvmlite",
         ".debian-numba/python tools/prune_compare.py random --count 100000",
         100, 100, ("debian-numba",), full=True, debian=True),
    Step("prune-corpus", "what six of Numba's tests compile, pruned by both", "prune_corpus",
         900, 600, WHEEL, full=True),
    Step("prune-numba-sound", "Numba's tests, pruned soundly", "prune_numba sound",
         900, 600, WHEEL, full=True),
    Step("prune-numba-llvmlite", "Numba's tests, pruned as llvmlite does", "prune_numba llvmlite",
         900, 600, WHEEL, full=True),
    Step("nrt-model", "10^8 operations of the runtime beside a model",
         "TARN_NRT_OPERATIONS=1e8 build/release/bin/torture-nrt",
         300, 200, RELEASE, full=True),
    Step("fuzz-prune", "ten minutes of functions made from random bytes", "fuzz",
         1300, 700, PACKAGES, full=True, jobs=("fuzz",)),
    Step("order-million", "a million reuses of memory, seeded", "build/release/bin/order --reuses 65000 --seeds 100",
         600, 320, RELEASE, full=True),
    Step("order-million-threads", "a million reuses of memory, with threads",
         "build/release/bin/order --reuses 65000 --seeds 10 --mode eager",
         600, 320, RELEASE, full=True),
    Step("ended-tasks", "10,000 tasks whose streams and threads end",
         "TARN_TEST_TASKS=10000 build/release/bin/unit-pool-ended",
         60, 40, RELEASE, full=True),
    Step("model-hundred-million", "10^8 operations of the pool beside a model",
         "build/release/bin/model --operations 100000000",
         200, 100, RELEASE, full=True),
)  # fmt: skip

STEPS = PLAIN + FULL
