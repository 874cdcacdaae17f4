#!/bin/sh
# together.sh -- four frameworks on one pool, on a machine with a GPU: runs in turns, and the table.
#
#     PYTHON=python3 OUT=folder tests/gpu/together.sh [ARGUMENT...]      under 120 s after the build
#
# The arguments are those of bench/together/compare.py. The figures are in $OUT/together.json. It
# needs no network. The packages of PYTHON's own environment are visible in .venv-torch-gpu.
set -u
cd "$(dirname "$0")/../.." || exit 1

. tests/gpu/common.sh
frameworks_begin || exit 1
frameworks_compare together "$@"
