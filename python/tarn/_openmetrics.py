"""Formats the figures of processes as OpenMetrics text, which Prometheus and others read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class _Family(NamedTuple):
    """A metric: where its value is in the figures, and what it means."""

    name: str
    kind: str
    unit: str
    key: str
    about: str


def _bytes(key: str, about: str, name: str = "") -> _Family:
    return _Family(f"tarn_pool_{name or key}_bytes", "gauge", "bytes", key, about)


def _gauge(key: str, about: str) -> _Family:
    return _Family(f"tarn_pool_{key}", "gauge", "", key, about)


def _counter(key: str, about: str) -> _Family:
    return _Family(f"tarn_pool_{key}", "counter", "", key, about)


_POOL = (
    _bytes("live", "Bytes in live blocks, as rounded by the pool."),
    _bytes("live_requested", "Bytes in live blocks, as requested."),
    _bytes("thread_cached", "Free bytes in thread caches."),
    _bytes("cached", "Free bytes outside of thread caches."),
    _bytes("unfenced", "Free bytes that one stream alone can reuse."),
    _bytes("captured", "Bytes retained for graphs."),
    _bytes("reserved", "Bytes taken from upstream, or mapped."),
    _bytes("suspended", "Reserved bytes without physical memory now."),
    _bytes("maximum", "Maximum of the pool."),
    _bytes("peak_allocated", "The most bytes that were live and thread-cached at once."),
    _bytes("peak_reserved", "The most bytes that were reserved at once."),
    _bytes("largest_free", "Bytes of the largest free block."),
    _bytes("metadata", "Host bytes that the pool uses for itself."),
    _bytes("orphaned", "Cached bytes that only a device-wide wait completes."),
    _gauge("live_blocks", "Number of live blocks."),
    _gauge("streams", "Number of streams that the pool knows."),
    _Family("tarn_pool_fragmentation_ratio", "gauge", "ratio", "fragmentation",
            "1 - largest_free / cached."),
    _counter("allocations", "Allocations."),
    _counter("frees", "Frees."),
    _counter("failures", "Failed allocations."),
    _counter("cache_hits", "Allocations from a thread cache."),
    _counter("steals", "Allocations from the memory of another stream, behind a wait."),
    _counter("grown", "Allocations that grew the pool."),
    _counter("growths", "Times that the pool obtained memory."),
    _counter("shrinks", "Times that the pool returned memory."),
    _counter("moves", "Moves of free memory."),
    _counter("stream_waits", "Calls of cuStreamWaitEvent."),
    _counter("device_synchronizations", "Device-wide waits."),
    _counter("driver_calls", "Driver calls of the pool."),
)  # fmt: skip
_DEVICE = (
    _Family("tarn_device_free_bytes", "gauge", "bytes", "free", "Free memory of the device."),
    _Family("tarn_device_total_bytes", "gauge", "bytes", "total", "Memory of the device."),
)
_LIMIT = (
    _Family("tarn_limit_allocated_bytes", "gauge", "bytes", "allocated",
            "Bytes that a limiting adaptor has charged."),
    _Family("tarn_limit_bytes", "gauge", "bytes", "limit", "Limit of a limiting adaptor."),
)  # fmt: skip
_SITE = (
    _Family("tarn_site_live_bytes", "gauge", "bytes", "bytes", "Live bytes of an allocation site."),
    _Family("tarn_site_live_blocks", "gauge", "", "blocks", "Live blocks of an allocation site."),
)

_LISTS = (  # the metrics, the list of the figures, and the label that numbers its members
    (_DEVICE, "devices", ""),
    (_LIMIT, "limits", "adaptor"),
    (_POOL, "pools", "pool"),
)

_Sample = tuple[dict[str, Any], dict[str, Any]]  # the labels, and the figures


def text(figures: Iterable[dict[str, Any]]) -> str:
    """Return the figures of processes as OpenMetrics text.

    Parameters
    ----------
    figures : iterable of dict
        What collect() or read() returned, of one process each.

    Returns
    -------
    str
        Metrics whose names begin with `tarn_`, with the labels `pid`, `device`, and `pool`,
        `adaptor`, `tracker` or `site`.
        The type of the content is
        `application/openmetrics-text; version=1.0.0; charset=utf-8`.
    """
    every = list(figures)
    lines = ["# TYPE tarn_process info", "# HELP tarn_process A process that uses Tarn."]
    for process in every:
        labels = {key: process.get(key, "") for key in ("pid", "version", "command")}
        lines.append(_line("tarn_process_info", labels, 1))
    for families, key, numbered in _LISTS:
        lines += _lines(families, [pair for one in every for pair in _samples(one, key, numbered)])
    lines += _lines(_SITE, [pair for one in every for pair in _sites(one)])
    return "\n".join([*lines, "# EOF", ""])


def dicts(figures: Any, key: str) -> list[dict[str, Any]]:
    """Return the dicts of a list in the figures, and nothing of what another process sent else."""
    found = figures.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _samples(process: dict[str, Any], key: str, numbered: str = "") -> Iterator[_Sample]:
    """Yield the figures of a list, with labels; the label `numbered` tells those of a device apart."""
    for number, one in enumerate(dicts(process, key)):
        labels = {"pid": process.get("pid"), "device": one.get("device")}
        yield {**labels, numbered: number} if numbered else labels, one


def _sites(process: dict[str, Any]) -> Iterator[_Sample]:
    """Yield the sites of the trackers."""
    for labels, tracker in _samples(process, "trackers", "tracker"):
        for site in dicts(tracker, "sites"):
            yield {**labels, "site": site.get("location")}, site


def _lines(families: Iterable[_Family], samples: list[_Sample]) -> Iterator[str]:
    """Yield the lines of some metrics; a metric without a value has none."""
    for family in families:
        found = [(labels, one.get(family.key)) for labels, one in samples]
        values = [
            (labels, value)
            for labels, value in found
            if isinstance(value, int | float) and not isinstance(value, bool)
        ]
        if not values:
            continue
        yield f"# TYPE {family.name} {family.kind}"
        if family.unit:
            yield f"# UNIT {family.name} {family.unit}"
        yield f"# HELP {family.name} {family.about}"
        ending = "_total" if family.kind == "counter" else ""
        for labels, value in values:
            yield _line(family.name + ending, labels, value)


def _line(name: str, labels: dict[str, Any], value: float) -> str:
    """Return a line of one value."""
    shown = ",".join(f'{key}="{_escaped(str(label))}"' for key, label in labels.items())
    return f"{name}{{{shown}}} {value!r}"


def _escaped(label: str) -> str:
    """Return the value of a label; a byte that is no text becomes a question mark."""
    plain = label.encode("utf-8", "replace").decode()
    return plain.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
