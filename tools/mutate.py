"""mutate.py -- which changes of the code do the tests find?

    tools/mutate.py --seed 1 --count 500 [--modules pool,ipc] [--files REGEX] [--minutes 60]
    sudo tools/mutate.py --seed 1 --count 500 --workers 16
    tools/mutate.py --again
    tools/mutate.py --report

Makes mutants of src/{pool,plan,manager,adaptor,ipc,pointer}, python/ext and tarn/numba.py, each with one
small change at a place that the seed chooses. It builds a copy of the last commit in build/mutation,
and runs the tests of the changed module until one fails. Those of Python need the packages of .venv.
Each result is a line of build/mutation/results.jsonl, so a second run goes on where the first one
ended. --report prints the counts and what survived.

--again judges the survivors once more, in the last commit: they stand where their line is now.
--workers judges several mutants at once, on a machine with many cores. Each worker has a copy of
build/mutation, which it mounts there for itself alone. So it needs root.

    killed     a test fails or hangs
    survived   all tests pass
    equivalent all tests pass, and EQUIVALENT says why none can fail
    rejected   the compiler rejects it
    gone       it survived, and its line is not in the code any more
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import ctypes
import dataclasses
import functools
import json
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator

FOLDER = pathlib.Path("build/mutation")
TREE, RESULTS = FOLDER / "tree", FOLDER / "results.jsonl"
BUILD, PYTHON_BUILD = FOLDER / "build", FOLDER / "build-python"
VENV = FOLDER / "venv"
ORIGINAL = FOLDER / "original.json"  # the text of the changed file
COPIES = pathlib.Path("build/mutation-workers")
SECONDS: dict[str, float] = {}  # of each module of python/tests that passes without a mutant
FAILING: set[str] = set()  # tests in C that fail without a mutant: they judge none
PYTHON = pathlib.Path(".venv/bin/python").resolve()
TEST_LIMIT_S = 900

# The source files of a module, as a pattern below the root.
SOURCES = {
    "pool": "src/pool/**/*.c",
    "plan": "src/plan/**/*.c",
    "manager": "src/manager/**/*.c",
    "adaptor": "src/adaptor/**/*.c",
    "ipc": "src/ipc/**/*.c",
    "pointer": "src/pointer/**/*.c",
    "ext": "python/ext/**/*.c",
    "numba": "python/tarn/numba.py",
}

# The tests of a module in C, as a pattern of ctest.
TESTS = {
    "pool": "^(unit-(pool|guard-annotations|driver-driver)|torture-(pool|plans|resource)|conformance-resources|host_failures-(pool|plans))",
    "plan": "^(unit-(plan|pool-(follow|next_use))|host_failures-plans)",
    "manager": "^(unit-(manager|base-blocking_hook)|torture-manager|host_failures-managers)",
    "adaptor": "^(unit-(adaptor|device|guard-(guard|process))|torture-adaptor|host_failures-(resources|trace))",
    "ipc": "^(unit-ipc|torture-ipc|host_failures-(managers|ipc))",
    "pointer": "^(unit-(pointer|manager|base-blocking_hook|ipc-served)|torture-pointer|host_failures-resources)",
}
# Slow beside what they find for a mutant, or dependent on time; a mutant of background.c has its test.
# learn_failures and plan-host_failures replace functions of libc for the objects that they are linked
# with, and here they are linked with a library.
WITHOUT = (
    "unit-pool-(learn-large|learn_unplanned-large|learn_failures|ended|locks|grants_threads)|"
    "unit-plan-host_failures|"
    "unit-ipc-(many|threads)"
)
TEST_THAT_LOADS = "unit-pool-assemble"  # it loads the simulator
FOR_ITS_FILE = {"unit-pool-background": "background"}

# Changes of the copy: the tests of internals link one shared library in place of their own copies of
# all objects. So a mutant is linked once. The options are those of the leak checker.
SHARED = (
    ("CMakeLists.txt", "set(CMAKE_C_VISIBILITY_PRESET hidden)", "set(CMAKE_C_VISIBILITY_PRESET default)"),
    ("tests/CMakeLists.txt", "add_library(tarn_inside STATIC $<TARGET_OBJECTS:tarn>)",
     "add_library(tarn_inside SHARED $<TARGET_OBJECTS:tarn>)\n"
     "target_link_libraries(tarn_inside PRIVATE Threads::Threads ${CMAKE_DL_LIBS})"),
    ("tests/CMakeLists.txt", "ASAN_OPTIONS", "LSAN_OPTIONS"),
)  # fmt: skip

# Modules of python/tests that test a file of the extension, or tarn/numba.py. The first ones find
# most mutants.
NRT_TESTS = "nrt_meminfo nrt_stats nrt_numpy nrt_recursion"
PYTHON_TESTS = {
    "arguments": "resource pool buffer numba_rows",
    "arrays": NRT_TESTS,
    "bridge": "written_in_python kept_exceptions foreign_code",
    "buffer": "buffer finalizers streamless captures cupy",
    "capsule": "foreign_code isolated numba_c_managers written_in_python",
    "capture": "captures",
    "copies": "buffer dlpack foreign_code cupy rmm_package",
    "deferred": "finalizers leaks streamless",
    "device": "registry two_devices resource",
    "dlpack_export": "dlpack",
    "dlpack_import": "dlpack",
    "driver": "driver device_runtime two_devices isolated",
    "error": "errors kept_exceptions written_in_python",
    "exception": "kept_exceptions written_in_python",
    "failure_callback": "rmm_package kept_exceptions written_in_python resource",
    "gil": "finalizers written_in_python exit",
    "guard": "guard",
    "helpers": NRT_TESTS,
    "ipc": "ipc fabric",
    "live": "log_all log_files torch pytest_plugin isolated",
    "log": "log_all log_environment log_files isolated",
    "log_failed": "log_all log_files numba",
    "log_file": "log_files binary_log log_all",
    "log_methods": "numba log_all log_environment log_files torch",
    "log_observer": "log_all log_files binary_log pytest_plugin",
    "log_rows": "log_all log_files numba",
    "log_site": "binary_log log_all log_files leaks plugins",
    "maker": "resource log_files tracking pool guard rmm_package",
    "manager": "numba_c_managers numba_resources plugins",
    "meminfo": NRT_TESTS,
    "memory": "plugins plugin_traps numba_resources",
    "memory_info": "resource numba_resources two_devices",
    "module": "isolated " + NRT_TESTS,
    "nrt": "nrt_stats nrt_meminfo numba_c_managers device_runtime foreign_code",
    "nrt_allocator": "nrt_meminfo nrt_stats numba_resources",
    "numba": "numba numba_resources numba_c_managers numba_rows plugins numba_process pytest_plugin ipc",
    "oom_callback": "pool captures kept_exceptions",
    "plan": "plan_pool",
    "plugin": "plugins plugin_traps numba",
    "pointer": "numba_resources plugins finalizers",
    "pool": "pool plan_pool captures",
    "resource": "resource registry foreign_code written_in_python",
    "rmm_torch": "rmm_torch",
    "stack": "log_files tracking binary_log",
    "state": "isolated exit errors",
    "stream": "stream captures streamless two_devices rmm_bridge host_failures written_in_python",
    "torch": "torch wrong_calls",
    "tracker": "tracking host_failures",
}

# Assertions have a test that reads the files: tests/architecture/test_assertions.py.
ASSERTION = re.compile(r": tarn__assert_\w+\(.*\); -> ;$")

# Survivors that no test can find, by file and change, with the reason.
EQUIVALENT = {
    "src/adaptor/logger.c: pthread_cond_init(&logger->row_written, NULL); -> ;": (
        "the condition of a forked child: no thread waits at it, and glibc's needs no second begin"
    ),
    "src/adaptor/logger.c: pthread_cond_destroy(&logger->row_written); -> ;": (
        "no thread waits at it any more, and glibc's condition has no memory of its own"
    ),
    "src/adaptor/limiter.c: atomic_init(&limiter->used_bytes, 0); -> ;": "calloc() wrote the zeros",
    "src/adaptor/logger.c: atomic_init(&logger->live_blocks, 0); -> ;": "calloc() wrote the zeros",
    "src/adaptor/logger.c: event.action = TARN_ACTION_ALLOCATE; -> ;": "it is 0, as its initializer",
    "python/ext/stack.c: size_t count = stack <= UINT32_MAX ? tarn_stack_frames((tarn_stack)stack, -> "
    "size_t count = stack < UINT32_MAX ? tarn_stack_frames((tarn_stack)stack,": (
        "no process has 2^32 - 1 stacks"
    ),
    "src/adaptor/pool_rows.c: if (live_blocks <= BLOCKS_MOST && -> if (!live_blocks <= BLOCKS_MOST &&": (
        "add_block() ends at the same number of blocks: time alone"
    ),
    "src/adaptor/pool_rows.c: if (!is_first && now - last < INTERVAL_NS) -> "
    "if (!is_first && now - last <= INTERVAL_NS)": "one nanosecond of a second",
    "src/ipc/connections.c: if (!one->leased && one->since_ns + SILENT_NS < first) -> "
    "if (!one->leased && one->since_ns + SILENT_NS <= first)": "an equal value is assigned again",
    "src/ipc/server.c: if (rests && (due < 0 || due > PAUSE_MS)) -> "
    "if (rests && (due < 0 || due >= PAUSE_MS))": "an equal value is assigned again",
    "src/ipc/server.c: return limit.rlim_cur / 2 < MOST ? (size_t)limit.rlim_cur / 2 : MOST; -> "
    "return limit.rlim_cur / 2 <= MOST ? (size_t)limit.rlim_cur / 2 : MOST;": "where they are equal",
    "python/ext/gil.c: watches_forks = pthread_atfork(NULL, NULL, forget_threads) == 0; -> "
    "watches_forks = pthread_atfork(NULL, NULL, forget_threads) != 0;": (
        "a later interpreter registers the hook once more, and it stores 0 twice"
    ),
    "python/ext/log_observer.c: begun = true; -> ;": (
        "a later interpreter registers the hook once more, and it has the same effect twice"
    ),
    "python/ext/oom_callback.c: bool again = false; -> bool again = true;": (
        "only if the registration ends while the call waits for the GIL: one more attempt"
    ),
    "src/ipc/descriptor.c: if (file < 0) -> if (file <= 0)": "0 is open in every process of the tests",
    "python/ext/device.c: state->served = Py_NewRef(object); -> ;": (
        "a cache of the last object: without it each call finds the object in the table"
    ),
    "python/tarn/numba.py: is_found = resources.is_named() and target.driver._memory_manager is None -> "
    "is_found = resources.is_named() and target.driver._memory_manager is not None": (
        "tarn.use() then sets the class that the environment names, as Numba does at its first use"
    ),
    "python/ext/maker.c: tarn_resource *wrapper = NULL; -> tarn_resource *wrapper = (void *)8;": (
        "read only after a success, which wrote it"
    ),
    "python/ext/manager.c: tarn_manager_release(manager); -> ;": (
        "the process keeps a reference to each instance until it ends"
    ),
    "src/manager/set.c: tarn_manager *manager = NULL; -> tarn_manager *manager = (void *)8;": (
        "written before it is read"
    ),
    "src/manager/manager.c: pthread_mutex_init(&manager->preparing, NULL); -> ;": (
        "calloc() wrote the zeros, and glibc's mutex begins with these"
    ),
    "src/pool/follow/sequences.c: return a->slot < b->slot ? -1 : a->slot > b->slot; -> "
    "return a->slot < b->slot ? -1 : a->slot >= b->slot;": "no two slots are equal",
    "src/pool/follow/sequences.c: return a->hash < b->hash ? -1 : 1; -> return a->hash <= b->hash ? -1 : 1;": (
        "the hashes differ there"
    ),
    "src/pool/follow/planner.c: for (uint32_t i = 0; i < circle->record->operations; i++) { -> "
    "for (uint32_t i = 0; i <= circle->record->operations; i++) {": (
        "the array has one element more, and nobody reads it"
    ),
    "src/pool/lock.c: else if (turn < LOOKS + YIELDS) -> else if (!turn < LOOKS + YIELDS)": (
        "a thread that waits yields where it would sleep: time alone"
    ),
    "src/pool/compact/grow_vmm.c: uint64_t available = range > moved ? range - moved : 0; -> "
    "uint64_t available = range >= moved ? range - moved : 0;": "where they are equal, both are 0",
    "src/pool/blocks/ranges.c: NODE(neighbour)->quanta <= UINT32_MAX - node->quanta; -> "
    "NODE(neighbour)->quanta < UINT32_MAX - node->quanta;": (
        "unmapped ranges are whole pages, and the sum of two is never UINT32_MAX"
    ),
    "src/pool/cache/grants.c: more = tarn__size_least(more > bytes ? more : bytes, one - granted); -> "
    "more = tarn__size_least(more >= bytes ? more : bytes, one - granted);": "where they are equal",
    "src/pool/follow/area.c: heap->area_least = 0; -> ;": (
        "a separate area has bins of its own: a search for a small block looks closer, and takes the same"
    ),
    "src/pool/follow/follow.c: if (search->requests == REQUESTS || !search->caller->may_record) -> "
    "if (!search->requests == REQUESTS || !search->caller->may_record)": (
        "the search ends after TURNS, with more requests in vain: time alone"
    ),
    "src/pool/compact/background.c: tarn__scope_leave(out); -> ;": (
        "only after a reset, which ends the thread, and with it its context stack and capture mode"
    ),
    "src/manager/host_only.c: tarn_pointer *pointer = NULL; -> tarn_pointer *pointer = (void *)8;": (
        "written before it is read"
    ),
}

# What is replaced, and by what.
OPERATORS = (
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "),
    (r" == ", " != "), (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "),
    (r" \+ ", " - "), (r" - ", " + "), (r" \+= ", " -= "), (r" -= ", " += "),
    (r"\+\+;", "--;"), (r"--;", "++;"), (r"if \(!", "if ("), (r"if \((?![!])", "if (!"),
    (r"return true;", "return false;"), (r"return false;", "return true;"),
    (r"= true;", "= false;"), (r"= false;", "= true;"), (r"= NULL;", "= (void *)8;"),
    (r"^(    +)[a-z_]+\([^;{}]*\);$", r"\1;"), (r"^(    +)[a-z_>.-]+ [-+|]?= [^;{}]*;$", r"\1;"),
    (r"\bbreak;", ";"), (r"\bcontinue;", ";"), (r" & ", " | "), (r" << ", " >> "),
)  # fmt: skip


PYTHON_OPERATORS = (
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "),
    (r" == ", " != "), (r" != ", " == "), (r" and ", " or "), (r" or ", " and "),
    (r" is not ", " is "), (r" is (?!not)", " is not "), (r" not in ", " in "), (r" \+ ", " - "),
    (r" - ", " + "), (r" \+= ", " -= "), (r" -= ", " += "), (r"if not ", "if "), (r"if (?!not )", "if not "),
    (r"\bTrue\b", "False"), (r"\bFalse\b", "True"), (r"= None$", "= 8"), (r"return None$", "return 8"),
    (r"^(    +)[a-z_.]+\([^;{}]*\)$", r"\1pass"), (r"^(    +)[a-z_.]+ [-+|]?= [^;{}(]*$", r"\1pass"),
    (r"^(    +)return (?!None)[^({]+$", r"\1return None"), (r"\bbreak$", "pass"), (r"\bcontinue$", "pass"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change: a line of a file, before and after."""

    file: str
    line: int
    before: str
    after: str
    known_as: str = ""  # the key that it had in an earlier commit

    @property
    def key(self) -> str:
        return (
            self.known_as
            or f"{self.file}:{self.line}: {self.before.strip()} -> {self.after.strip()}"
        )

    @property
    def module(self) -> str:
        parts = self.file.split("/")
        return parts[1] if parts[0] == "src" else "ext" if parts[1] == "ext" else "numba"


def result_of(row: dict[str, str]) -> str:
    """The result of a row; a survivor that is listed is equivalent."""
    change = re.sub(r":\d+:", ":", row["mutant"], count=1)
    if row["result"] == "survived" and (change in EQUIVALENT or ASSERTION.search(change)):
        return "equivalent"
    return row["result"]


def lines_of_test_builds(text: str) -> set[int]:
    """Lines that have an effect only in other builds, for tests and measurements: those behind
    #ifdef TARN_..., calls of TARN_WINDOW(), and `if (TARN_MUTATION(name)` with its body."""
    found: set[int] = set()
    in_directive, edge = False, -1  # edge: the indentation of such an `if`
    for number, line in enumerate(text.splitlines()):
        indentation = len(line) - len(line.lstrip())
        if line.startswith(("#ifdef TARN_", "#else", "#endif")):
            in_directive = line.startswith("#ifdef")
        if line.strip() and indentation <= edge:
            edge = -1
        if re.match(r" +if \(TARN_MUTATION\(\w+\)(\)| &&)", line):
            edge = indentation
        if in_directive or edge >= 0 or "TARN_WINDOW(" in line:
            found.add(number)
    return found


def code_lines(text: str) -> list[tuple[int, str]]:
    """Lines of functions: without comments, directives, declarations at the left edge, and lines
    that do nothing in this build."""
    found, in_comment = [], False
    skipped = lines_of_test_builds(text)
    for number, line in enumerate(text.splitlines()):
        begins = line.lstrip().startswith("/*")
        is_code = not in_comment and not begins and number not in skipped
        if is_code and line.startswith("    ") and '"' not in line:
            found.append((number, line))
        in_comment = (in_comment or begins) and "*/" not in line
    return found


def python_lines(text: str) -> list[tuple[int, str]]:
    """Lines of functions of a Python file: without comments and docstrings."""
    found, in_text = [], False
    for number, line in enumerate(text.splitlines()):
        if not in_text and line.startswith("    ") and '"' not in line and "#" not in line:
            found.append((number, line))
        in_text ^= line.count('"""') % 2 == 1
    return found


def mutants_of(file: pathlib.Path) -> list[Mutant]:
    found, text = [], (TREE / file).read_text()
    is_python = file.suffix == ".py"
    operators = PYTHON_OPERATORS if is_python else OPERATORS
    for number, line in python_lines(text) if is_python else code_lines(text):
        for pattern, replacement in operators:
            for match in re.finditer(pattern, line):
                after = line[: match.start()] + match.expand(replacement) + line[match.end() :]
                found.append(Mutant(str(file), number, line, after))
    return found


def choose(seed: int, count: int, modules: list[str], names: str) -> list[Mutant]:
    """The same mutants in the same order for a seed: no module has more than its part."""
    source = random.Random(seed)
    by_module = {}
    for module in modules:
        files = sorted(file for file in TREE.glob(SOURCES[module]) if re.search(names, file.name))
        every = [mutant for file in files for mutant in mutants_of(file.relative_to(TREE))]
        by_module[module] = source.sample(every, min(len(every), count))
    chosen = []
    while len(chosen) < count and any(by_module.values()):
        for module in modules:
            if by_module[module]:
                chosen.append(by_module[module].pop())
    return chosen[:count]


def found_again(key: str) -> Mutant | None:
    """The mutant of an earlier commit, at the nearest line of the same text. None: it has gone."""
    file, number, change = key.split(":", 2)
    pieces = change.strip().split(" -> ")
    lines = (TREE / file).read_text().splitlines() if (TREE / file).exists() else []
    for split in range(1, len(pieces)):
        before, after = " -> ".join(pieces[:split]), " -> ".join(pieces[split:])
        places = [place for place, line in enumerate(lines) if line.strip() == before]
        if places:
            place = min(places, key=lambda place: abs(place - int(number)))
            changed = lines[place].replace(before, after)
            return Mutant(file, place, lines[place], changed, known_as=key)
    return None


def adopt() -> None:
    """Become the parent of what tests leave behind, and end in order on SIGTERM."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutate.py: ended"))


def end_children() -> None:
    """End the processes that a mutant's tests left: children that wait or spin for ever."""
    own = pathlib.Path(f"/proc/self/task/{os.getpid()}/children")
    while children := own.read_text().split():
        for child in map(int, children):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def run(*command: str, limit: float = 1800) -> tuple[int, str]:
    """The exit status and the output; 124 after the limit."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit, check=False,
            env={**os.environ, "CTEST_OUTPUT_ON_FAILURE": "0", "TARN_DRIVER": "sim",
                 "LSAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=0"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124, "too long"
    return done.returncode, done.stdout.decode(errors="replace")


def targets_of(module: str) -> list[str]:
    """The libraries that a change of the module changes."""
    if module in TESTS:
        return ["tarn", "tarn_inside"]
    return ["tarn_python", "tarn_nrt_python", "tarn_sim", "tarn_sim_alias", "tarn_cli"]


def share() -> None:
    """Have the tests of internals in the copy link a shared library."""
    for name, before, after in SHARED:
        path = TREE / name
        if before not in path.read_text():
            sys.exit(f"mutate.py: {name} has no {before}")
        path.write_text(path.read_text().replace(before, after))
    for path in TREE.glob("src/**/*.h"):
        path.write_text(path.read_text().replace('visibility("hidden")', 'visibility("default")'))


def make_venv() -> None:
    """Make an environment with links to the package of the tree and the libraries of the build,
    and after them the packages of .venv."""
    run(str(PYTHON), "-m", "venv", "--clear", "--without-pip", str(VENV))
    (site,) = VENV.glob("lib/python3*/site-packages")
    (packages,) = pathlib.Path(".venv").glob("lib/python3*/site-packages")
    (site / "lent.pth").write_text(f"import site; site.addsitedir({str(packages.absolute())!r})\n")
    (site / "tarn").mkdir()
    for path in (*(TREE / "python/tarn").iterdir(), *(PYTHON_BUILD / "python/tarn").glob("*.so"),
                 PYTHON_BUILD / "lib", TREE / "include"):  # fmt: skip
        (site / "tarn" / path.name).symlink_to(path.absolute())
    for path in (TREE / "python").glob("*.p*"):
        (site / path.name).symlink_to(path.absolute())
    shutil.copy(PYTHON_BUILD / "bin/tarn", VENV / "bin")  # it runs the Python beside it


def prepare(modules: list[str]) -> None:
    """Build the last commit, and see all tests pass."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
    stamp = FOLDER / "commit"
    if not stamp.exists() or stamp.read_text() != commit:
        subprocess.run(["rm", "-rf", TREE], check=True)
        TREE.mkdir()
        archive = subprocess.Popen(["git", "archive", "HEAD"], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", TREE], stdin=archive.stdout, check=True)
        share()
        ORIGINAL.unlink(missing_ok=True)
        stamp.write_text(commit)
    restore()
    c_modules = [module for module in modules if module in TESTS]
    if c_modules:
        make_c_build()
    for module in c_modules:
        run_tests_unchanged(module)
    costs.cache_clear()  # each test has run
    if c_modules != modules:
        make_build(
            PYTHON_BUILD, "-DTARN_TESTS=OFF", "-DTARN_PYTHON=ON", f"-DPython_EXECUTABLE={PYTHON}"
        )
        make_venv()


def make_c_build() -> None:
    """Build the tests in C with the leak checker. It crashes on some machines as a library is loaded;
    there they are built without it."""
    make_build(BUILD, "-DTARN_TESTS=ON", "-DTARN_PYTHON=OFF", "-DTARN_SANITIZE=leak")
    if run_tests([TEST_THAT_LOADS], TEST_LIMIT_S)[0] != 0:
        print("mutate.py: LeakSanitizer does not work here; leaks are not found", flush=True)
        make_build(BUILD, "-DTARN_TESTS=ON", "-DTARN_PYTHON=OFF", "-DTARN_SANITIZE=")


def make_build(folder: pathlib.Path, *options: str) -> None:
    """Build the copy of the commit."""
    code, output = run(
        "cmake", "-G", "Ninja", "-S", str(TREE), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Debug",
        "-DTARN_PRUNE=OFF", "-DTARN_WERROR=OFF", "-DTARN_EXAMPLES=OFF", *options,
        "-DCMAKE_LINK_DEPENDS_NO_SHARED=ON",
        "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,-Bsymbolic-functions",  # the extension has functions of these names
    )  # fmt: skip
    if code == 0:
        code, output = run("cmake", "--build", str(folder), "--", "--quiet")
    if code != 0:
        sys.exit(f"mutate.py: the build fails: {output[-2000:]}")


def build(module: str) -> tuple[int, str]:
    folder = BUILD if module in TESTS else PYTHON_BUILD
    return run("cmake", "--build", str(folder), "--target", *targets_of(module), "--", "--quiet")


@functools.cache
def costs(module: str) -> dict[str, float]:
    """The tests of a module, and the seconds that each took."""
    _, output = run("ctest", "--test-dir", str(BUILD), "-N", "-R", TESTS[module], "-E", WITHOUT)
    known = dict.fromkeys(re.findall(r"Test +#\d+: (\S+)", output), 0.0)
    data = BUILD / "Testing/Temporary/CTestCostData.txt"
    for line in data.read_text().splitlines() if data.exists() else ():
        name, _, seconds = (line.split() + ["", ""])[:3]
        if name in known and seconds:  # the names of the last failures follow alone
            known[name] = float(seconds)
    return {name: seconds for name, seconds in known.items() if name not in FAILING}


def parts(module: str, stem: str) -> list[list[str]]:
    """The tests of a module in the order in which they find most: those of the file, those that take
    under a second, the others."""
    names = [name for name in costs(module) if FOR_ITS_FILE.get(name, stem) == stem]
    own = [name for name in names if stem in name]
    quick = [name for name in names if costs(module)[name] < 1 and name not in own]
    slow = [name for name in names if name not in own + quick]
    return [part for part in (own, quick, slow) if part]


def run_tests(names: Collection[str], limit: float, *options: str) -> tuple[int, str]:
    return run(
        "ctest", "--test-dir", str(BUILD), "-R", f"^({'|'.join(names)})$", "--timeout", "60", *options,
        limit=limit,
    )  # fmt: skip


def passes(names: list[str], limit: float) -> bool:
    """Run these tests until one fails, or until the limit."""
    jobs = "1" if multiprocessing.parent_process() else str(os.cpu_count())
    return run_tests(names, limit, "--stop-on-failure", "-j", jobs)[0] == 0


def run_tests_unchanged(module: str) -> None:
    """Run the tests of a module without a mutant, and once more alone those that failed."""
    _, output = run_tests(costs(module), TEST_LIMIT_S, "-j", str(os.cpu_count()))
    failed = re.findall(r"^\s*\d+ - (\S+) \(", output, re.MULTILINE)
    if "Total Test time" not in output:
        sys.exit(f"mutate.py: the tests of {module} did not run: {output[-2000:]}")
    for name in failed:
        code, output = run_tests([name], TEST_LIMIT_S, "--output-on-failure")
        print(f"mutate.py: {name} failed without a mutant", flush=True)
        if code != 0:
            FAILING.add(name)
            print(output[-4000:], flush=True)


def test(module: str, stem: str) -> str:
    """Run the tests of a module. A test has a limit of its own, which is long where a mutant hangs."""
    for names in parts(module, stem):
        if not passes(names, 60 + 4 * sum(costs(module)[name] for name in names)):
            return "killed"
    return "survived"


def run_pytest(names: list[str], limit: float) -> int:
    """Run these modules of python/tests until one test fails, or until the limit."""
    code, _ = run(
        str((VENV / "bin/python").absolute()), "-m", "pytest", "-q", "-x", "-m", "not full",
        "-p", "no:cacheprovider", *(str(TREE / f"python/tests/test_{name}.py") for name in names),
        limit=limit,
    )  # fmt: skip
    return code


def note_seconds(name: str) -> None:
    began = time.monotonic()
    if run_pytest([name], TEST_LIMIT_S) == 0:
        SECONDS[name] = time.monotonic() - began
    else:
        print(f"mutate.py: test_{name}.py fails without a mutant", flush=True)


def run_unchanged(mutants: list[Mutant], workers: int) -> None:
    """Run the tests of these mutants in Python without a mutant: the ones that fail judge none."""
    stems = {pathlib.Path(mutant.file).stem for mutant in mutants if mutant.module not in TESTS}
    names = sorted({name for stem in stems for name in PYTHON_TESTS[stem].split()})
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        list(pool.map(note_seconds, names))


def test_python(stem: str) -> str | None:
    """Run the tests of a file of the extension, or of tarn/numba.py."""
    names = [name for name in PYTHON_TESTS[stem].split() if name in SECONDS]
    if not names:
        return None
    limit = 60 + 4 * sum(SECONDS[name] for name in names)
    return "survived" if run_pytest(names, limit) == 0 else "killed"


def change(mutant: Mutant) -> None:
    """Change the file of a mutant, and keep its text."""
    text = (TREE / mutant.file).read_text()
    ORIGINAL.write_text(json.dumps({"file": mutant.file, "text": text}))
    lines = text.splitlines(keepends=True)
    lines[mutant.line] = mutant.after + "\n"
    (TREE / mutant.file).write_text("".join(lines))


def restore() -> None:
    """Restore a changed file, also one of a run that was killed."""
    if ORIGINAL.exists():
        original = json.loads(ORIGINAL.read_text())
        (TREE / original["file"]).write_text(original["text"])
        ORIGINAL.unlink()


def judge(mutant: Mutant) -> str | None:
    """Build and test one mutant; the file is restored. None: all its tests fail without it."""
    path = TREE / mutant.file
    change(mutant)
    try:
        code, _ = build(mutant.module)
        if code != 0:
            return "rejected"
        return test(mutant.module, path.stem) if mutant.module in TESTS else test_python(path.stem)
    finally:
        restore()
        end_children()


def enter_copy() -> None:
    """Give this worker a copy of FOLDER, mounted there for this process and its children."""
    adopt()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    copy = COPIES / str(os.getpid())
    subprocess.run(["cp", "-a", "--reflink=auto", FOLDER, copy], check=True)
    new_mount_namespace = 0x20000
    ctypes.CDLL(None).unshare(new_mount_namespace)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", copy, FOLDER], check=True)


def judge_until(until: float, mutant: Mutant) -> tuple[Mutant, str | None]:
    """Judge a mutant, unless the time is over."""
    return mutant, judge(mutant) if time.monotonic() < until else None


def judged(
    mutants: list[Mutant], until: float, workers: int
) -> Iterator[tuple[Mutant, str | None]]:
    """Judge the mutants in this process, or with workers."""
    judge_one = functools.partial(judge_until, until)
    if workers == 1:
        yield from map(judge_one, mutants)
        return
    shutil.rmtree(COPIES, ignore_errors=True)
    COPIES.mkdir()
    context = multiprocessing.get_context("fork")
    with context.Pool(workers, enter_copy) as pool:
        yield from pool.imap_unordered(judge_one, mutants)
    shutil.rmtree(COPIES)


def results() -> dict[str, dict[str, str]]:
    if not RESULTS.exists():
        return {}
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    return {row["mutant"]: row for row in rows}


def keep(row: dict[str, str]) -> None:
    with RESULTS.open("a") as file:
        file.write(json.dumps(row) + "\n")


def report() -> None:
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for row in results().values():
        result = result_of(row)
        counts[row["module"]][result] += 1
        counts["all"][result] += 1
        if result == "survived":
            print("survived:", row["mutant"])
    for module, found in counts.items():
        judged = found["killed"] + found["survived"]
        part = f", {100 * found['killed'] / judged:.0f} % killed" if judged else ""
        print(f"{module}: {dict(found)}{part}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--modules", default=",".join(SOURCES))
    parser.add_argument("--files", default=".", help="names of the files to change: a regex")
    parser.add_argument("--minutes", type=float, default=1e9, help="end after this time")
    parser.add_argument("--again", action="store_true", help="judge the survivors once more")
    parser.add_argument("--workers", type=int, default=1, help="mutants at once")
    parser.add_argument("--nice", type=int, default=19, help="added to the niceness")
    parser.add_argument("--report", action="store_true", help="print the results, and end")
    given = parser.parse_args()
    if given.workers > 1 and run("unshare", "--mount", "true")[0] != 0:
        sys.exit("mutate.py: --workers needs root, for mounts of its own")
    if not given.report:
        os.nice(given.nice)
        adopt()
        modules = given.modules.split(",")
        prepare(modules)
        known, until = results(), time.monotonic() + 60 * given.minutes
        if given.again:
            rows = [row for row in known.values() if row["module"] in modules]
            survivors = [row["mutant"] for row in rows if result_of(row) == "survived"]
            again = {key: found_again(key) for key in survivors}
            for key in survivors:
                if not again[key]:
                    keep({**known[key], "result": "gone"})
            left = [mutant for mutant in again.values() if mutant]
        else:
            chosen = choose(given.seed, given.count, modules, given.files)
            left = [mutant for mutant in chosen if mutant.key not in known]
        run_unchanged(left, given.workers)
        for mutant, result in judged(left, until, given.workers):
            if result is not None:
                keep({"mutant": mutant.key, "module": mutant.module, "result": result})
    report()
    return 0


if __name__ == "__main__":
    sys.exit(main())
