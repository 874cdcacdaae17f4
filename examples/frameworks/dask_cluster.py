"""Gives each worker of a Dask cluster a pool of Tarn."""

import tarn
from dask.distributed import Client, LocalCluster
from tarn.dask import TarnPlugin

if __name__ == "__main__":
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        client.register_plugin(TarnPlugin(rmm_pool_size="64MiB", rmm_maximum_pool_size=0.5))
        one, two = client.scheduler_info()["workers"]
        made = client.submit(tarn.DeviceBuffer.to_device, bytes(1 << 20), workers=[one])
        read = client.submit(tarn.DeviceBuffer.tobytes, made, workers=[two])
        print(f"{len(read.result())} bytes, by a handle")
        figures = client.run(lambda: tarn.mr.get_current_device_resource().statistics())
        print([pool.reserved for pool in figures.values()])
