"""A plugin in Python under the target that is part of Numba, which requires addresses as ctypes
integers.

See docs/writing-a-plugin.md, "Three Numbas". Debian's Numba, as in test_numba_versions.py.
"""

import pytest
from test_numba_versions import BEGIN, NUMBAS, ON_SIM, PROJECT, run

pytestmark = [
    pytest.mark.parametrize("numba", NUMBAS[1:2]),
    pytest.mark.skipif(not ON_SIM, reason="Debian's Numba needs CUDA 12's names"),
]
PLUGINS = PROJECT / "examples" / "numba" / "plugins"

USE = f"""
sys.path.insert(0, {str(PLUGINS)!r})
import device_only
counter = tarn.mr.StatisticsResourceAdaptor(tarn.mr.CudaMemoryResource())
tarn.mr.set_current_device_resource(counter)
cuda.set_memory_manager(device_only.DeviceOnlyManager)
host = np.arange(100.0)
array = cuda.to_device(host)
np.testing.assert_array_equal(array[10:20].copy_to_host(), host[10:20])
for make in (cuda.pinned_array, cuda.mapped_array, cuda.managed_array):
    make(5)[:] = 3
handle = pickle.loads(pickle.dumps(array[5:].get_ipc_handle()))
assert (handle._ipc_handle.offset % 256, handle._ipc_handle.size) == (40, 760)
del handle
cuda.close()
again = cuda.to_device(host)
del array
np.testing.assert_array_equal(again.copy_to_host(), host)
del again
print(counter.allocation_counts.current_bytes, counter.allocation_counts.total_count)
"""


def test_the_shortest_plugin_serves(numba):
    assert run(numba, BEGIN + USE) == "0 2"
