#!/bin/sh
# mutants.sh -- runs tools/mutate.py on the many cores of the machine with the GPU.
#
#     PYTHON=python3 OUT=folder tests/gpu/mutants.sh --seed 1 --count 500 --minutes 7
#     PYTHON=python3 OUT=folder tests/gpu/mutants.sh --again --minutes 7
#
# The tests run on the simulator; the GPU is not used. Carry .whl and .gpu, and from the second
# call on build/mutation/results.jsonl, the results until then. The new ones are in $OUT. A call
# takes two minutes more than it is told: it builds, and runs the tests without a mutant.
set -eu
cd "$(dirname "$0")/../.."
libraries="$PWD/.gpu/usr/lib/x86_64-linux-gnu"
export CMAKE_PREFIX_PATH="$PWD/.gpu/usr" CPATH="$PWD/.gpu/usr/include" LIBRARY_PATH="$libraries" LD_LIBRARY_PATH="$libraries"
python=${PYTHON:-python3}

[ -e .venv/made-from.txt ] || sh tests/gpu/run.sh --only environment
# mutate.py judges the last commit.
[ -e .git ] || { git init -q . && git add -A && git -c user.name=tarn -c user.email=tarn commit -q -m "the tree"; }
# Each result comes back, even if the time of the machine ends before the program.
mkdir -p build/mutation
results="$(realpath "$OUT")/results.jsonl"
if [ -e build/mutation/results.jsonl ]; then cp build/mutation/results.jsonl "$results"; fi
ln -sf "$results" build/mutation/results.jsonl
timeout -s TERM -k 5 570 "$python" tools/mutate.py "$@" --workers "$(nproc)" >"$OUT/mutate.txt" 2>&1 || true
"$python" tools/mutate.py --report
