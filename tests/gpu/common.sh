# common.sh -- what the scripts of this folder share; they read it in.
# shellcheck shell=sh

# fetch_wheels FOLDER ARGUMENT...: wheels for the machine with the GPU, of CPython 3.12 or
# PYTHON_VERSION. Each older manylinux has to be named.
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

# lend_packages VENV: the packages of PYTHON's own environment, behind those of VENV. By
# addsitedir, not by path: numba-cuda takes Numba's place through a .pth of its own.
lend_packages() {
    "$PYTHON" -c 'import site; [print(f"import site; site.addsitedir({p!r})") for p in site.getsitepackages()]' \
        >"$(echo "$1"/lib/python3*/site-packages)/lent.pth"
}
