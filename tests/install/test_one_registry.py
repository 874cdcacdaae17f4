"""Two consumers in one process, the wheel's Python and a C plugin, see one registry.

The plugin is linked against the wheel's libtarn, or against another copy of it (an installation).
Also then the process has one copy, because the loader identifies it by the soname.
"""

import subprocess
import sys
import textwrap

import pytest
from conftest import PROJECT, run

PROGRAM = """
import ctypes

def load_plugin():
    plugin = ctypes.CDLL({plugin!r})
    plugin.plugin_words.restype = plugin.plugin_resource_name.restype = ctypes.c_char_p
    plugin.plugin_allocate.restype = ctypes.c_ulonglong
    plugin.plugin_set_limiter.argtypes = [ctypes.c_size_t]
    plugin.plugin_allocate.argtypes = [ctypes.c_size_t]
    plugin.plugin_deallocate.argtypes = [ctypes.c_ulonglong, ctypes.c_size_t]
    return plugin

{order}
{body}
with open("/proc/self/maps") as maps:
    copies = {{line.split()[-1] for line in maps if "libtarn.so" in line}}
assert len(copies) == 1, copies
print("fine")
"""
ORDERS = {
    "python-first": "import tarn.mr as mr, tarn; plugin = load_plugin()",
    "plugin-first": "plugin = load_plugin(); import tarn.mr as mr, tarn",
}


@pytest.fixture(scope="module", params=["wheel", "installation"])
def plugin(request, package, prefix, tmp_path_factory):
    """Build the plugin, linked against one copy of libtarn or the other."""
    root = package if request.param == "wheel" else prefix
    library = next(root.rglob("libtarn.so"))
    out = tmp_path_factory.mktemp("plugin") / "plugin.so"
    run(
        "cc",
        "-shared",
        "-fPIC",
        PROJECT / "tests/install/plugin/plugin.c",
        "-o",
        out,
        "-I",
        root / "include",
        f"-L{library.parent}",
        "-ltarn",
        f"-Wl,-rpath,{library.parent}",
    )
    return str(out)


@pytest.fixture(params=ORDERS)
def check(request, plugin):
    """Run a piece of Python with the plugin loaded, in a process of its own."""

    def check(body):
        program = PROGRAM.format(
            plugin=plugin, order=ORDERS[request.param], body=textwrap.dedent(body)
        )
        done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True)
        assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr

    return check


def test_python_sets_and_the_plugin_sees(check):
    check("""
        assert plugin.plugin_resource_name() == b"cuda"
        upstream = mr.CudaMemoryResource()
        counter = mr.StatisticsResourceAdaptor(upstream)
        mr.set_current_device_resource(counter)
        assert plugin.plugin_resource_name() == b"counter", plugin.plugin_resource_name()
        block = plugin.plugin_allocate(1000)
        assert block, plugin.plugin_words()
        counts = counter.allocation_counts
        assert (counts.current_bytes, counts.current_count) == (1000, 1), counts
        assert plugin.plugin_deallocate(block, 1000) == 0, plugin.plugin_words()
        assert counter.allocation_counts.current_bytes == 0
    """)


def test_the_plugin_sets_and_python_sees(check):
    check("""
        assert plugin.plugin_set_limiter(1 << 20) == 0, plugin.plugin_words()
        buffer = tarn.DeviceBuffer(size=1 << 19)
        try:
            tarn.DeviceBuffer(size=(1 << 19) + 1)
        except MemoryError as error:
            assert "limiter" in str(error), error
        else:
            raise AssertionError("the plugin's limit does not hold for Python")
        del buffer
        assert plugin.plugin_set_default() == 0, plugin.plugin_words()
        assert plugin.plugin_resource_name() == b"cuda"
    """)
