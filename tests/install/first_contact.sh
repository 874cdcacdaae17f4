#!/bin/sh
# first_contact.sh -- what five new users do, each from an empty folder and with the commands of the pages.
#
#     tests/install/first_contact.sh NAME...    c, numba, rapids, frameworks, contributor
#
# A story clones this checkout, builds, installs and runs programs on the driver simulator. It prints the
# commands with their output, and at its end the time. Python's packages come from the network.
set -u
TARN=$(cd "$(dirname "$0")/../.." && pwd)
export TARN
unset TARN_DRIVER TARN_SIM TARN_LOG

# readme FIRST: the commands of README's block that begins with FIRST, with a folder here for DIR.
readme() {
    sed -n "/^$1/,/^\`\`\`/p" "$TARN/README.md" | sed "/^\`\`\`/d; s|DIR|$PWD/usr|g"
}

# A C programmer: README's commands, then CMake.
story_c() {
    readme "cmake --preset user" >commands
    readme "export PKG_CONFIG_PATH" >>commands
    [ "$(grep -c "$PWD/usr" commands)" -ge 3 ]
    git clone -q "$TARN" tarn
    (cd tarn && sh -eux ../commands >../output)
    tail -n 1 output
    TARN_DRIVER=sim usr/bin/tarn info | head -n 3
    cmake -S tarn/tests/install/consumer -B cmake "-DCMAKE_PREFIX_PATH=$PWD/usr" >cmake.log
    cmake --build cmake >build.log
    TARN_DRIVER=sim cmake/consumer
}

# A Numba user whose memory grows: docs/leaks.md.
story_numba() {
    git clone -q "$TARN" tarn
    python3 -m venv env
    export PATH="$PWD/env/bin:$PATH"
    pip install -q "./tarn[numba]"
    sed -n '/^# leak.py/,/^```/p' tarn/docs/leaks.md | sed '/^```/d' >leak.py
    tarn run --driver sim --log leak.log --stacks 16 leak.py
    tarn log leak.log --stacks | sed -n '/held until exit/,/^$/p' | head -n 30
    tarn report leak.log -o leak.html
    ls -l leak.html
}

# A RAPIDS user: a script for RMM with one other import, then RMM itself on a resource of Tarn.
story_rapids() {
    git clone -q "$TARN" tarn
    python3 -m venv env
    export PATH="$PWD/env/bin:$PATH"
    pip install -q ./tarn rmm-cu13
    printf "%s\n" "import tarn.rmm as rmm" \
        "mr = rmm.mr.StatisticsResourceAdaptor(rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource()))" \
        "rmm.mr.set_current_device_resource(mr)" \
        "buffer = rmm.DeviceBuffer.to_device(bytes(300))" \
        "print(mr.allocation_counts)" >script.py
    TARN_DRIVER=sim python script.py
    TARN_DRIVER=sim python tarn/examples/python/rmm_bridge.py
}

# A user of CuPy and other frameworks: the first program of the tutorial, then docs/use.md.
story_frameworks() {
    git clone -q "$TARN" tarn
    python3 -m venv env
    export PATH="$PWD/env/bin:$PATH"
    pip install -q "./tarn[numba]" cuda-core cupy-cuda13x
    sed -n '/^# shared.py/,/^```/p' tarn/docs/tutorials/cupy.md | sed '/^```/d' >shared.py
    tarn sim -- shared.py
    tarn sim -- python tarn/examples/frameworks/use.py
    tarn sim -- python tarn/examples/frameworks/shared_pool.py
    tarn run --driver sim --log use.log --stacks 16 tarn/examples/frameworks/together.py
    tarn log use.log | head -n 8
}

# A contributor: the first commands of CONTRIBUTING.md.
story_contributor() {
    export TARN_REPOSITORY="$TARN"
    sed -n '/^git clone/,/^```/p' "$TARN/CONTRIBUTING.md" | sed '/^```/d' >commands
    # shellcheck disable=SC1091 # written above
    . ./commands
}

if [ "${1-}" = --here ]; then # one story in this folder
    set -eux
    "story_$2"
    exit
fi
for name; do
    folder=$(mktemp -d) && cd "$folder" || exit 1
    echo "== $name"
    began=$(date +%s)
    "$TARN/tests/install/first_contact.sh" --here "$name" ||
        { echo "first_contact: $name FAILED in $folder"; exit 1; }
    echo "== $name: $(($(date +%s) - began)) s"
    rm -rf "$folder"
done
times
