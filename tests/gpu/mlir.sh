#!/bin/sh
# mlir.sh -- numba-cuda-mlir's own tests on a machine with a GPU: under its own manager and
# under Tarn, compared.
#
#     tests/gpu/mlir.sh prepare SOURCES        with a network: fills .gpu/mlir/
#     OUT=folder tests/gpu/mlir.sh [both|numba|tarn|compare]      on the machine with the GPU
#
# SOURCES are those of numba-cuda-mlir, because its wheel has no tests. .gpu/mlir/, which git
# ignores, has these tests, the wheel, and the packages of the tests, for CPython 3.12 or
# PYTHON_VERSION. It has 53 MB, since the wheel is compressed again. Copy it to the machine with
# the GPU, which needs no network. If one command is too short for both managers, run one
# manager at a time, and then compare.
set -eu
cd "$(dirname "$0")/../.."
. tests/gpu/common.sh

# Unpack the wheels and compress them again, much smaller: the size of a copy is often limited.
prepare() {
    rm -rf .gpu/mlir && mkdir -p .gpu/mlir/site
    fetch_wheels .gpu/mlir/wheels "numba-cuda-mlir==${VERSION:-0.6.0}" \
        'pytest<9' pytest-subtests filecheck cffi pycparser ml-dtypes
    for wheel in .gpu/mlir/wheels/*.whl; do
        python3 -m zipfile -e "$wheel" .gpu/mlir/site
    done
    tar -C .gpu/mlir/site -c . | xz -T0 --x86 --lzma2=preset=6 >.gpu/mlir/site.tar.xz
    cp "$1/pyproject.toml" .gpu/mlir
    tar -C "$1" -c --exclude=benchmarks tests | tar -C .gpu/mlir -x
    rm -r .gpu/mlir/site .gpu/mlir/wheels
    du -sh .gpu/mlir
}

# .venv-mlir has the packages of .gpu/mlir, and after them those of PYTHON's own environment.
environment() {
    "$PYTHON" -m venv .venv-mlir
    site=$(echo .venv-mlir/lib/python3*/site-packages)
    tar -C "$site" -xJf .gpu/mlir/site.tar.xz
    lend_packages .venv-mlir
    .venv-mlir/bin/python -m pip wheel -q --no-build-isolation --no-deps -w build/mlir-wheel .
    .venv-mlir/bin/python -m pip install -q --no-index --no-deps build/mlir-wheel/tarn_gpu-*.whl
    .venv-mlir/bin/python -c 'import numba_cuda_mlir as m, tarn; print(m.__version__, tarn.__version__)'
}

under() {
    .venv-mlir/bin/python tools/numba_others.py mlir .gpu/mlir --manager "$1" \
        --jobs "${JOBS:-$(nproc)}" --pattern "${PATTERN:-}" --out "$OUT/mlir-$1.json" || true # compare() reports failures
}

compare() {
    .venv-mlir/bin/python tools/numba_others.py compare mlir "$OUT/mlir-numba.json" \
        "$OUT/mlir-tarn.json"
}

if [ "${1:-}" = prepare ]; then
    prepare "$2"
    exit
fi
PYTHON=$(command -v "${PYTHON:-python3}")
mkdir -p "${OUT:=build/gpu-out}"
OUT=$(cd "$OUT" && pwd)
case ${TARN_DRIVER:-} in sim) ;; *) unset TARN_DRIVER ;; esac
unset TARN_LOG TARN_RESOURCE NUMBA_CUDA_MEMORY_MANAGER PYTHONPATH
ls .venv-mlir/lib/python3*/site-packages/lent.pth >/dev/null 2>&1 || environment
case ${1:-both} in
both) under numba && under tarn && compare ;;
numba | tarn) under "$1" ;;
compare) compare ;;
*) sed -n '2,/^set/p' "$0" && exit 2 ;;
esac
