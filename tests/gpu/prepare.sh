#!/bin/sh
# prepare.sh -- downloads the packages that a machine with a GPU and no network lacks.
#
#     tests/gpu/prepare.sh        fills .whl/ (Python wheels) and .gpu/ (cmocka)
#
# Git ignores both folders; copy them to that machine. The wheels are for CPython 3.12, or
# PYTHON_VERSION. MACHINE.md lists the packages of the machine. That machine has pytest, but its
# script runs the other environment's Python, which lacks Tarn: .venv/bin needs its own pytest.
set -eu
cd "$(dirname "$0")/../.."
. tools/setup.sh
. tests/gpu/common.sh

rm -rf .whl .gpu
fetch_wheels .whl -c constraints.txt \
    numpy filecheck cffi pycparser rmm-cu13 librmm-cu13 rapids-logger \
    pytest iniconfig packaging pluggy pygments pytest-xdist execnet \
    dask distributed locket partd tblib tornado zict \
    textual linkify-it-py markdown-it-py mdit-py-plugins mdurl platformdirs rich typing-extensions

unpack_debian .gpu libcmocka-dev libcmocka0
du -sh .whl .gpu
