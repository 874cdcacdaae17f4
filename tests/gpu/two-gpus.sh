#!/bin/sh
# two-gpus.sh -- what needs two GPUs of one machine: NCCL, PyTorch, Dask and tarn.use() on both.
#
#     PYTHON=python3 OUT=folder tests/gpu/two-gpus.sh        under 300 s after the first build
#
# It needs the wheels of prepare.sh and no network. Each part has a limit, and a failed part does
# not stop the next. The output of each is in $OUT. NVLink multicast stays off.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/gpu/common.sh

nccl_begin || exit 1
nvidia-smi topo -m

# part NAME SECONDS PROGRAM...: run a Python program within a limit, and print its result.
failed=0
part() {
    name=$1 limit=$2; shift 2
    timeout -s INT -k 5 "$limit" .venv-torch-gpu/bin/python "$@" >"$OUT/$name.txt" 2>&1 </dev/null
    code=$?
    [ $code -eq 0 ] || failed=1
    tail -n 40 "$OUT/$name.txt"
    echo "== $name: exit $code"
}

part nccl 150 tests/gpu/nccl.py
part nccl-torch 70 tests/gpu/nccl_torch.py
part nccl-torch-large 70 tests/gpu/nccl_torch.py --bytes 1073741824 --turns 3
part dask 150 tests/gpu/dask_transfer.py --gpus 2
part two-devices 60 -m pytest -q -rs -p no:cacheprovider python/tests/test_two_devices.py
part programs 60 -m pytest -q -rs -p no:cacheprovider tests/gpu/test_gpu_programs.py -k two_devices
part torch 120 -m pytest -q -ra -p no:cacheprovider --tb=short tests/gpu/test_torch.py -k device
exit $failed
