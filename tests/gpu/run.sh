#!/bin/sh
# run.sh -- builds Tarn on a machine with a GPU and runs its tests there.
#
#     PYTHON=python3 OUT=folder tests/gpu/run.sh tests        one call of ten minutes
#     PYTHON=python3 OUT=folder tests/gpu/run.sh numba        another one
#     PYTHON=python3 OUT=folder tests/gpu/run.sh PHASE...     these phases alone
#
# `tests` runs the C and the Python tests on the real driver, the order of memory and the demo.
# `numba` runs numba-cuda's own tests under Numba's manager, under Tarn and on CuPy's pool,
# compared test by test, the facts about the driver, and the cost of memory. Both first build
# what is missing. Phases that measure the memory of the GPU run alone, the others side by side.
#
# Each phase has a limit, and a failed phase does not stop the next. A call takes at most BUDGET
# seconds. The summary comes last and names the phases that were cut. All output is in
# $OUT/logs.tar.gz. No network is needed: see prepare.sh and README.md.
set -u
cd "$(dirname "$0")/../.." || exit 1

PYTHON=$(command -v "${PYTHON:-python3}") && export PYTHON
OUT=${OUT:-build/gpu-out}
BUDGET=${BUDGET:-570}
logs=build/gpu
jobs=$(nproc)
. tools/setup.sh
. tests/gpu/common.sh

unset TARN_DRIVER TARN_SIM TARN_LOG TARN_RESOURCE NUMBA_CUDA_MEMORY_MANAGER PYTHONPATH
export CMAKE_PREFIX_PATH="$PWD/.gpu/usr" CPATH="$PWD/.gpu/usr/include"

seconds_left() {
    echo $((BUDGET - $(date +%s) + began))
}

# phase NAME SECONDS COMMAND...: run a function of this file, or a program, in a separate
# process that a time limit can stop.
phase() {
    name=$1 limit=$2 started=$(date +%s); shift 2
    left=$(seconds_left)
    [ "$limit" -le "$left" ] || limit=$left
    if [ "$limit" -lt 5 ]; then
        line="$name: CUT, no time was left"
    else
        timeout -s INT -k 10 "$limit" sh tests/gpu/run.sh --only "$@" \
            >"$logs/$name.log" 2>&1 </dev/null
        code=$?
        line="$name: exit $code after $(($(date +%s) - started)) s of $limit"
        [ $code -ne 124 ] && [ $code -ne 137 ] || line="$line, CUT"
        [ $code -eq 0 ] || { grep -E '(FAILED|ERROR) python|\*\*\*' "$logs/$name.log"; tail -n 40 "$logs/$name.log"; }
    fi
    echo "== $line"
    echo "$line" >>"$logs/phases.txt"
}

machine() {
    uname -a; nvidia-smi -L; cmake --version; cc --version; "$PYTHON" --version
}

# .venv has the packages of .whl, and after them those of PYTHON's own environment.
environment() {
    rm -rf .venv && "$PYTHON" -m venv .venv &&
        .venv/bin/pip install -q --no-index --no-deps --no-compile .whl/*.whl &&
        lend_packages .venv &&
        cp constraints.txt .venv/made-from.txt &&
        .venv/bin/python -c 'from numba import cuda; import numba_cuda, numpy, rmm; assert "numba_cuda" in cuda.__file__, cuda.__file__; print(numba_cuda.__version__, numpy.__version__)'
}

# Tests use the driver of the machine: TARN_DRIVER is not set for them.
build() {
    cmake --preset release -DTARN_TEST_DRIVER= && cmake --build --preset release -j "$jobs"
}

# Without tests that need the simulator: torture makes its calls fail, unit-sim inspects it.
# Without unit-forks_held: it makes a process with a context for each of some 190 places.
c_tests() {
    name=${1:-c-gpu}
    [ $# -eq 0 ] || shift
    ctest --preset release --timeout 200 "$@" \
        -E '^(torture|unit-sim|unit-forks_held|architecture|headers|driver-facts|order|model|bench)' \
        --output-junit "$PWD/$logs/$name.xml" --test-output-size-passed 10000000
}

# Compare this driver with earlier runs on H200s; print its results for the facts of unasked.txt.
driver_facts() {
    build/release/bin/driver_facts >"$logs/facts.txt" &&
        tests/driver/check.py --facts "$logs/facts.txt"
}

# A million reuses in total; kernels write and verify. order_checked runs a few of them under
# the memory checker, if it is installed. (It ignores failed driver calls: some only test what
# the driver allows.)
order() {
    build/release/bin/order --reuses 72000 --seeds 2
}

order_checked() {
    checker=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}"/bin/compute-sanitizer 2>/dev/null)
    [ -n "$checker" ] || { echo "there is no compute-sanitizer here"; return 0; }
    "$checker" --tool memcheck --report-api-errors no --error-exitcode 1 \
        build/release/bin/order --reuses 300 --seeds 1
}

wheel() {
    build_wheel . && install_wheel .venv && .venv/bin/tarn info
}

# Without the pruner's library, which needs LLVM's development files; the machine lacks them. So
# the files about it are ignored, and elsewhere the tests with the mark `pruner` are left out. -v:
# the log of a phase that was cut names the tests that failed.
python_tests() {
    name=$1; shift
    .venv/bin/python -m pytest -v -p no:cacheprovider --tb=short -rfE "$@" \
        --ignore-glob='*/test_*prune*.py' -m 'not pruner' --junitxml="$logs/$name.xml" python/tests
}

# CuPy's pool under Numba, if CuPy is installed.
cupy_tests() {
    .venv/bin/python -m pytest -q -p no:cacheprovider --junitxml="$logs/cupy-gpu.xml" tests/gpu/test_cupy.py
}

# Two processes with a pool each return idle memory to each other.
two_processes() {
    .venv/bin/python -m pytest -q -s -p no:cacheprovider --junitxml="$logs/two-processes-gpu.xml" \
        tests/gpu/test_two_processes.py
}

# tarn.use(), CuPy, cuda.core, JAX and PyTorch beside each other, as far as they are installed.
# Alone: tests/gpu/run.sh environment wheel frameworks
frameworks() {
    .venv/bin/python -m pytest -q -rs --durations=10 -p no:cacheprovider \
        --junitxml="$logs/frameworks-gpu.xml" tests/gpu/test_gpu_*.py
}

# tarn.use() on two devices. Alone, on a machine with two GPUs:
# tests/gpu/run.sh environment wheel two-devices
two_devices() {
    .venv/bin/python -m pytest -q -rs -p no:cacheprovider --junitxml="$logs/two-devices-gpu.xml" \
        python/tests/test_two_devices.py tests/gpu/test_gpu_programs.py -k two_devices
}

# Show that numba-cuda's device runtime frees a block twice, and Tarn's does not. Alone:
# tests/gpu/run.sh environment wheel device-nrt
device_nrt() {
    .venv/bin/python tests/gpu/nrt_decref.py && .venv/bin/python tests/gpu/nrt_device_kinds.py
}

# Free an array while a kernel reads it: no element may be wrong, on any streams.
no_stream() {
    .venv/bin/python tests/gpu/no_stream.py
}

numba_tests() {
    .venv/bin/python tools/numba_suite.py --manager "$1" --jobs 6 --out "$PWD/$logs/$1.json"
}

compared() {
    .venv/bin/python tools/numba_suite.py compare "$logs/numba.json" "$logs/$1.json" \
        --junit "$PWD/$logs/$1-compared.xml"
}

# The cost of an array, under each manager.
numba_cost() {
    .venv/bin/python bench/micro/numba_memory.py
}

# The cost of opening memory of another process.
ipc_cost() {
    build/release/bin/bench-ipc
}

# numba-cuda's tests with the plugin on CuPy's pool, named by its module.
numba_on_cupy() {
    export PYTHONPATH="$PWD/examples/numba/plugins"
    numba_tests nbep7_cupy
}

# All of numba-cuda's tests, under three managers at once.
numba_all() {
    numba_tests numba & own=$!
    numba_tests tarn & tarn=$!
    numba_on_cupy & cupy=$!
    wait $own; wait $tarn; wait $cupy
    compared tarn
    good=$?
    compared nbep7_cupy || good=1
    return $good
}

# --- the two calls ----------------------------------------------------------------------------

setup() {
    phase machine 20 machine
    cmp -s constraints.txt .venv/made-from.txt || phase environment 90 environment
    phase build 90 build
    phase wheel 90 wheel
}

# Python tests that measure the memory of the whole device.
alone='freed_memory_is_free or test_a_run_reports_its_memory or test_together'

tests() {
    setup
    phase c-tests 330 c_tests c-gpu -j 8 -LE memory &
    phase python-tests 370 python_tests python-gpu -n $((jobs / 2)) -k "not ($alone)" &
    wait
    phase c-memory 90 c_tests c-memory-gpu -j 1 -L memory
    phase python-memory 75 python_tests python-memory-gpu -k "$alone"
    phase two-processes 60 two_processes
    phase order 120 order
    phase no_stream 60 no_stream
    phase demo 60 ./demo
}

numba() {
    setup
    phase numba-all 420 numba_all
    phase cupy-tests 60 cupy_tests
    phase frameworks 120 frameworks
    phase order-checked 60 order_checked
    phase device-nrt 60 device_nrt
    phase numba-cost 110 numba_cost
    phase ipc-cost 30 ipc_cost
    phase driver-facts 300 driver_facts # 90 to 190 s by machine; it gets the time that is left
}

# one NAME: run one phase; its function has the name with underscores.
one() {
    phase "$1" 570 "$(echo "$1" | tr - _)"
}

if [ "${1:-}" = --only ]; then
    shift
    "$@"
    exit
fi
[ $# -gt 0 ] || { sed -n '2,/^set/p' "$0" >&2; exit 2; }

began=$(date +%s)
rm -rf "$logs" && mkdir -p "$logs" "$OUT"
for wanted; do
    case $wanted in
    tests | numba) "$wanted" ;;
    *) one "$wanted" ;;
    esac
done

tar -czf "$OUT/logs.tar.gz" -C build gpu
echo
set -- "$logs"/*.xml
{
    cat "$logs/phases.txt"
    [ ! -e "$1" ] || tools/count_results.py "$@"
} | tee "$OUT/summary.txt"
! grep -v ': exit 0 ' "$logs/phases.txt" | grep -q .
