#!/bin/sh
# run.sh -- builds Tarn on a machine with a GPU and tries everything there, in one command.
#
#     PYTHON=python3 OUT=folder tests/gpu/run.sh [PHASE]...
#
# The facts about the driver, the C and the Python tests on the real driver, the demo, and
# numba-cuda's own tests under Numba's manager and under Tarn, compared; or those phases
# alone that are named. No network: see prepare.sh and README.md. Every
# phase has a limit of its own, a phase that fails does not stop the next, and the whole
# ends within BUDGET seconds. A short table comes last; all output is in $OUT/logs.tar.gz.
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

# phase NAME SECONDS COMMAND...: run a function of this file or a program, in a process of its
# own that can be stopped.
phase() {
    name=$1 limit=$2 started=$(date +%s); shift 2
    case " $wanted " in "  " | *" $name "*) ;; *) return ;; esac
    [ "$limit" -le "$(seconds_left)" ] || limit=$(seconds_left)
    if [ "$limit" -lt 5 ]; then
        line="$name: not run, no time left"
    else
        timeout -s INT -k 10 "$limit" sh tests/gpu/run.sh --only "$@" >$logs/$name.log 2>&1 </dev/null
        code=$?
        line="$name: exit $code after $(($(date +%s) - started)) s of $limit"
        [ $code -eq 0 ] || tail -n 40 $logs/$name.log
    fi
    echo "== $line"
    echo "$line" >>$logs/phases.txt
}

machine() {
    uname -a; nvidia-smi -L; cmake --version; cc --version; "$PYTHON" --version
}

# The packages of PYTHON's own environment, with those of .whl before them.
environment() {
    rm -rf .venv && "$PYTHON" -m venv .venv &&
        .venv/bin/pip install -q --no-index --no-deps --no-compile .whl/*.whl &&
        lend_packages .venv &&
        cp constraints.txt .venv/made-from.txt &&
        .venv/bin/python -c 'from numba import cuda; import numba_cuda, numpy, rmm; assert "numba_cuda" in cuda.__file__, cuda.__file__; print(numba_cuda.__version__, numpy.__version__)'
}

# Tests open the driver of the machine: no TARN_DRIVER is set for them.
build() {
    cmake --preset release -DTARN_TEST_DRIVER= && cmake --build --preset release -j "$jobs"
}

# One at a time, as some measure the memory of the card, which all share.
# Without what needs the stand-in: torture makes its calls fail, unit-sim looks inside it.
c_tests() {
    ctest --preset release -j 1 --timeout 60 -E '^(torture|unit-sim|house|headers|driver-facts|order|model|bench)' \
        --output-junit "$PWD/$logs/c-gpu.xml" --test-output-size-passed 10000000
}

# What this driver does, beside what H200s did before; unasked.txt gets its answers here.
driver_facts() {
    build/release/bin/driver_facts >$logs/facts.txt && tests/driver/check.py --facts $logs/facts.txt
}

# A million reuses in all, kernels write and verify; and a few under the memory checker,
# where that is. (Calls that are refused are no error: some ask what may be asked.)
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
    build_wheel && install_wheel .venv && .venv/bin/tarn info
}

# The pruner's library needs LLVM's development files, which are not there.
python_tests() {
    .venv/bin/python -m pytest -q -p no:cacheprovider --tb=short -rfE \
        --ignore-glob='*/test_*prune*.py' --junitxml=$logs/python-gpu.xml python/tests
}

# CuPy's pool under Numba, where there is a CuPy.
cupy_tests() {
    .venv/bin/python -m pytest -q -p no:cacheprovider --junitxml=$logs/cupy-gpu.xml tests/gpu/test_cupy.py
}

# Does numba-cuda's device runtime free twice, and does Tarn's not? By itself:
# tests/gpu/run.sh environment wheel device-nrt
device_nrt() {
    .venv/bin/python tests/gpu/nrt_decref.py
}

# An array goes while a kernel reads it: no element may be wrong, on whatever streams.
streamless() {
    .venv/bin/python tests/gpu/streamless.py
}

numba_tests() {
    .venv/bin/python tools/numba_suite.py --manager "$1" --jobs "$jobs" --out "$PWD/$logs/$1.json"
}

compared() {
    .venv/bin/python tools/numba_suite.py compare $logs/numba.json "$logs/$1.json" \
        --junit "$PWD/$logs/$1-compared.xml"
}

# What an array costs, under each manager.
numba_cost() {
    .venv/bin/python bench/micro/numba_memory.py
}

# What opening memory of another process costs.
ipc_cost() {
    build/release/bin/bench-ipc
}

# The plugin on CuPy's pool, by its module.
numba_on_cupy() {
    export PYTHONPATH="$PWD/examples/numba/plugins"
    numba_tests nbep7_cupy && compared nbep7_cupy
}

if [ "${1:-}" = --only ]; then
    shift
    "$@"
    exit
fi

began=$(date +%s) wanted=$*
rm -rf $logs && mkdir -p $logs "$OUT"

phase machine 20 machine
phase environment 60 environment
phase build 60 build
phase wheel 60 wheel
phase streamless 60 streamless
phase c-tests 150 c_tests
phase driver-facts 150 driver_facts
phase order 120 order
phase order-checked 60 order_checked
phase python-tests 240 python_tests
phase cupy-tests 60 cupy_tests
phase demo 60 ./demo
phase device-nrt 60 device_nrt
phase numba-cost 110 numba_cost
phase ipc-cost 30 ipc_cost
phase numba-own 240 numba_tests numba
phase numba-tarn 240 numba_tests tarn
phase numba-compared 20 compared tarn
phase numba-cupy 240 numba_on_cupy

tar -czf "$OUT/logs.tar.gz" -C build gpu
echo
cat $logs/phases.txt
tail -qn 1 $logs/numba-own.log $logs/numba-tarn.log
tail -n 20 $logs/numba-compared.log
good=0
tools/count_results.py $logs/c-gpu.xml $logs/python-gpu.xml $logs/cupy-gpu.xml $logs/tarn-compared.xml \
    >"$OUT/summary.txt" || good=1
cat "$OUT/summary.txt"
tail -n 1 $logs/demo.log
tail -n 1 $logs/demo.log | grep -qx 'demo: ok' || good=1
exit $good
