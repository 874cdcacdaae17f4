"""Logs the buffers of a program with call stacks, and makes a report of the log."""

import os
import pathlib
import subprocess
import sys
import tempfile

import tarn

TARN = pathlib.Path(sys.executable).with_name("tarn")
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)

pool = tarn.mr.PoolMemoryResource(maximum_pool_size="64MiB")
logger = tarn.mr.LoggingResourceAdaptor(pool, "log.tarn", format="binary", stacks=16)
ring = tarn.mr.LoggingResourceAdaptor(pool, "newest.tarn", format="binary", ring="64MiB")

buffers = [tarn.DeviceBuffer(size=size, mr=logger) for size in (1000, 2000, 3000)]
newest = [tarn.DeviceBuffer(size=size, mr=ring) for size in range(1000, 2000)]

for command in (["log"], ["report", "-o", "report.html"]):
    subprocess.run([TARN, *command, logger.get_file_name()], check=True)
subprocess.run([TARN, "log", ring.get_file_name()], check=True)
