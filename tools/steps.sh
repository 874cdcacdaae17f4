# steps.sh -- the commands of ./check's steps; tools/steps.py names them.
#
# Source tools/setup.sh before this file. RESULTS is the folder for results, STEP the name of
# the step, JOBS the number of processes that may run at once.
# shellcheck shell=sh
set -u

# The release build, the wheels and an installation test compile the same files with the same
# flags. ccache keeps the objects; without it they are compiled again.
share_objects() {
    command -v ccache >/dev/null || return 0
    export CMAKE_C_COMPILER_LAUNCHER="${CMAKE_C_COMPILER_LAUNCHER:-ccache}"
    export CCACHE_DIR="${CCACHE_DIR:-$PWD/build/ccache}" CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
}

build_release() {
    share_objects && build release
}

# Both wheels, with the compiler and the flags of the release build. The launcher is named as a
# definition, since CMake reads the variable only in a new folder, and ./demo may have made it.
wheels() {
    share_objects &&
        CC=${CC:-cc} SKBUILD_CMAKE_DEFINE="TARN_WERROR=ON;CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER:-}" \
        build_wheel
}

wheel_policy() {
    .venv-lint/bin/python tools/audit.py build/wheel/*.whl
}

# build PRESET [BUILD PRESET]
build() {
    cmake --preset "$1" && cmake --build --preset "${2:-$1}" -j "$JOBS" -- --quiet &&
        { [ "$1" != release ] || ln -sf build/release/compile_commands.json .; }
}

c_tests() {
    preset=$1; shift
    ctest --preset "$preset" -j "$JOBS" --output-junit "$PWD/$RESULTS/$STEP.xml" \
        --test-output-size-passed 10000000 --test-output-size-failed 10000000 "$@"
}

c_asan_repetitions() {
    TARN_PROGRAMS=10000 c_tests asan -R '^unit-sim-property$' &&
        build/asan/bin/order --reuses 120 --seeds 3
}

# gcc and clang, each with the four build types.
builds() {
    for compiler in gcc clang; do
        for type in Debug Release RelWithDebInfo MinSizeRel; do
            echo "== $compiler, $type"
            CC=$compiler cmake -G Ninja -S . -B "build/$compiler-$type" \
                -DCMAKE_BUILD_TYPE="$type" -DTARN_TESTS=ON -DTARN_WERROR=ON &&
                cmake --build "build/$compiler-$type" -j "$JOBS" -- --quiet || return 1
        done
    done
}

# Run a fuzz target: fuzz NAME SECONDS BYTES [FOLDER], with inputs of at most BYTES bytes. The
# folder has inputs to begin with.
fuzz() {
    target=fuzz-$1 folder=build/fuzz/$1 seconds=$2 bytes=$3; shift 3
    CC=clang cmake -G Ninja -S . -B build/fuzz -DTARN_FUZZ=ON -DTARN_EXAMPLES=OFF -DTARN_TESTS=ON \
        -DTARN_SANITIZE=address,fuzzer-no-link &&
        cmake --build build/fuzz -j "$JOBS" --target "$target" -- --quiet &&
        mkdir -p "$folder" &&
        "build/fuzz/bin/$target" -max_total_time="$seconds" -max_len="$bytes" \
            -artifact_prefix=build/fuzz/ "$folder" "$@"
}

# fuzz_all SECONDS: each target with its inputs in the repository, and that long with others.
fuzz_all() {
    for name in reader plan options ipc fabric resource manager environment; do
        fuzz $name "$1" 2000 tests/fuzz/$name || return 1
    done
    fuzz prune "$1" 600
}

# soak_part PART PARTS: a part of the soak of two hours; the last one judges all.
soak_part() {
    part=$1 parts=$2
    [ "$part" -gt 1 ] || rm -rf build/soak
    set -- build/soak --build build/release --seconds 7200
    [ "$part" -eq "$parts" ] || set -- "$@" --stop-after $((7200 / parts))
    .venv/bin/python tests/soak/run.py "$@"
    code=$?
    if [ "$part" -eq "$parts" ]; then
        return $code
    fi
    [ $code -eq 75 ] # time is left
}

# Tests without threads and without RLIMIT_AS, which QEMU ignores. QEMU 7.2 on x86 lets a seq_cst
# load pass an earlier seq_cst store (stlr, ldar), which no processor with aarch64 does.
aarch64_tests() {
    echo unit-base-hash unit-base-map unit-base-size unit-nrt-api unit-pool-heap unit-trace-reader
}

# The library, the simulator, the tool and some tests for aarch64. The emulator shows nothing about
# the order of memory; tests/weak does.
aarch64() {
    libraries=$PWD/.aarch64/usr/lib/aarch64-linux-gnu
    cmake -G Ninja -S . -B build/aarch64 -DCMAKE_SYSTEM_NAME=Linux \
        -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
        -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu -DCMAKE_FIND_ROOT_PATH="$PWD/.aarch64" \
        -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-aarch64-static;-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=$libraries" \
        -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTARN_TESTS=ON -DTARN_EXAMPLES=OFF -DTARN_PRUNE=OFF \
        -DTARN_WERROR=ON || return 1
    # shellcheck disable=SC2046 # a list of targets
    cmake --build build/aarch64 -j "$JOBS" --target tarn tarn_sim tarn_sim_alias tarn_cli \
        $(aarch64_tests) -- --quiet &&
        ctest --test-dir build/aarch64 -j "$JOBS" --output-on-failure \
            --output-junit "$PWD/$RESULTS/$STEP.xml" -R "^($(aarch64_tests | tr ' ' '|'))\$"
}

# coverage [--extension]: lines and branches that the tests reach; the list of the others is a file.
coverage() {
    python3 tools/line_coverage.py --jobs "$JOBS" --uncovered build/coverage/uncovered.txt "$@"
}

# host_failures ARGUMENT...: C tests with a preloaded library that makes allocations fail.
host_failures() {
    python3 tools/host_failures.py --library build/release/lib/libtarn_failing.so \
        --bin build/release/bin --driver build/release/lib/tarn/sim/libcuda.so.1 --jobs "$JOBS" "$@"
}

# Without the tests for --full, unless the arguments have another -m.
py_tests() {
    .venv/bin/python -m pytest -m "not full" -q -n "$JOBS" --dist loadfile --junitxml="$RESULTS/$STEP.xml" "$@"
}

# The build with ASan and UBSan, and a package of it: links to the modules of this checkout, and
# the extension and libtarn of that build.
build_asan() {
    cmake --preset asan -DTARN_PYTHON=ON -DPython_EXECUTABLE="$PYTHON" &&
        cmake --build --preset asan -j "$JOBS" -- --quiet || return 1
    package=build/asan/package/tarn
    rm -rf build/asan/package
    mkdir -p $package &&
        ln -s "$PWD"/python/tarn/* "$PWD"/build/asan/python/tarn/*.so "$PWD/build/asan/lib" \
            "$PWD/include" $package
}

# Python's own small blocks come from malloc, so that ASan checks them too. Memory that Python
# keeps until its end is not a leak of Tarn.
under_asan() {
    LD_PRELOAD=$(cc -print-file-name=libasan.so) PYTHONMALLOC=malloc \
        PYTHONPATH="$PWD/build/asan/package" \
        ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 "$@"
}

# asan_py_tests MODULE...: python/tests/test_MODULE.py.
asan_py_tests() {
    for module; do
        shift
        set -- "$@" "python/tests/test_$module.py"
    done
    under_asan .venv/bin/python -m pytest -q -n "$JOBS" --junitxml="$RESULTS/$STEP.xml" "$@"
}

# Without the tests that query freed blocks on purpose.
asan_py_tests_full() {
    export PYTEST_ADDOPTS='-k "not gone_is_none and not second_release"'
    asan_py_tests captures registry errors exit leaks written_in_python \
        streamless torture ipc numba numba_resources numba_c_managers nrt_meminfo nrt_stats \
        nrt_numpy nrt_recursion
}

# PyTorch on the simulator: a preloaded library, CUDART, stands for the CUDA runtime.
torch_cudart() {
    CUDART=$PWD/build/release/libtarn-cudart.so
    simulator=$PWD/build/release/lib/tarn/sim
    headers=$(echo .venv-torch/lib/python3*/site-packages/nvidia/cu13/include)
    cc -std=gnu11 -O1 -fPIC -shared "-I$headers" python/tests/torch_cudart.c -o "$CUDART" \
        "-L$simulator" -l:libcuda.so.1 "-Wl,-rpath,$simulator"
}

torch_tests() {
    torch_cudart || return 1
    TARN_DRIVER=$simulator/libcuda.so.1 TARN_TORCH_CUDART=$CUDART TARN_TORCH_JOBS=$JOBS \
        .venv-torch/bin/python -m pytest -q --junitxml="$RESULTS/$STEP.xml" tests/gpu/test_torch.py
}

# All four frameworks in one process: the packages of .venv, and after them those of .venv-torch.
together_tests() {
    torch_cudart && "$PYTHON" -m venv --without-pip --clear .venv-together || return 1
    own=$(echo "$PWD"/.venv/lib/python3*/site-packages)
    torch=$(echo "$PWD"/.venv-torch/lib/python3*/site-packages)
    site=$(echo .venv-together/lib/python3*/site-packages)
    echo "import site, sys; site.addsitedir('$own'); sys.path.append('$torch')" >"$site/lent.pth"
    ln -s "$own/tarn" "$site/tarn" && # for the libraries of the tool
        cp .venv/bin/tarn .venv-together/bin || return 1 # it runs the Python beside it
    TARN_DRIVER=sim TARN_TORCH_CUDART=$CUDART \
        .venv-together/bin/python -m pytest -q --junitxml="$RESULTS/$STEP.xml" \
        python/tests/test_together.py python/tests/test_docs_stories.py \
        "python/tests/test_docs_tutorials.py::test_the_commands_of_a_page_print_what_it_shows[pytorch]"
}

numba_suite() {
    .venv/bin/python tools/numba_suite.py --jobs "$JOBS" --junit "$PWD/$RESULTS/$STEP.xml" \
        --out "$PWD/$RESULTS/$STEP.json" "$@"
}

numba_nrt_suite() {
    .venv-nrt/bin/python tools/numba_nrt_suite.py --jobs "$JOBS" \
        --junit "$PWD/$RESULTS/$STEP.xml" --out "$PWD/$RESULTS/$STEP.json" "$@"
}

# numba_version VERSION: tarn.nrt on an older Numba. Numba's own tests of its runtime have the same
# results on both cores, and Tarn's own tests of it pass.
numba_version() {
    numba_environment "$1" || return 1
    timeout 900 nice ".venv-numba-$1/bin/python" -m pytest -q -m "not full" \
        --junitxml="$RESULTS/$STEP.xml" python/tests/test_nrt_aot.py \
        python/tests/test_nrt_recursion.py python/tests/test_nrt_meminfo.py &&
        timeout 1800 nice ".venv-numba-$1/bin/python" tools/numba_nrt_suite.py --quick \
            --jobs "$JOBS" --junit "$PWD/$RESULTS/$STEP-suite.xml"
}

built_in_suite() {
    .debian-numba/python tools/numba_others.py built-in --jobs "$JOBS" \
        --junit "$PWD/$RESULTS/$STEP.xml" --out "$PWD/$RESULTS/$STEP.json"
}

# Run the commands of CONTRIBUTING.md in an empty folder; root runs them as another user.
contributing() {
    folder=$(mktemp -d) || return 1
    sed -n '/^git clone/,/^```/p' CONTRIBUTING.md | sed '/^```/,$d' >"$folder/commands"
    [ "$(wc -l <"$folder/commands")" -eq 5 ] || return 1
    git clone -q --bare . "$folder/tarn.git" || return 1
    other=
    if [ "$(id -u)" -eq 0 ]; then
        chown -R 65534:65534 "$folder" && chmod 755 "$folder" || return 1
        other="setpriv --reuid=65534 --regid=65534 --clear-groups"
    fi
    # shellcheck disable=SC2086 # a command and its options
    (cd "$folder" && env -i PATH=/usr/bin:/bin HOME="$folder" TARN_REPOSITORY="$folder/tarn.git" \
        $other sh -eux ./commands)
    code=$?
    rm -rf "$folder"
    return $code
}

prune_tests() {
    echo numba.tests.test_refop_pruning numba.tests.test_nrt numba.tests.test_listobject \
        numba.tests.test_dictobject
}

prune_compare() {
    .venv/bin/python tools/prune_compare.py "$@"
}

# Compare the results of both pruners on the unpruned modules of Numba's tests.
prune_corpus() {
    # shellcheck disable=SC2046 # a list of modules
    .venv/bin/python tools/prune_corpus.py "$RESULTS/corpus" $(prune_tests) \
        numba.tests.test_lists numba.tests.test_jitclasses &&
        prune_compare corpus "$RESULTS/corpus"
}

prune_numba() {
    # shellcheck disable=SC2046 # a list of modules
    .venv/bin/python tools/prune_numba.py "$1" $(prune_tests)
}

# --- style: every file in git ---------------------------------------------------------------

lint_format() {
    git ls-files -z '*.c' '*.h' '*.cpp' '*.hpp' '*.js' |
        xargs -0 .venv-lint/bin/clang-format --dry-run --Werror &&
        git ls-files -z '*.py' '*.pyi' | xargs -0 .venv-lint/bin/ruff format --check
}

lint_ruff() {
    git ls-files -z '*.py' '*.pyi' | xargs -0 .venv-lint/bin/ruff check
}

lint_spelling() {
    git ls-files -z ':!*.gz' ':!*.json' ':!LICENSE' | xargs -0 .venv-lint/bin/codespell
}

lint_shell() {
    git grep -lz -E '^#!/bin/(ba)?sh' -- ':!*.py' ':!*.md' |
        xargs -0 .venv-lint/bin/shellcheck -x tools/setup.sh tools/steps.sh tests/gpu/common.sh
}

lint_mypy() {
    .venv-lint/bin/mypy
}

# The C files that differ from the merge base with origin/main, or else from the previous commit.
lint_tidy() {
    base=$(git merge-base HEAD origin/main 2>/dev/null) || base=HEAD
    [ "$base" != "$(git rev-parse HEAD)" ] || base=HEAD~1
    git diff -z --name-only --diff-filter=d "$base" -- 'src/*.c' 'sim/*.c' 'cli/*.c' 'tests/*.c' |
        run_tidy
}

lint_tidy_all() {
    git ls-files -z -- 'src/*.c' 'sim/*.c' 'cli/*.c' | run_tidy
}

run_tidy() {
    xargs -0 -r -n 8 -P "$JOBS" .venv-lint/bin/clang-tidy --quiet -p build/release
}

# Make the site, build/site. Warnings are errors. An interrupted build leaves a search index that Sphinx
# warns of, so what it left is removed.
docs() {
    .venv/bin/python tools/commands.py .venv/bin/tarn --check || return 1
    [ -f build/docs/complete ] || rm -rf build/docs build/site
    rm -f build/docs/complete
    .venv-docs/bin/sphinx-build -q -W --keep-going -b html -d build/docs docs build/site || return 1
    touch build/docs/complete
}

# Build the reference of the C API with tools/reference.py.
reference() {
    "$PYTHON" tools/reference.py
}
