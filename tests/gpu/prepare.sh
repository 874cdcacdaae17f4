#!/bin/sh
# prepare.sh -- brings together what a machine with a GPU and no network lacks.
#
#     tests/gpu/prepare.sh        fills .whl/ (Python wheels) and .gpu/ (cmocka)
#
# Both folders are ignored by git and have to be carried there. The wheels are for CPython
# 3.12 (PYTHON_VERSION names another); what the machine has already is in MACHINE.md.
set -eu
cd "$(dirname "$0")/../.."
. tools/setup.sh
. tests/gpu/common.sh

rm -rf .whl .gpu
fetch_wheels .whl -c constraints.txt \
    numpy filecheck cffi pycparser pytest-xdist execnet rmm-cu13 librmm-cu13 rapids-logger

unpack_debian .gpu libcmocka-dev libcmocka0
du -sh .whl .gpu
