#!/bin/sh
# prepare.sh -- brings together what a machine with a GPU and no network lacks.
#
#     tests/gpu/prepare.sh        fills .whl/ (Python wheels) and .gpu/ (cmocka)
#
# Both folders are ignored by git and have to be carried there. The wheels are for CPython
# 3.12 (PYTHON_VERSION names another); what the machine has already is in MACHINE.md.
set -eu
cd "$(dirname "$0")/../.."

version=${PYTHON_VERSION:-3.12}
rm -rf .whl .gpu
platforms=
for glibc in 2_39 2_35 2_34 2_31 2_28 2_27 2_24 2_17; do
    platforms="$platforms --platform manylinux_${glibc}_x86_64"
done
python3 -m pip download -q --no-deps --only-binary=:all: --python-version "$version" \
    --implementation cp $platforms --platform manylinux2014_x86_64 \
    --platform manylinux1_x86_64 -d .whl -c constraints.txt \
    numpy filecheck cffi pycparser rmm-cu13 librmm-cu13 rapids-logger

mkdir -p .gpu/packages
(cd .gpu/packages && apt-get -q -o APT::Sandbox::User=root download libcmocka-dev libcmocka0)
for package in .gpu/packages/*.deb; do dpkg -x "$package" .gpu; done
rm -rf .gpu/packages .gpu/usr/share
du -sh .whl .gpu
