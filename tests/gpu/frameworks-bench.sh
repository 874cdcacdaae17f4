#!/bin/sh
# frameworks-bench.sh -- programs of CuPy and Numba on Tarn and on their own allocators, in turns.
#
#     PYTHON=python3 OUT=folder tests/gpu/frameworks-bench.sh [ARGUMENT...]      under 160 s after the build
#
# The arguments are those of bench/frameworks/compare.py. The figures are in $OUT/frameworks.json. It
# needs no network. The packages of PYTHON's own environment are visible in .venv-torch-gpu.
set -u
cd "$(dirname "$0")/../.." || exit 1

PYTHON=$(command -v "${PYTHON:-python3}") && export PYTHON
OUT=${OUT:-build/gpu-out}
. tests/gpu/common.sh
unset TARN_DRIVER TARN_SIM TARN_LOG TARN_RESOURCE PYTHONPATH NUMBA_CUDA_MEMORY_MANAGER
mkdir -p "$OUT"

frameworks_venv || exit 1
.venv-torch-gpu/bin/python bench/frameworks/compare.py --json "$OUT/frameworks.json" "$@" \
    >"$OUT/frameworks.txt" 2>&1
code=$?
cat "$OUT/frameworks.txt"
exit $code
