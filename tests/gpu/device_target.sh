#!/bin/sh
# device_target.sh -- builds and runs a CUDA project with the CMake target tarn::nrt_device of the
# installed wheel. It needs nvcc. Run it in the project's root, after tests/gpu/run.sh's `wheel`.
set -e
package=$(.venv/bin/python -c 'import os, tarn; print(os.path.dirname(tarn.__file__))')
cmake -S tests/gpu/device_target -B build/device_target -DCMAKE_PREFIX_PATH="$package"
cmake --build build/device_target
build/device_target/device_target
