"""A stock Numba served by a manager in C that TARN_MEMORY_MANAGER names, including plugins."""

import os
import pathlib
import subprocess

import pytest
import tarn
from numba_support import fork, fork_code

PLUGIN = pathlib.Path(__file__).parents[2] / "examples/plugins/cache_manager.c"
PROGRAM = """
import numpy as np
from numba import cuda
import tarn

tarn.use_tarn_for_numba()
first = cuda.to_device(np.arange(1000.0))
where = first.device_ctypes_pointer.value
assert first[10:20].copy_to_host().sum() == 145
del first
with cuda.defer_cleanup():
    second = cuda.to_device(np.ones(1000))
    assert second.copy_to_host().sum() == 1000
pinned, mapped = cuda.pinned_array(10), cuda.mapped_array(10)
managed = cuda.managed_array(10)
pinned[:], mapped[:], managed[:] = 1, 2, 3
assert (pinned + mapped + managed).sum() == 60
again = second.device_ctypes_pointer.value == where
del pinned, mapped, managed
cuda.close()
assert cuda.to_device(np.ones(10)).copy_to_host().sum() == 10
print(cuda.current_context().memory_manager._manager.name, again)
"""


def compiled(source, folder):
    """Return the path of a plugin from this source file."""
    out = folder / "plugin.so"
    command = ["cc", "-shared", "-fPIC", "-o", out, source, "-I", tarn.get_include()]
    subprocess.run([*command, "-L", tarn.get_library_dir(), "-ltarn"], check=True)
    return str(out)


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    return compiled(PLUGIN, tmp_path_factory.mktemp("plugin"))


@pytest.mark.parametrize("name", ["resource", "native", "pool"])
def test_a_manager_of_tarn_serves_numba(name):
    assert fork_code(PROGRAM, TARN_MEMORY_MANAGER=name).split()[0] == name


def test_a_plugin_in_c_serves_numba(plugin):
    """Its documentation is correct: a freed block is reused."""
    assert fork_code(PROGRAM, TARN_MEMORY_MANAGER=plugin) == "cache True"


REFUSE = """
static tarn_status refuse(void *self)
{
    (void)self;
    return tarn_error_set(TARN_NOT_SUPPORTED, "cache: not today");
}
"""


def test_a_plugin_that_cannot_be_prepared_is_told_before_the_first_allocation(tmp_path):
    source, text = tmp_path / "plugin.c", PLUGIN.read_text()
    begin = text.index("TARN_API const tarn_manager_ops")
    end = text[begin:].replace("tarn_host_only_initialize", "refuse")
    source.write_text(text[:begin] + REFUSE + end)
    code = """
import tarn
from numba import cuda
tarn.use_tarn_for_numba()
try:
    cuda.current_context()
except tarn.NotSupportedError as error:
    print(error)
"""
    assert "cache: not today" in fork_code(code, TARN_MEMORY_MANAGER=compiled(source, tmp_path))


ASKED = """
import tarn
from numba import cuda
tarn.use_tarn_for_numba(RESOURCE)
cuda.device_array(1)
print(cuda.current_context().memory_manager._manager.name)
tarn.use_tarn_for_numba(resource="cuda")
"""


@pytest.mark.parametrize(
    "resource, environment",
    [("resource='pool'", {}), ("resource=tarn.mr.CudaMemoryResource()", {}),
     ("", {"TARN_RESOURCE": "pool"}), ("", {})],
)  # fmt: skip
def test_a_resource_that_such_a_manager_does_not_ask_is_warned_of(resource, environment):
    """The warning comes at the first use, and at a later request of a resource."""
    code = ASKED.replace("RESOURCE", resource)
    done = fork(code, TARN_MEMORY_MANAGER="native", **environment)
    assert (done.returncode, done.stdout) == (0, "native\n"), done.stderr
    words = "memory comes from the manager native"
    assert done.stderr.count(words) == (2 if resource or environment else 1), done.stderr


def test_a_resource_that_serves_is_not_warned_of():
    code = ASKED.replace("RESOURCE", "resource='pool'")
    assert fork_code(code, TARN_RESOURCE="pool") == "resource"


def test_a_plugin_that_is_not_there_is_an_error_in_words():
    done = fork(PROGRAM, TARN_MEMORY_MANAGER=os.devnull + "/none.so")
    assert done.returncode != 0
    assert "TARN_MEMORY_MANAGER=/dev/null/none.so: manager: cannot find the file" in done.stderr
