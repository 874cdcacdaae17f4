#!/bin/sh
# soak.sh -- both programs of the soak on a machine with a GPU.
#
#     PYTHON=python3 OUT=folder tests/gpu/soak.sh [ARGUMENT...]     500 s and the build
#
# The arguments are those of tests/soak/run.py: `--seconds 60 --window 1000`. The samples, the logs
# of the programs and the judgement are in $OUT. It needs no network, but the packages of torch.sh.
set -u
cd "$(dirname "$0")/../.." || exit 1

. tests/gpu/common.sh
export CMAKE_PREFIX_PATH="$PWD/.gpu/usr" CPATH="$PWD/.gpu/usr/include"
frameworks_begin || exit 1

{ cmake --preset release -DTARN_TEST_DRIVER= && ninja -C build/release soak; } >"$OUT/build.txt" 2>&1 || {
    cat "$OUT/build.txt"
    exit 1
}
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
.venv-torch-gpu/bin/python tests/soak/run.py "$folder" --build build/release --gpu \
    --seconds 500 --window 5000 "$@" >"$OUT/soak.txt" 2>&1
code=$?
cp "$folder"/*.tsv "$folder"/*.out "$OUT"
cat "$OUT/soak.txt"
exit $code
