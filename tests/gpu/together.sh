#!/bin/sh
# together.sh -- four frameworks on one pool, on a machine with a GPU: runs in turns, and the table.
#
#     PYTHON=python3 OUT=folder tests/gpu/together.sh [ARGUMENT...]      under 120 s after the build
#
# The arguments are those of bench/together/compare.py. The figures are in $OUT/together.json. It
# needs no network. The packages of PYTHON's own environment are visible in .venv-torch-gpu.
set -u
cd "$(dirname "$0")/../.." || exit 1

PYTHON=$(command -v "${PYTHON:-python3}") && export PYTHON
OUT=${OUT:-build/gpu-out}
. tests/gpu/common.sh
unset TARN_DRIVER TARN_SIM TARN_LOG TARN_RESOURCE PYTHONPATH NUMBA_CUDA_MEMORY_MANAGER
mkdir -p "$OUT"

frameworks_venv || exit 1
.venv-torch-gpu/bin/python bench/together/compare.py --json "$OUT/together.json" "$@" \
    >"$OUT/together.txt" 2>&1
code=$?
cat "$OUT/together.txt"
exit $code
