# setup.sh -- what ./check and ./demo need on a machine. Source it from the project's root.
#
# Everything is looked for before it is installed, by using it and not by its package, so
# that a machine that has all of it needs neither a network nor Debian.

PYTHON=${PYTHON:-/usr/bin/python3}
export DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1

# Asked for in .venv; constraints.txt has the versions, of these and of what they bring.
python_packages="numba-cuda[cu13] numpy scikit-build-core pytest hypothesis psutil
    filecheck cffi pycparser rmm-cu13"

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Does this C text compile? $1 is the text, what follows are flags.
compiles() {
    text=$1; shift
    printf '%s\n' "$text" | cc -fsyntax-only "$@" -x c - 2>/dev/null
}

python_headers() {
    compiles '#include <Python.h>' \
        "-I$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')"
}

# need PACKAGE COMMAND...: note the Debian package as missing if the command fails.
need() {
    package=$1; shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

is_debian_12() {
    [ "$(. /etc/os-release 2>/dev/null && echo "$ID $VERSION_ID")" = "debian 12" ]
}

# Install the Debian packages that are missing; "build" or "tests" says for what.
install_debian_packages() {
    missing=
    need build-essential sh -c 'cc --version && c++ --version && make --version'
    need cmake cmake --version
    need ninja-build ninja --version
    need zlib1g-dev compiles '#include <zlib.h>'
    need python3-venv "$PYTHON" -c 'import ensurepip, venv'
    need python3-dev python_headers
    if [ "$1" = tests ]; then
        need libcmocka-dev compiles '#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>'
        need pkg-config pkg-config --version
        # The LLVM of the llvmlite in constraints.txt: bitcode travels between the two.
        need llvm-22-dev /usr/lib/llvm-22/bin/llvm-config --version
        # That of Debian's llvmlite; the two share it.
        is_debian_12 && need llvm-14-dev /usr/lib/llvm-14/bin/llvm-config --version
    fi
    [ -z "$missing" ] && return 0
    echo "installing Debian packages:$missing"
    as_root apt-get -q update &&
        as_root apt-get -q -y install --no-install-recommends $missing
}

# Asked for in .venv-nrt, where Numba's own tests of its runtime run: numba-cuda breaks the
# import of one of them.
nrt_packages="numba numpy scipy cffi"

# Asked for in .venv-mlir.
mlir_packages="numba-cuda-mlir==0.6.0 typing_extensions numpy"

# Make environment $1 with the packages $2 as constraints.txt says, unless it is there
# already. The copy of that file in it says which versions it was made from.
make_environment() {
    cmp -s constraints.txt "$1/made-from.txt" && return 0
    echo "making $1"
    rm -rf "$1" && "$PYTHON" -m venv "$1" &&
        "$1/bin/pip" install -q -c constraints.txt $2 &&
        cp constraints.txt "$1/made-from.txt"
}

make_venv() {
    make_environment .venv "$python_packages"
}

# Debian 12's Numba, 0.56.4, whose llvmlite has a libLLVM that others can use too. Unpacked
# into .debian-numba, 10 MB to load and 60 MB on disk; installed, it would be in every Python
# of the machine. .debian-numba/python runs the Python of .venv-bare with it.
debian_numba_packages="python3-numba python3-llvmlite python3-numpy python3-pkg-resources
    libblas3 liblapack3 libgfortran5 libquadmath0"

fits_debian_numba() {
    is_debian_12 && "$PYTHON" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'
}

load_packages() {
    (cd "$1" && shift && { apt-get -q download "$@" ||
        { as_root apt-get -q update && apt-get -q download "$@"; }; })
}

make_debian_numba() {
    root=$PWD/.debian-numba
    "$root/python" -c 'import numba' 2>/dev/null && return 0
    rm -rf "$root" && mkdir -p "$root/packages" &&
        load_packages "$root/packages" $debian_numba_packages || return 1
    for package in "$root"/packages/*.deb; do
        dpkg -x "$package" "$root" || return 1
    done
    rm -r "$root/packages"
    libraries=$(echo "$root"/usr/lib/*-linux-gnu)
    cat >"$root/python" <<END
#!/bin/sh
export PYTHONPATH="$root/usr/lib/python3/dist-packages"
export LD_LIBRARY_PATH="$libraries:$libraries/blas:$libraries/lapack"
exec "$PWD/.venv-bare/bin/python" "\$@"
END
    chmod +x "$root/python" && "$root/python" -c 'import numba'
}

# Build the wheel, with the build tools of .venv, as build/wheel/tarn-*.whl.
build_wheel() {
    rm -f build/wheel/tarn-*.whl
    .venv/bin/pip wheel -q --no-build-isolation --no-deps -w build/wheel .
}

# Put that wheel into the environment $1.
install_wheel() {
    "$1/bin/pip" install -q --no-index --no-deps --force-reinstall build/wheel/tarn-*.whl
}

# Is there a GPU whose driver loads? Asked of the driver itself, before Tarn is built.
has_gpu() {
    "$PYTHON" - <<'PROBE' 2>/dev/null
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
count = ctypes.c_int()
good = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
raise SystemExit(0 if good and count.value else 1)
PROBE
}
