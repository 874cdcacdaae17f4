#!/bin/sh
# nccl.sh -- memory of Tarn under NCCL on a machine with one or two GPUs: registration, and the
# all-reduce on registered memory beside that on NCCL's and PyTorch's own.
#
#     PYTHON=python3 OUT=folder tests/gpu/nccl.sh
#
# It needs PyTorch with its libnccl, and no network. It takes at most 150 s after the first call,
# which makes .venv-torch-gpu. The table is in $OUT/nccl.txt. NVLink multicast stays off.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/gpu/common.sh

nccl_begin || exit 1
timeout -k 5 150 .venv-torch-gpu/bin/python tests/gpu/nccl.py >"$OUT/nccl.txt" 2>&1
code=$?
cat "$OUT/nccl.txt"
echo "== nccl: exit $code"
exit $code
