#!/bin/sh
# sanitizer.sh -- which wrong accesses do compute-sanitizer and guard mode find?
#
#     PYTHON=python3 OUT=folder tests/gpu/sanitizer.sh
#
# It needs a GPU, compute-sanitizer, and a PYTHON with Tarn and numba-cuda. The runs of each access:
#
#   pool          a pool that the checker does not know (--nvtx no)
#   pool-nvtx     a pool that shows its blocks by NVTX
#   over-nvtx     the same with a pool over cuMemAlloc, which the checker's manual describes
#   guard         a pool in guard mode
#   cuda          cuMemAlloc
#   cuda-nvtx     cuMemAlloc with blocks that are shown by NVTX
#   async-nvtx    cuMemAllocAsync with blocks that are shown by NVTX
#   init          a pool with initcheck, and
#   init-nvtx     a pool with initcheck that shows its blocks
#
# The table has the number of errors of the checker, of reports of guard mode, and of warnings of
# Tarn, such as that of a heap that the checker refuses, and whether the program ended by itself:
# after some errors the checker ends its kernels. Failed driver calls do not count: cuda.bindings asks
# for functions that a driver may lack. The checker sees that only where Tarn initialized CUDA first. Then it runs correct programs with blocks
# that are shown: the order of memory (build/release/bin/order, if it is built) and numba-cuda's
# tests of memory. These should have 0 errors. KINDS, RUNS and MODULES choose some of all.
set -u
cd "$(dirname "$0")/../.." || exit 1

PYTHON=${PYTHON:-python3}
OUT=${OUT:-build/gpu-out}
KINDS=${KINDS:-correct two-streams write-before write-behind write-far-behind write-after-free
    read-behind read-after-free read-unwritten}
RUNS=${RUNS:-pool pool-nvtx over-nvtx guard cuda cuda-nvtx async-nvtx init init-nvtx}
MODULES=${MODULES:-cudadrv.test_cuda_memory cudadrv.test_cuda_ndarray cudadrv.test_host_alloc
    cudadrv.test_managed_alloc cudadrv.test_pinned cudadrv.test_array_attr cudadrv.test_events
    cudapy.test_array cudapy.test_cuda_array_interface cudapy.test_stream_api cudapy.test_multithreads}
unset TARN_DRIVER TARN_SIM TARN_POOL_DEBUG TARN_RESOURCE TARN_LOG
mkdir -p "$OUT"

checker=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}"/bin/compute-sanitizer 2>/dev/null)
[ -n "$checker" ] || { echo "there is no compute-sanitizer here"; exit 1; }
"$checker" --version | tail -n 2

# line_of NAME RUN LOG: the line of a log in the table, into LOG with the suffix .line.
line_of() {
    errors=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) error.*/\1/p' "$3" | tail -n 1)
    reports=$(grep -c '^tarn: guard:' "$3")
    warnings=$(grep -c '^tarn: warning:' "$3")
    printf '%-34s %-10s %8s %8s %8s\n' "$1" "$2" "${errors:-none}" "$reports" "$warnings" >"${3%.txt}.line"
}

# attempt KIND RUN: run one program.
attempt() {
    resource=pool debug='' tool=memcheck nvtx=no
    case $2 in
    *-nvtx) nvtx=yes ;;
    guard) debug=guard,poison,quarantine ;;
    esac
    case $2 in
    over*) resource=pool/cuda ;;
    cuda*) resource=cuda ;;
    async*) resource=async ;;
    init*) tool=initcheck ;;
    esac
    log=$OUT/sanitizer-$1-$2.txt
    TARN_POOL_DEBUG=$debug timeout 120 "$checker" --tool "$tool" --nvtx "$nvtx" \
        --report-api-errors no "$PYTHON" tests/gpu/wrong_access.py "$1" "$resource" >"$log" 2>&1
    line_of "$1" "$2" "$log"
    sed -i "s/\$/  $(grep -c '^the program ended' "$log") ended/" "${log%.txt}.line"
}

# module NAME: run a module of numba-cuda's tests with blocks that are shown.
module() {
    log=$OUT/sanitizer-numba-$1.txt
    NUMBA_CUDA_MEMORY_MANAGER=tarn.numba timeout 300 "$checker" --tool memcheck --nvtx yes \
        --report-api-errors no "$PYTHON" tools/numba_suite.py module "numba.cuda.tests.$1" \
        "$OUT/sanitizer-numba-$1.jsonl" >"$log" 2>&1
    line_of "$1" pool-nvtx "$log"
    passed=$(grep -c '"outcome": "pass"' "$OUT/sanitizer-numba-$1.jsonl")
    sed -i "s/\$/  $passed passed/" "${log%.txt}.line"
}

# order RESOURCE: run a few reuses. Each free waits, so scenarios that need steals are left out.
order() {
    log=$OUT/sanitizer-order-$(echo "$1" | tr / -).txt
    timeout 300 "$checker" --tool memcheck --nvtx yes --report-api-errors no \
        build/release/bin/order --reuses 60 --seeds 1 --resource "$1" \
        --scenario same-stream --scenario one-stream --scenario legacy --scenario all >"$log" 2>&1
    line_of "order $1" pool-nvtx "$log"
    sed -i "s/\$/  $(grep -c ' reuses of ' "$log") scenarios/" "${log%.txt}.line"
}

rm -f "$OUT"/sanitizer-*
# shellcheck disable=SC2086 # lists of words
{
    for kind in $KINDS; do
        for run in $RUNS; do attempt "$kind" "$run"; done &
    done
    for name in $MODULES; do module "$name"; done &
    if [ -x build/release/bin/order ]; then
        for resource in pool pool/cuda; do order "$resource"; done &
    fi
    # The checker names a block that the program does not free.
    timeout 120 "$checker" --tool memcheck --nvtx yes --leak-check full \
        "$PYTHON" tests/gpu/wrong_access.py leak pool/cuda >"$OUT/sanitizer-leak.txt" 2>&1 &
    wait
}

printf '%-34s %-10s %8s %8s %8s\n' access run errors reports warnings
for kind in $KINDS; do
    for run in $RUNS; do cat "$OUT/sanitizer-$kind-$run.line"; done
done
cat "$OUT"/sanitizer-order-*.line "$OUT"/sanitizer-numba-*.line
rm -f "$OUT"/sanitizer-*.line
for log in write-behind-pool-nvtx write-behind-over-nvtx write-after-free-guard leak; do
    echo "--- $log"
    head -n 60 "$OUT/sanitizer-$log.txt" 2>&1
done
echo "--- warnings and messages about heaps"
grep -h -i -E '^tarn: warning|nvtx|suballoc|heap' "$OUT"/sanitizer-*.txt | sort | uniq -c | sort -rn | head -n 20
