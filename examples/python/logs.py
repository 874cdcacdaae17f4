"""Logs the buffers of a program, and reads the log with the command `tarn`."""

import pathlib
import subprocess
import sys
import tempfile

import tarn

TARN = pathlib.Path(sys.executable).with_name("tarn")
folder = tempfile.TemporaryDirectory()

pool = tarn.mr.PoolMemoryResource(maximum_pool_size="64MiB")
logger = tarn.mr.LoggingResourceAdaptor(pool, f"{folder.name}/log.csv", auto_flush=True)
tarn.mr.set_current_device_resource(logger)
buffers = [tarn.DeviceBuffer(size=size) for size in (1000, 2000, 3000)]
del buffers[1]
print(logger.get_file_name())  # log.dev0.csv

for command in (["log", "--check"], ["replay", "--resource", "pool"]):
    subprocess.run([TARN, *command, logger.get_file_name()], check=True)
