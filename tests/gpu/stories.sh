#!/bin/sh
# stories.sh -- the programs of docs/leaks.md, out-of-memory.md and libraries.md on a GPU.
#
#     PYTHON=python3 OUT=folder tests/gpu/stories.sh                under 60 s after the build
#
# The logs and reports are in $OUT. It needs no network and no browser: where there is one,
# `tools/pictures.py draw $OUT docs/images` draws the pictures. The packages of PYTHON's own
# environment are visible in .venv-torch-gpu: Numba, CuPy and PyTorch.
set -u
cd "$(dirname "$0")/../.." || exit 1

PYTHON=$(command -v "${PYTHON:-python3}") && export PYTHON
OUT=${OUT:-build/gpu-out}
. tests/gpu/common.sh
unset TARN_DRIVER TARN_SIM TARN_LOG TARN_RESOURCE PYTHONPATH NUMBA_CUDA_MEMORY_MANAGER
mkdir -p "$OUT"

frameworks_begin || exit 1
TARN_PICTURES_TORCH=$PWD/.venv-torch-gpu/bin/python \
    .venv-torch-gpu/bin/python tools/pictures.py run "$OUT" >"$OUT/stories.txt" 2>&1
code=$?
# The pool on VMM finds room where that of mosaic.py does not.
tool=$PWD/.venv-torch-gpu/bin/tarn
if (cd "$OUT" && "$tool" run vmm.py) >>"$OUT/stories.txt" 2>&1; then
    echo "vmm.py: mosaic.py has its memory" >>"$OUT/stories.txt"
else
    code=1
fi
cat "$OUT/stories.txt"
exit $code
