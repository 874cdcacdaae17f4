#!/bin/sh
# plan.sh -- pools that learn plans under PyTorch, on a machine with a GPU.
#
#     OUT=folder tests/gpu/plan.sh             all
#     OUT=folder tests/gpu/plan.sh training    three programs with eight shapes each, 150 s
#     OUT=folder tests/gpu/plan.sh longest     the longest sequences on a small card, 150 s
#
# It needs the packages of torch.sh. The figures are in torch.json and longest.json.
set -u
cd "$(dirname "$0")/../.." || exit 1

. tests/gpu/common.sh
frameworks_begin || exit 1

failed=0 what=${1:-all}
if [ "$what" != longest ]; then
    frameworks_compare torch --few-shapes 8 --steps 88 --warm-up 48 --rounds 1 --seconds 170 \
        --allocators default expandable tarn tarn:plan=learn tarn:plan=detect || failed=1
fi
if [ "$what" != training ]; then
    timeout -k 5 300 .venv-torch-gpu/bin/python bench/torch/longest_sequence.py \
        --json "$OUT/longest.json" >"$OUT/longest.txt" 2>&1 || failed=1
    cat "$OUT/longest.txt"
fi
exit $failed
