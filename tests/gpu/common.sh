# common.sh -- functions that the scripts of this folder share; they source it.
# shellcheck shell=sh

# fetch_wheels FOLDER ARGUMENT...: download wheels for the machine with the GPU, for CPython
# 3.12 or PYTHON_VERSION. pip needs the name of each older manylinux.
fetch_wheels() {
    folder=$1 platforms=; shift
    for platform in _2_39 _2_35 _2_34 _2_31 _2_28 _2_27 _2_24 _2_17 2014 1; do
        platforms="$platforms --platform manylinux${platform}_x86_64"
    done
    # shellcheck disable=SC2086 # several options
    "${PYTHON:-python3}" -m pip download -q --no-deps --only-binary=:all: \
        --python-version "${PYTHON_VERSION:-3.12}" --implementation cp $platforms \
        -d "$folder" "$@"
}

# lend_packages VENV: add the packages of PYTHON's own environment after those of VENV. It uses
# addsitedir(), not a path, because numba-cuda replaces Numba's target by its own .pth file.
lend_packages() {
    "$PYTHON" -c 'import site; [print(f"import site; site.addsitedir({p!r})") for p in site.getsitepackages()]' \
        >"$(echo "$1"/lib/python3*/site-packages)/lent.pth"
}

# frameworks_begin: set PYTHON and OUT, make .venv-torch-gpu with the wheels of .whl, Tarn of this
# checkout and the packages of PYTHON's own environment, unless it exists; print the GPU and the
# versions.
frameworks_begin() {
    PYTHON=$(command -v "${PYTHON:-python3}") && export PYTHON
    OUT=${OUT:-build/gpu-out}
    unset TARN_DRIVER TARN_SIM TARN_LOG TARN_RESOURCE PYTHONPATH NUMBA_CUDA_MEMORY_MANAGER
    mkdir -p "$OUT"
    if [ ! -e .venv-torch-gpu/ready ]; then
        "$PYTHON" -m venv .venv-torch-gpu &&
            .venv-torch-gpu/bin/pip install -q --no-index --no-deps --no-compile .whl/*.whl &&
            lend_packages .venv-torch-gpu &&
            .venv-torch-gpu/bin/pip install -q --no-build-isolation --no-deps --no-index . &&
            touch .venv-torch-gpu/ready || return 1
    fi
    nvidia-smi -L
    .venv-torch-gpu/bin/python -c 'import torch, tarn; print("torch", torch.__version__, tarn.__file__)'
}

# nccl_begin: as frameworks_begin, with NVLink multicast off.
nccl_begin() {
    NCCL_NVLS_ENABLE=0 NCCL_DEBUG=${NCCL_DEBUG:-WARN}
    export NCCL_NVLS_ENABLE NCCL_DEBUG
    frameworks_begin
}

# frameworks_compare FOLDER ARGUMENT...: run bench/FOLDER/compare.py; its figures are in
# $OUT/FOLDER.json and its output in $OUT/FOLDER.txt.
frameworks_compare() {
    folder=$1; shift
    .venv-torch-gpu/bin/python "bench/$folder/compare.py" --json "$OUT/$folder.json" "$@" \
        >"$OUT/$folder.txt" 2>&1
    code=$?
    cat "$OUT/$folder.txt"
    return $code
}
