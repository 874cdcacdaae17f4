#!/bin/sh
# bench.sh -- the benchmarks on a machine with a GPU, beside RMM, PyTorch and CuPy.
#
#     PYTHON=python3 OUT=folder tests/gpu/bench.sh
#
# It builds Tarn, the benchmark of peers, and the shims that the machine can build: rmm.cpp with
# librmm from .whl, torch.cpp with the interpreter's torch. It runs all of them on the same
# work, and writes a table and a JSON file to $OUT, for bench/results/. It needs no network: see
# prepare.sh. It skips missing peers and names them. It takes at most BUDGET seconds, and every
# part has its own limit.
#
# With GENERATED=1 it only builds, and then runs bench/compare.py on all kinds of generated
# traces, for the rest of BUDGET. COMPARE has further options of that command. With AIMS=1 it only
# measures pairs by size, and one thread on 1, 64 and 1,000 streams: docs/benchmarks.md, "Aims".
set -u
cd "$(dirname "$0")/../.." || exit 1

PYTHON=$(command -v "${PYTHON:-python3}") && export PYTHON
OUT=${OUT:-build/gpu-out}
TRACES=${TRACES:-bench/traces}
BUDGET=${BUDGET:-480}
work=build/gpu-bench
cuda=${CUDA_HOME:-/usr/local/cuda}
unset TARN_DRIVER TARN_SIM TARN_LOG TARN_RESOURCE PYTHONPATH
export OUT TRACES BUDGET CMAKE_PREFIX_PATH="$PWD/.gpu/usr" CPATH="$PWD/.gpu/usr/include"

# part NAME SECONDS COMMAND...: run a function of this file or a program within a limit.
part() {
    name=$1 limit=$2 started=$(date +%s); shift 2
    left=$((BUDGET - started + began))
    [ "$limit" -le $left ] || limit=$left
    if [ "$limit" -lt 5 ]; then
        echo "== $name: not run, no time left" | tee -a "$OUT/parts.txt"
        return 1
    fi
    timeout -k 5 "$limit" sh tests/gpu/bench.sh --only "$@" >"$OUT/$name.log" 2>&1 </dev/null
    code=$?
    [ $code -eq 0 ] || tail -n 30 "$OUT/$name.log"
    echo "== $name: exit $code after $(($(date +%s) - started)) s of $limit" | tee -a "$OUT/parts.txt"
    return $code
}

build() {
    cmake --preset release -DTARN_TEST_DRIVER= &&
        cmake --build --preset release -j "$(nproc)" --target bench-peers bench-pool \
            bench-pool_threads bench_timed_driver
}

# The shim needs only the headers and libraries of RMM's wheels.
rmm_shim() {
    for wheel in .whl/librmm_cu13-*.whl .whl/rapids_logger-*.whl; do
        "$PYTHON" -m zipfile -e "$wheel" $work/rmm || return
    done
    rmm=$PWD/$work/rmm
    g++ -std=c++20 -O2 -DNDEBUG -fPIC -shared -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE \
        -I"$rmm/librmm/include" -I"$rmm/librmm/include/rapids" \
        -I"$rmm/rapids_logger/include" -I"$cuda/include" bench/peers/rmm.cpp \
        -o $work/libpeer_rmm.so -L"$rmm/librmm/lib64" -lrmm \
        -L"$rmm/rapids_logger/lib64" -lrapids_logger -L"$cuda/lib64" -lcudart \
        -Wl,-rpath,"$rmm/librmm/lib64:$rmm/rapids_logger/lib64:$cuda/lib64"
}

torch_shim() {
    torch=$("$PYTHON" -c 'import torch; print(torch.__path__[0])') || return
    g++ -std=c++20 -O2 -DNDEBUG -fPIC -shared -I"$torch/include" -I"$cuda/include" \
        bench/peers/torch.cpp -o $work/libpeer_torch.so -L"$torch/lib" -lc10_cuda -lc10 \
        -L"$cuda/lib64" -lcudart -Wl,-rpath,"$torch/lib:$cuda/lib64"
}

# The shims that were built. A peer that crashes would end the peers after it, so each has a
# separate process.
peers() {
    build/release/bin/bench-peers --other-passes 2 --initial 1.5 --seconds 10 \
        --json "$OUT/results.jsonl" "$@" "$TRACES"/*.csv.gz
}

python_peers() {
    [ -x .venv/bin/python ] && PYTHON=.venv/bin/python
    "$PYTHON" bench/peers/python.py "$OUT/results.jsonl"
}

if [ "${1:-}" = --only ]; then
    shift
    "$@"
    exit
fi

began=$(date +%s)
rm -rf $work && mkdir -p $work "$OUT"
rm -f "$OUT/results.jsonl" "$OUT/parts.txt"

part build 90 build || exit 1
if [ -n "${AIMS:-}" ]; then
    part pool 60 build/release/bin/bench-pool && cat "$OUT/pool.log"
    for kind in registered raw medium streams64 streams1000; do
        part $kind 60 build/release/bin/bench-pool_threads --kind $kind --threads 1 &&
            cat "$OUT/$kind.log"
    done
    ! grep -qv 'exit 0 ' "$OUT/parts.txt"
    exit
fi
part rmm-shim 90 rmm_shim
part torch-shim 90 torch_shim
if [ -n "${GENERATED:-}" ]; then
    left=$((BUDGET - $(date +%s) + began - 15))
    # shellcheck disable=SC2086 # several options
    "$PYTHON" bench/compare.py --budget $left --jsonl "$OUT/compare.jsonl" --out "$OUT/compare.json" \
        ${COMPARE:-} | tee "$OUT/compare.txt"
    exit
fi
part peers-tarn 120 peers
[ -f $work/libpeer_rmm.so ] && part peers-rmm 120 peers --peer $work/libpeer_rmm.so
[ -f $work/libpeer_torch.so ] && part peers-torch 60 peers --peer $work/libpeer_torch.so
part pool 60 build/release/bin/bench-pool --json "$OUT/results.jsonl"
part python 60 python_peers

"$PYTHON" bench/peers/table.py "$OUT/results.jsonl" --out "$OUT/results.json" | tee "$OUT/table.txt"
(cd "$OUT" && tar -czf logs.tar.gz -- *.log results.jsonl && rm -f -- *.log results.jsonl)
cat "$OUT/parts.txt"
! grep -qv 'exit 0 ' "$OUT/parts.txt"
