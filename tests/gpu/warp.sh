#!/bin/sh
# warp.sh -- tarn.warp with Warp itself, on a machine with a GPU: its tests, and the time of an array.
#
#     tests/gpu/warp.sh prepare        with a network: fills .warp/1, .warp/2 and .warp/3
#     OUT=folder tests/gpu/warp.sh     on the machine with the GPU, under 200 s
#
# Warp's wheel has 149 MB. .warp/, which git ignores, has the part of it that CUDA devices need in
# three pieces of 31 MB: the size of a copy is often limited. Copy them to the machine with the GPU,
# one by one if need be, and also the wheels of prepare.sh.
set -eu
cd "$(dirname "$0")/../.."
. tests/gpu/common.sh

# Without the compiler for the host's processor, the examples and Warp's own tests.
prepare() {
    rm -rf .warp && mkdir -p .warp/site
    fetch_wheels .warp "warp-lang==${VERSION:-1.19.0}"
    python3 -m zipfile -e .warp/*.whl .warp/site
    rm -r .warp/site/warp/bin/warp-clang.so .warp/site/warp/examples .warp/site/warp/tests .warp/*.whl
    tar -C .warp/site -c . | xz -T0 -3 >.warp/warp.tar.xz
    split -n 3 --numeric-suffixes=1 -a 1 .warp/warp.tar.xz .warp/piece.
    rm -r .warp/site .warp/warp.tar.xz
    for i in 1 2 3; do
        mkdir .warp/$i && mv .warp/piece.$i .warp/$i/warp.tar.xz.$i
    done
    du -sh .warp/*
}

if [ "${1:-}" = prepare ]; then
    prepare
    exit
fi

frameworks_begin || exit 1
if [ ! -e .venv-torch-gpu/warp ]; then
    cat .warp/1/* .warp/2/* .warp/3/* | xz -dc -T0 |
        tar -x -C "$(echo .venv-torch-gpu/lib/python3*/site-packages)"
    touch .venv-torch-gpu/warp
fi

failed=0
timeout 150 .venv-torch-gpu/bin/python -m pytest -q -rs --durations=5 -p no:cacheprovider \
    tests/gpu/test_gpu_warp.py tests/gpu/test_gpu_programs.py -k warp >"$OUT/test_warp.txt" 2>&1 || failed=1
tail -n 60 "$OUT/test_warp.txt"
timeout 60 .venv-torch-gpu/bin/python bench/micro/warp_arrays.py >"$OUT/warp_arrays.txt" 2>&1 || failed=1
cat "$OUT/warp_arrays.txt"
exit $failed
