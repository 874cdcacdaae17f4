#!/bin/sh
# torch.sh -- runs tarn.torch's tests and benchmark on a machine with a GPU and PyTorch.
#
#     PYTHON=python3 OUT=folder tests/gpu/torch.sh          both, under 420 s
#     PYTHON=python3 OUT=folder tests/gpu/torch.sh test     or `bench ARGUMENT...`, each alone
#
# It needs no network. The packages of PYTHON's own environment are visible in .venv-torch-gpu.
set -u
cd "$(dirname "$0")/../.." || exit 1

. tests/gpu/common.sh
frameworks_begin || exit 1

failed=0 what=${1:-both}
[ $# -eq 0 ] || shift
if [ "$what" != bench ]; then
    TARN_TORCH_JOBS=${JOBS:-6} timeout 200 .venv-torch-gpu/bin/python -m pytest -q -ra \
        -p no:cacheprovider --tb=short tests/gpu/test_torch.py 2>&1 | tee "$OUT/test_torch.txt"
    grep -q ' passed' "$OUT/test_torch.txt" && ! grep -q ' failed' "$OUT/test_torch.txt" || failed=1
fi
if [ "$what" != test ]; then
    frameworks_compare torch "$@" || failed=1
fi
exit $failed
