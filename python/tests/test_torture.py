"""The package with the 1st, 2nd, 3rd ... driver call failing: an exception, and no leak.

On the simulator alone, in a process of its own: only there calls can be made to fail.
"""

SCENARIO = """
import ctypes, gc, pickle, sys
import tarn
from tarn import mr

sim = ctypes.CDLL(tarn.driver_info().path)
sim.tarn_sim_faults.restype = sim.tarn_sim_live_bytes.restype = ctypes.c_ulonglong
tarn.device_info()  # the primary context is made once and stays
sys.unraisablehook = lambda args: None

class Own(mr.UpstreamResourceAdaptor):
    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        return super().allocate(nbytes, stream)

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        super().deallocate(ptr, nbytes, stream)

def scenario():
    stream = tarn.Stream()
    counter = mr.StatisticsResourceAdaptor(Own(mr.CudaMemoryResource()))
    limiter = mr.LimitingResourceAdaptor(counter, 1 << 20)
    before = mr.set_current_device_resource(limiter)
    try:
        buffer = tarn.DeviceBuffer.to_device(b"abc" * 100, stream=stream)
        buffer.resize(1000, stream)
        buffer.copy_from_device(buffer.copy())
        assert pickle.loads(pickle.dumps(buffer)).tobytes()[:3] == b"abc"
    finally:
        mr.set_current_device_resource(before)

scenario()
gc.collect()
live = sim.tarn_sim_live_bytes()
failed = 0
for nth in range(1, 1000):
    assert sim.tarn_sim_configure(f"fail=nth:{nth}".encode()) == 0
    try:
        scenario()
    except tarn.TarnError:
        failed += 1
    faults = sim.tarn_sim_faults()
    sim.tarn_sim_configure(None)
    gc.collect()
    scenario()  # the next call works, and brings back what could not be given back
    gc.collect()
    assert sim.tarn_sim_live_bytes() == live, (nth, sim.tarn_sim_live_bytes(), live)
    if not faults:
        break
assert failed > 10 and not faults
print("ok")
"""


def test_no_failing_driver_call_loses_anything(sim_process):
    assert sim_process(SCENARIO) == "ok"
