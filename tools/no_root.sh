# no_root.sh -- prepares a checkout for development without root. Source it: `. tools/no_root.sh`.
#
# It needs git, a C compiler, make and Python 3.11 or later with venv. It installs the rest into
# the checkout: CMake, Ninja, pytest and Numba into .venv, cmocka and zlib into .deps if the
# system lacks them. It sets the paths of the shell that sources it.
# shellcheck shell=sh

. tools/setup.sh
[ -x "$PYTHON" ] || PYTHON=$(command -v python3)
make_venv && PATH=$PWD/.venv/bin:$PATH

if ! cmake --version >/dev/null 2>&1 || ! ninja --version >/dev/null 2>&1; then
    .venv/bin/pip install -q -c constraints.txt cmake ninja
fi
if [ ! -d .deps/usr ] && ! { has_cmocka && compiles '#include <zlib.h>'; }; then
    unpack_debian .deps libcmocka-dev libcmocka0 zlib1g-dev
fi
if [ -d .deps/usr ]; then
    LIBRARY_PATH=$PWD/.deps/usr/lib/$(cc -print-multiarch)
    export LIBRARY_PATH CMAKE_PREFIX_PATH="$PWD/.deps/usr" CPATH="$PWD/.deps/usr/include"
fi
export PATH TARN_DRIVER=sim
