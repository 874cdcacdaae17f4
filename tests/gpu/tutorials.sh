#!/bin/sh
# tutorials.sh -- the programs of docs/tutorials on a GPU.
#
#     PYTHON=python3 OUT=folder tests/gpu/tutorials.sh              two minutes after the build
#
# It needs no network. The packages of PYTHON's own environment are visible in
# .venv-torch-gpu: Numba, CuPy, PyTorch and RMM. A page without its packages is skipped.
set -u
cd "$(dirname "$0")/../.." || exit 1

PYTHON=$(command -v "${PYTHON:-python3}") && export PYTHON
OUT=${OUT:-build/gpu-out}
. tests/gpu/common.sh
unset TARN_DRIVER TARN_SIM TARN_LOG TARN_RESOURCE PYTHONPATH NUMBA_CUDA_MEMORY_MANAGER
mkdir -p "$OUT"

frameworks_begin || exit 1
TARN_TUTORIALS_GPU=1 .venv-torch-gpu/bin/python -m pytest -q -rs \
    python/tests/test_docs_tutorials.py >"$OUT/tutorials.txt" 2>&1
code=$?
cat "$OUT/tutorials.txt"
exit $code
