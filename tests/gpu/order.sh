#!/bin/sh
# order.sh -- the order of memory on a GPU that is shared by many processes.
#
#     OUT=folder tests/gpu/order.sh [SCENARIO...]
#
# Builds the order tests, and runs their scenarios (all of them without arguments) on each
# kind of pool, PROCESSES at once, for SECONDS. Each run has another seed. A failed run adds
# its output to $OUT/order.txt, with the last owners of the wrong words. The last line counts
# the runs by exit status: 124 is a run of over two minutes. It needs no network: see prepare.sh.
set -u
cd "$(dirname "$0")/../.." || exit 1

OUT=${OUT:-build/gpu-out}
SECONDS_EACH=${SECONDS_EACH:-150}
PROCESSES=${PROCESSES:-16}
RESOURCES=${RESOURCES:-pool pool/plan pool/learn pool/detect pool/cuda}
export CMAKE_PREFIX_PATH="$PWD/.gpu/usr" CPATH="$PWD/.gpu/usr/include"
unset TARN_DRIVER TARN_SIM
mkdir -p "$OUT"

log=$(mktemp -d) && trap 'rm -rf "$log"' EXIT
{ cmake --preset release -DTARN_TEST_DRIVER= && ninja -C build/release order; } >"$log/build" 2>&1 || {
    cat "$log/build"
    exit 1
}
order=build/release/bin/order
# shellcheck disable=SC2046 # several names
[ $# -gt 0 ] || set -- $($order --list)
end=$(($(date +%s) + SECONDS_EACH))

# run_some NUMBER SCENARIO...: each PROCESSES-th pair of a scenario and a resource, until the end.
run_some() {
    own=$1 turn=0; shift
    while [ "$(date +%s)" -lt "$end" ]; do
        pair=$((turn % PROCESSES)) turn=$((turn + 1))
        for scenario in "$@"; do
            for resource in $RESOURCES; do
                pair=$((pair + 1))
                [ $((pair % PROCESSES)) -eq "$own" ] && [ "$(date +%s)" -lt "$end" ] || continue
                timeout 120 $order --scenario "$scenario" --resource "$resource" --reuses 60000 \
                    --seeds 10 --seed $((turn * 1000 + pair)) >"$log/run.$own" 2>&1
                code=$?
                echo "exit $code" >>"$log/codes"
                [ $code -eq 0 ] || { echo "== $scenario, $resource: exit $code"; cat "$log/run.$own"; } >>"$log/failed.$own"
            done
        done
    done
}

process=0
while [ $process -lt "$PROCESSES" ]; do
    run_some $process "$@" &
    process=$((process + 1))
done
wait
cat "$log"/failed.* >"$OUT/order.txt" 2>/dev/null
head -n 60 "$OUT/order.txt"
sort "$log/codes" | uniq -c
[ ! -s "$OUT/order.txt" ]
