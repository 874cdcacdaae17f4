"""tarn.dask in a cluster of real workers.

The scheduler is in this process. Two workers have a nanny and RMM. `dask worker --preload
tarn.dask` starts the third one without RMM. It has another socket directory, so it is on another
machine as far as Tarn knows.
"""

import contextlib
import importlib.util
import os
import pickle
import subprocess
import sys

import dask_support
import pytest

if importlib.util.find_spec("distributed") is None:
    pytest.skip("distributed is not installed", allow_module_level=True)

import distributed
import tarn
import tarn.dask
from tarn.dask import TarnPlugin

MIB = 1 << 20


class Cluster:
    """A client, and the addresses of the workers: two with a nanny, one that was preloaded."""

    def __init__(self, client, workers, third):
        self.client = client
        self.workers = workers
        self.third = third
        self.failure = None

    def submit(self, function, *arguments, on, **options):
        return self.client.submit(function, *arguments, workers=[on], pure=False, **options)

    def state(self, worker):
        return self.client.run(dask_support.state, workers=[worker])[worker]

    def metrics(self, name):
        workers = self.client.sync(self.client.scheduler.identity)["workers"]
        return {address: worker["metrics"].get(name) for address, worker in workers.items()}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folders = [tmp_path_factory.mktemp(name) for name in ("ipc", "ipc-of-third", "third", "logs")]
    for folder in folders:
        folder.chmod(0o700)
    ipc, other_ipc, third, logs = folders
    here = dask_support.environment(TARN_IPC_DIR=str(ipc))
    there = {"TARN_IPC_DIR": str(other_ipc), "DASK_TARN__RMM_MAXIMUM_POOL_SIZE": "1GiB"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in here.items():
            patch.setenv(name, value)
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
            ) as local,
            dask_support.preload_worker(
                local.scheduler_address, third, ["--rmm-pool-size", "16MiB"], **there
            ),
            distributed.Client(local) as client,
        ):
            workers = sorted(local.scheduler.workers)
            client.wait_for_workers(3, timeout=60)
            (added,) = set(local.scheduler.workers) - set(workers)
            cluster = Cluster(client, workers, added)
            yield cluster, logs


@pytest.fixture(scope="module")
def served(cluster):
    """The cluster after the plugin was registered, first with an impossible pool."""
    cluster, logs = cluster
    cluster.preloaded = cluster.state(cluster.third)
    try:
        cluster.client.register_plugin(TarnPlugin(rmm_pool_size="1TiB"))
    except tarn.OutOfMemoryError as error:
        cluster.failure = str(error)
    plugin = TarnPlugin(rmm_pool_size="64MiB", rmm_log_directory=str(logs))
    cluster.client.register_plugin(plugin)
    return cluster


def test_a_preloaded_worker_has_the_options_of_its_command_line_and_environment(cluster):
    found = cluster[0].state(cluster[0].third)
    assert (found["reserved"], found["maximum"]) == (16 * MIB, 1 << 30)


def test_a_pool_that_cannot_be_made_is_an_error_at_the_client(served):
    assert "rmm_pool_size='1TiB'" in served.failure


def test_each_worker_gets_a_pool_of_its_own(served):
    states = [served.state(worker) for worker in (*served.workers, served.third)]
    assert len({state["pid"] for state in states}) == 3
    assert [state["reserved"] for state in states] == [64 * MIB] * 3


def test_rmm_allocates_from_the_pool_where_it_is_installed(served):
    for worker in served.workers:
        assert served.client.run(dask_support.of_rmm, MIB, workers=[worker])[worker] == MIB
    assert not served.client.run(dask_support.has_rmm, workers=[served.third])[served.third]


def test_a_buffer_for_a_worker_on_this_machine_goes_by_a_handle(served):
    first, second = served.workers
    before = served.state(first)["requests"]
    made = [served.submit(dask_support.make, size, 5, on=first) for size in (2 * MIB, 4 * MIB)]
    read = served.submit(dask_support.read_together, *made, on=second)
    assert read.result() == [("DeviceBuffer", size, [5]) for size in (2 * MIB, 4 * MIB)]
    assert served.state(first)["requests"] == before + 2
    dask_support.wait_for(lambda: served.state(first)["held"] == 0)
    del made, read
    dask_support.wait_for(lambda: served.state(first)["live"] == 0)
    dask_support.wait_for(lambda: served.state(second)["live"] == 0)


def test_a_block_that_only_the_message_keeps_arrives_whole(served):
    first, second = served.workers
    actor = served.submit(dask_support.Maker, on=first, actor=True).result()
    read = served.submit(dask_support.read_result_of, actor, 2 * MIB, 3, on=second)
    assert read.result() == ("DeviceBuffer", 2 * MIB, [3])
    dask_support.wait_for(lambda: served.state(first)["live"] == 0)


def test_a_buffer_for_another_machine_and_for_the_client_goes_through_the_host(served):
    before = served.state(served.third)["requests"]
    made = served.submit(dask_support.make, 2 * MIB, 6, on=served.third)
    read = [served.submit(dask_support.read, made, on=worker) for worker in served.workers]
    assert [future.result() for future in read] == [("DeviceBuffer", 2 * MIB, [6])] * 2
    assert dask_support.read(made.result()) == ("DeviceBuffer", 2 * MIB, [6])
    assert served.state(served.third)["requests"] == before


def test_the_figures_of_each_worker_arrive_at_the_scheduler(served):
    everyone = [*served.workers, served.third]
    made = [served.submit(dask_support.make, MIB, 1, on=worker) for worker in everyone]
    distributed.wait(made)

    def have_arrived():  # a worker that has sent no heartbeat since the plugin came has no figures
        return all(figures and figures["rmm-used"] == MIB
                   for figures in served.metrics("rmm").values())  # fmt: skip

    dask_support.wait_for(have_arrived)
    assert set(served.metrics("rmm")) == set(everyone)
    for figures in served.metrics("rmm").values():  # the dashboard adds them and formats them
        assert figures == {"rmm-used": MIB, "rmm-total": 64 * MIB}
        assert all(type(value) is int for value in figures.values())
    for figures in served.metrics("tarn").values():
        assert figures["reserved"] == 64 * MIB and 0 < figures["free"] < figures["total"]
        assert len(pickle.dumps(figures)) < 300


def test_the_logs_of_all_workers_come_to_the_client(served, tmp_path):
    for worker in (*served.workers, served.third):
        served.submit(dask_support.read, served.submit(dask_support.make, 777, 1, on=worker),
                      on=worker).result()  # fmt: skip
    logs = tarn.dask.fetch_logs(served.client)
    assert set(logs) == {*served.workers, served.third}
    assert all(content.count(b",777,0\n") >= 1 and content[-1:] == b"\n"
               for content in logs.values())  # fmt: skip
    paths = tarn.dask.fetch_logs(served.client, tmp_path / "all")
    assert set(paths) == set(logs) and len(set(paths.values())) == 3
    for path in paths.values():
        subprocess.run(
            [os.path.join(os.path.dirname(sys.executable), "tarn"), "log", "--check", path],
            check=True, capture_output=True,
        )  # fmt: skip


def test_a_handle_that_cannot_be_opened_is_replaced_by_the_bytes(served):
    first, second = served.workers
    opened = served.submit(dask_support.make, 2 * MIB, 7, on=first)  # starts the server of `first`
    assert served.submit(dask_support.read, opened, on=second).result()[2] == [7]
    assert served.state(second)["failure"] is None
    served.client.run(dask_support.close_door, workers=[first])
    made = [served.submit(dask_support.make, 2 * MIB, value, on=first) for value in (8, 9)]
    read = [served.submit(dask_support.read, future, on=second) for future in made]
    assert [future.result() for future in read] == [
        ("DeviceBuffer", 2 * MIB, [8]),
        ("DeviceBuffer", 2 * MIB, [9]),
    ]
    assert "socket" in served.state(second)["failure"]
    dask_support.wait_for(lambda: served.state(first)["held"] == 0)


def test_a_worker_that_restarts_gets_its_pool_again(served):
    before = {worker: served.state(worker)["pid"] for worker in served.workers}
    served.client.restart_workers([served.workers[0]])
    dask_support.wait_for(lambda: all(served.metrics("rmm").values()))
    (again,) = set(served.metrics("rmm")) - {served.workers[1], served.third}
    state = served.state(again)
    assert state["pid"] not in before.values() and state["reserved"] == 64 * MIB
    made = served.submit(dask_support.make, MIB, 4, on=again)
    assert dask_support.read(made.result()) == ("DeviceBuffer", MIB, [4])


def test_without_a_log_there_is_nothing_to_fetch(served):
    served.client.register_plugin(TarnPlugin(rmm_pool_size="64MiB"))
    with pytest.raises(ValueError, match="none of 3 workers has a log"):
        tarn.dask.fetch_logs(served.client)


# --- several nodes, which the simulator has ---


@contextlib.contextmanager
def node(scheduler, folder, name, options):
    """Start a worker on a node of its own, and return when it runs."""
    folder = folder / name
    folder.mkdir(mode=0o700)
    changes = {"TARN_IPC_DIR": str(folder), "TARN_SIM": options}
    arguments = ["--name", name, "--rmm-pool-size", "16MiB"]
    with dask_support.preload_worker(scheduler, folder, arguments, **changes):
        yield


def nodes_of(client, local, count):
    client.wait_for_workers(count, timeout=60)
    workers = local.scheduler.workers.values()
    return {worker.name: worker.address for worker in workers}


@pytest.mark.skipif(not tarn.driver_info().is_simulator, reason="needs nodes of a fabric")
def test_a_buffer_for_another_node_goes_by_a_fabric_handle(tmp_path):
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as local,
        node(local.scheduler_address, tmp_path, "one", "fabric=on,node=0"),
        node(local.scheduler_address, tmp_path, "two", "fabric=on,node=1"),
        node(local.scheduler_address, tmp_path, "three", "fabric=no-channel,node=2"),
        node(local.scheduler_address, tmp_path, "four", "fabric=off,node=3"),
        distributed.Client(local) as client,
    ):
        workers = nodes_of(client, local, 4)
        cluster = Cluster(client, list(workers.values()), None)
        client.run(dask_support.count_fabric)
        made = cluster.submit(dask_support.make, 2 * MIB, 7, on=workers["one"])
        for name in ("two", "three", "four"):
            read = cluster.submit(dask_support.read, made, on=workers[name])
            assert read.result(60) == ("DeviceBuffer", 2 * MIB, [7]), name
        opened = client.run(dask_support.count_fabric)
        assert {name: opened[workers[name]] for name in workers} == {
            "one": 0, "two": 1, "three": 0, "four": 0,
        }  # fmt: skip
        assert "IMEX channel" in cluster.state(workers["three"])["far_failure"]
        assert cluster.state(workers["two"])["far_failure"] is None
        assert cluster.state(workers["one"])["requests"] == 0
        dask_support.wait_for(lambda: cluster.state(workers["one"])["held"] == 0)
