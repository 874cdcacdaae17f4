#!/bin/sh
# frameworks-bench.sh -- programs of CuPy and Numba on Tarn and on their own allocators, in turns.
#
#     PYTHON=python3 OUT=folder tests/gpu/frameworks-bench.sh [ARGUMENT...]      under 160 s after the build
#
# The arguments are those of bench/frameworks/compare.py. The figures are in $OUT/frameworks.json. It
# needs no network. The packages of PYTHON's own environment are visible in .venv-torch-gpu.
set -u
cd "$(dirname "$0")/../.." || exit 1

. tests/gpu/common.sh
frameworks_begin || exit 1
frameworks_compare frameworks "$@"
