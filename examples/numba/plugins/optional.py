"""optional.py -- how a library registers its plugin if Numba is installed, and works without it.

NBEP 7's pattern: the module with the plugin imports Numba, so it is imported only after
Numba was. `optional` stands for the library's own module, device_only.py for the one with
the plugin.
"""


def register():
    """Return whether the plugin is registered. Only a missing Numba is ignored: any other error is
    a bug that has to be visible."""
    try:
        from numba import cuda
    except ImportError:
        print("Numba not importable - not registering EMM Plugin")
        return False
    from device_only import DeviceOnlyManager

    cuda.set_memory_manager(DeviceOnlyManager)
    return True


if __name__ == "__main__":
    register()
