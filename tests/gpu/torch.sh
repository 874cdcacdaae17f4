#!/bin/sh
# torch.sh -- runs tarn.torch's tests and benchmark on a machine with a GPU and PyTorch.
#
#     PYTHON=python3 OUT=folder tests/gpu/torch.sh          both, under 420 s
#     PYTHON=python3 OUT=folder tests/gpu/torch.sh test     or `bench ARGUMENT...`, each alone
#
# It needs no network. The packages of PYTHON's own environment are visible in .venv-torch-gpu.
set -u
cd "$(dirname "$0")/../.." || exit 1

PYTHON=$(command -v "${PYTHON:-python3}") && export PYTHON
OUT=${OUT:-build/gpu-out}
. tests/gpu/common.sh
unset TARN_DRIVER TARN_SIM TARN_LOG TARN_RESOURCE PYTHONPATH
mkdir -p "$OUT"

frameworks_venv || exit 1

failed=0 what=${1:-both}
[ $# -eq 0 ] || shift
if [ "$what" != bench ]; then
    TARN_TORCH_JOBS=${JOBS:-6} timeout 200 .venv-torch-gpu/bin/python -m pytest -q -ra \
        -p no:cacheprovider --tb=short tests/gpu/test_torch.py 2>&1 | tee "$OUT/test_torch.txt"
    grep -q ' passed' "$OUT/test_torch.txt" && ! grep -q ' failed' "$OUT/test_torch.txt" || failed=1
fi
if [ "$what" != test ]; then
    .venv-torch-gpu/bin/python bench/torch/compare.py --json "$OUT/torch.json" "$@" 2>&1 |
        tee "$OUT/torch.txt" || failed=1
fi
exit $failed
