#!/bin/sh
# sanitizer.sh -- which wrong accesses do compute-sanitizer and guard mode find?
#
#     PYTHON=python3 OUT=folder tests/gpu/sanitizer.sh
#
# It needs a GPU, compute-sanitizer, and a PYTHON with Tarn and numba-cuda. Each kind of access runs
# in four ways: on a pool, on a pool in guard mode, on cuMemAlloc, and on a pool with initcheck. The
# table at the end has the number of errors of the checker and of reports of guard mode.
set -u
cd "$(dirname "$0")/../.." || exit 1

PYTHON=${PYTHON:-python3}
OUT=${OUT:-build/gpu-out}
unset TARN_DRIVER TARN_SIM TARN_POOL_DEBUG
mkdir -p "$OUT"

checker=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}"/bin/compute-sanitizer 2>/dev/null)
[ -n "$checker" ] || { echo "there is no compute-sanitizer here"; exit 1; }

# attempt NAME KIND RESOURCE DEBUG CHECKER-ARGUMENT...: run one program and print a line of the table.
attempt() {
    name=$1 kind=$2 resource=$3 debug=$4
    shift 4
    log=$OUT/sanitizer-$kind-$name.txt
    TARN_POOL_DEBUG=$debug timeout 120 "$checker" "$@" \
        "$PYTHON" tests/gpu/wrong_access.py "$kind" "$resource" >"$log" 2>&1
    errors=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) error.*/\1/p' "$log" | tail -n 1)
    reports=$(grep -c '^tarn: guard:' "$log")
    printf '%-20s %-12s %8s %8s\n' "$kind" "$name" "${errors:-none}" "$reports"
}

printf '%-20s %-12s %8s %8s\n' access run errors reports
for kind in correct two-streams write-before write-behind write-far-behind write-after-free \
    read-behind read-after-free read-unwritten; do
    attempt pool "$kind" pool "" --tool memcheck
    attempt guard "$kind" pool guard,poison,quarantine --tool memcheck
    attempt cuda "$kind" cuda "" --tool memcheck
    attempt initcheck "$kind" pool "" --tool initcheck
done
