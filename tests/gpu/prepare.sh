#!/bin/sh
# prepare.sh -- brings together what a machine with a GPU and no network lacks.
#
#     tests/gpu/prepare.sh        fills .whl/ (Python wheels) and .gpu/ (cmocka)
#
# Both folders are ignored by git and have to be carried there. The wheels are for CPython
# 3.12 (PYTHON_VERSION names another); what the machine has already is in MACHINE.md.
set -eu
cd "$(dirname "$0")/../.."
. tests/gpu/common.sh

rm -rf .whl .gpu
fetch_wheels .whl -c constraints.txt \
    numpy filecheck cffi pycparser rmm-cu13 librmm-cu13 rapids-logger

mkdir -p .gpu/packages
(cd .gpu/packages && apt-get -q -o APT::Sandbox::User=root download libcmocka-dev libcmocka0)
for package in .gpu/packages/*.deb; do dpkg -x "$package" .gpu; done
rm -rf .gpu/packages .gpu/usr/share
du -sh .whl .gpu
