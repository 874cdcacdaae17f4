"""tarn.metrics.collect(): the figures of a process."""

import json
import threading

import pytest
import tarn
import tarn.metrics
from tarn import mr


@pytest.fixture
def pool():
    pool = mr.PoolMemoryResource()
    mr.set_current_device_resource(pool)
    yield pool
    mr.set_current_device_resource(None)


def test_a_process_without_memory_has_no_figures(sim_process):
    code = "import tarn.metrics; found = tarn.metrics.collect(); "
    code += "print([found[name] for name in ('devices', 'pools', 'limits', 'counts')])"
    assert sim_process(code) == "[[], [], [], []]"


def test_a_pool_has_its_statistics(pool):
    buffer = tarn.DeviceBuffer(size=12345)
    (found,) = [one for one in tarn.metrics.collect()["pools"] if one["is_current"]]
    assert (found["device"], found["resource"]) == (0, "PoolMemoryResource")
    assert {**found, **pool.statistics()._asdict()} == found
    assert found["live_requested"] == buffer.size


def test_pools_that_are_not_current_are_there_until_they_end(sim_process):
    code = """
import tarn.metrics
pool, slab = tarn.mr.PoolMemoryResource(), tarn.mr.FixedSizeMemoryResource()
found = tarn.metrics.collect()["pools"]
print(sorted((one["resource"], one["is_current"]) for one in found))
del pool, slab
print(tarn.metrics.collect()["pools"])
"""
    wanted = "[('FixedSizeMemoryResource', False), ('PoolMemoryResource', False)]\n[]"
    assert sim_process(code) == wanted


def test_adaptors_of_the_current_resource_have_theirs(pool):
    counter = mr.StatisticsResourceAdaptor(pool)
    mr.set_current_device_resource(mr.LimitingResourceAdaptor(counter, 1 << 20))
    buffer = tarn.DeviceBuffer(size=1000)
    found = tarn.metrics.collect()
    assert found["limits"] == [{"device": 0, "allocated": 1024, "limit": 1 << 20}]
    assert found["counts"][0]["current_bytes"] == buffer.size
    assert found["devices"][0]["resource"] == "LimitingResourceAdaptor"
    assert found["devices"][0]["total"] == tarn.device_info(0).total_bytes


def test_the_figures_can_be_written_as_json(pool):
    tarn.DeviceBuffer(size=1000)
    found = tarn.metrics.collect()
    again = json.loads(json.dumps(found))
    assert again["devices"] == found["devices"] and again["pid"] == found["pid"]


def test_a_forked_child_can_collect(sim_process):
    code = """
import os, tarn.metrics, warnings
warnings.simplefilter("ignore")  # Python 3.12 warns of a fork beside threads
pool = tarn.mr.PoolMemoryResource()
tarn.DeviceBuffer(size=10, mr=pool)
child = os.fork()
if child == 0:
    os._exit(0 if tarn.metrics.collect()["pid"] == os.getpid() else 1)
print(os.waitpid(child, 0)[1])
"""
    assert sim_process(code) == "0"


def test_threads_collect_while_pools_come_and_go(quick_switches):
    failures = []

    def work(call):
        try:
            for _ in range(30):
                call()
        except Exception as error:
            failures.append(error)

    calls = [tarn.metrics.collect, mr.PoolMemoryResource] * 2
    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
