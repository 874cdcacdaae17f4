"""Marks of steps, for the pool beneath the current resource of a device."""

from __future__ import annotations

from typing import Any

from tarn import _tarn, mr


def step(device: int | None = None) -> None:
    """Mark the begin of a step of the program, for the pool of the current resource.

    Call it where the work begins anew: between two training steps, batches or queries. A pool with
    `plan="learn"` records the step, and follows a plan where it is repeated. Other pools ignore the
    mark. Adaptors over a pool are passed.

    Parameters
    ----------
    device : int, optional
        The device whose current resource is meant. None: the current device.

    Raises
    ------
    InvalidArgumentError
        There is no pool beneath the current resource.
    """
    current: Any = (
        mr.get_current_device_resource() if device is None else mr.get_per_device_resource(device)
    )
    resource = current
    while resource is not None and not hasattr(resource, "mark_step"):
        resource = getattr(resource, "upstream_mr", None)
    if resource is None:
        raise _tarn.InvalidArgumentError(f"step: {current!r} is no pool, and over none")
    resource.mark_step()
