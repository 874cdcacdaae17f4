#!/bin/sh
# prune_in_root.sh -- builds and tests the pruner for an LLVM that this system does not have, in
# the root folder of another one.
#
#     tools/prune_in_root.sh ROOT LLVM_CONFIG WHEELS NUMBA:LLVMLITE...
#     tools/prune_in_root.sh /tmp/noble llvm-config-20 /tmp/wheels 0.62.1:0.45.1 0.65.1:0.47.0
#
# ROOT has gcc, make, cmake, ninja, python3-dev with venv, zlib1g-dev and the development files of
# LLVM (`debootstrap`, or packages of apt unpacked with `dpkg -x`). WHEELS has the wheels of pip,
# scikit-build-core, pytest, cffi, NumPy and of the given versions, for ROOT's Python (`pip download`).
# It needs root, for chroot, and no network. The wheels of Tarn are in ROOT/w.
set -eu
[ $# -ge 4 ] || { sed -n '2,12p' "$0"; exit 2; }
root=$1 llvm_config=$2 wheels=$3
shift 3

mkdir -p "$root/wh" "$root/src" "$root/dev/shm" # of multiprocessing: semaphores
cp "$wheels"/*.whl "$root/wh/"
git ls-files -z --cached --others --exclude-standard | xargs -0 tar -c | tar -x -C "$root/src"
[ -e "$root/dev/null" ] || mknod -m 666 "$root/dev/null" c 1 3
[ -e "$root/dev/urandom" ] || mknod -m 666 "$root/dev/urandom" c 1 9

cat >"$root/in_root.sh" <<'END'
set -eu
llvm_config=$1
shift
export HOME=/root CC=gcc CXX=g++ PATH=/usr/bin:/bin LC_ALL=C TARN_DRIVER=sim
pip() { python=$1; shift; "$python" "$(echo /wh/pip-*.whl)/pip" "$@"; }
cd /src
python3 -m venv --without-pip /v
pip /v/bin/python install -q --no-index --find-links /wh pip scikit-build-core
rm -f /w/tarn*.whl
/v/bin/pip wheel -q --no-index --no-build-isolation --no-deps -w /w .
/v/bin/pip wheel -q --no-index --no-build-isolation --no-deps -w /w ./python/prune \
    -C "cmake.define.TARN_LLVM_CONFIG=/usr/bin/$llvm_config"
for pair; do
    numba=${pair%:*} llvmlite=${pair#*:}
    echo "== numba $numba, llvmlite $llvmlite"
    rm -rf "/v-$numba"
    python3 -m venv --without-pip "/v-$numba"
    pip "/v-$numba/bin/python" install -q --no-index --no-compile --find-links /wh \
        "numba==$numba" "llvmlite==$llvmlite" pytest cffi
    pip "/v-$numba/bin/python" install -q --no-index --no-deps /w/tarn*.whl
    "/v-$numba/bin/python" tools/prune_compare.py random --count 1000
    "/v-$numba/bin/python" -m pytest -q -p no:cacheprovider python/tests/test_prune_numba.py
    "/v-$numba/bin/python" tools/prune_numba.py sound numba.tests.test_refop_pruning
done
echo "prune_in_root.sh: all passed"
END
exec chroot "$root" /bin/sh /in_root.sh "$llvm_config" "$@"
