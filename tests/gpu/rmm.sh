#!/bin/sh
# rmm.sh -- tarn.rmm beside RMM itself on a machine with a GPU: RMM's own Python tests, the cost
# of its calls, and PyTorch and pylibraft on Tarn's pool.
#
#     PYTHON=python3 OUT=folder tests/gpu/rmm.sh SOURCES
#
# SOURCES is a checkout of RMM. .whl/ has RMM's wheels (prepare.sh), and .whl-raft/ those of
# pylibraft-cu13 and libraft-cu13. PARTS selects some of the parts (suite calls bridge torch raft), each
# with its own limit; together they take at most eight minutes. Their output is in $OUT, with a line
# for each test in suite.txt. No network is needed.
set -u
cd "$(dirname "$0")/../.." || exit 1

PYTHON=$(command -v "${PYTHON:-python3}") && export PYTHON
sources=$1
OUT=${OUT:-build/gpu-out}
mkdir -p "$OUT" && OUT=$(cd "$OUT" && pwd)
unset TARN_DRIVER TARN_SIM TARN_LOG TARN_RESOURCE PYTHONPATH
. tools/setup.sh
. tests/gpu/common.sh

# part NAME SECONDS COMMAND...: run a program within a limit, and print the end of its output.
part() {
    name=$1 limit=$2 started=$(date +%s); shift 2
    case " ${PARTS:-$name} " in *" $name "*) ;; *) return ;; esac
    timeout -k 5 "$limit" "$@" >"$OUT/$name.log" 2>&1 </dev/null
    code=$?
    tail -n 60 "$OUT/$name.log"
    echo "== $name: exit $code after $(($(date +%s) - started)) s of $limit"
    [ $code -eq 0 ] || failed="${failed:-} $name"
}

# .venv-rmm has the wheels, and after them the packages of PYTHON's own environment.
environment() {
    rm -rf .venv-rmm && "$PYTHON" -m venv .venv-rmm &&
        .venv-rmm/bin/pip install -q --no-index --no-deps --no-compile .whl/*.whl .whl-raft/*.whl &&
        lend_packages .venv-rmm &&
        .venv-rmm/bin/python -m pip wheel -q --no-build-isolation --no-deps -w build/rmm-wheel . &&
        .venv-rmm/bin/pip install -q --no-index --no-deps build/rmm-wheel/tarn_gpu-*.whl &&
        .venv-rmm/bin/python -c 'import rmm, tarn; print("RMM", rmm.__version__, "Tarn", tarn.__version__)'
}

environment || exit 1
python=.venv-rmm/bin/python
part suite 240 $python tools/rmm_suite.py "$sources" --driver libcuda.so.1 --rmm --jobs 8 \
    --out "$OUT/suite.txt"
part calls 100 $python bench/micro/rmm_calls.py
part bridge 60 $python bench/micro/rmm_bridge.py --pairs 5000
part torch 60 $python tests/gpu/rmm_torch.py
part raft 80 $python tests/gpu/raft.py
echo "failed:${failed:- none}"
[ -z "${failed:-}" ]
