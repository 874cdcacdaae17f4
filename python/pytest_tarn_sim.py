"""The driver simulator in tests: a plugin for pytest.

::

    def test_copies_survive_a_failure(tarn_sim):    # run by: tarn sim -- pytest
        for nth in tarn_sim.each_fault():           # the 1st call fails, then the 2nd, ...
            scenario()

    def test_streams_are_ordered(tarn_sim):
        tarn_sim.configure(races="on")
        scenario()
        assert tarn_sim.races == 0, tarn_sim.race

A test with the fixture is skipped if libcuda.so.1 is not the simulator. Its options end with the
test. The module needs neither Tarn's package nor a GPU, and calls the simulator with ctypes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

import pytest

_FAULTS_MAX = 100_000


class Simulator:
    """The driver simulator that this process uses."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.tarn_sim_error.restype = ctypes.c_char_p
        library.tarn_sim_race.restype = ctypes.c_char_p

    def configure(self, **options: object) -> None:
        """Set the options of docs/sim.md: `configure(races="on", host_memory="fail:3")`.

        Options that are not named have their defaults, and all counts restart from 0. The number
        of devices cannot change after cuInit.
        """
        names = {name.replace("_", "-"): value for name, value in options.items()}
        self._configure(",".join(f"{name}={value}" for name, value in names.items()))

    def _configure(self, text: str) -> None:
        if self._library.tarn_sim_configure(text.encode()):
            raise ValueError(self._library.tarn_sim_error().decode())

    def each_fault(self, kind: str = "fail", **options: object) -> Iterator[int]:
        """Have the first call fail, then the second, and so on, until none is left to fail.

        The number of the failing call is returned. `kind` "host_memory" fails the simulator's
        requests for host memory instead. The other options are as in configure().
        """
        if kind not in ("fail", "host_memory"):
            raise ValueError(f"kind is {kind!r}, it has to be 'fail' or 'host_memory'")
        prefix = "nth:" if kind == "fail" else "fail:"
        for nth in range(1, _FAULTS_MAX):
            self.configure(**options, **{kind: f"{prefix}{nth}"})
            yield nth
            if self.faults == 0:
                return
        raise RuntimeError(f"more than {_FAULTS_MAX} calls, and each can fail")

    def _count(self, name: str) -> int:
        function = getattr(self._library, f"tarn_sim_{name}")
        function.restype = ctypes.c_ulonglong
        return int(function())

    @property
    def faults(self) -> int:
        """The number of faults since the last configure."""
        return self._count("faults")

    @property
    def races(self) -> int:
        """The number of races since the last configure, with `races="on"`."""
        return self._count("races")

    @property
    def race(self) -> str:
        """The message of the last race, or ""."""
        message: bytes = self._library.tarn_sim_race()
        return message.decode()

    @property
    def misuses(self) -> int:
        """The number of calls with a destroyed handle, with `dead="error"`."""
        return self._count("misuses")

    @property
    def unknown_reads(self) -> int:
        """The number of copies of unknown bytes to the host, with `launches="ignore"`."""
        return self._count("unknown_reads")

    @property
    def calls(self) -> int:
        """The number of driver calls since the last configure."""
        return self._count("calls")

    @property
    def live_bytes(self) -> int:
        """The bytes that are allocated and not freed, on all devices."""
        return self._count("live_bytes")


def _open() -> Simulator | None:
    """Return the simulator, or None if libcuda.so.1 is another driver or is not there."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return Simulator(library) if hasattr(library, "tarn_sim_configure") else None


@pytest.fixture  # type: ignore[untyped-decorator]
def tarn_sim() -> Iterator[Simulator]:
    """The driver simulator. Without it, the test is skipped."""
    simulator = _open()
    if simulator:
        yield simulator
        simulator._configure(os.environ.get("TARN_SIM", ""))
    else:
        pytest.skip("libcuda.so.1 is not the driver simulator: use `tarn sim -- pytest`")
