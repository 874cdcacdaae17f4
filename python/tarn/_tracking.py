"""The resource that lists its outstanding allocations, and call stacks as text.

The C tracker keeps the blocks and captures the stacks; the text is made here.
"""

from __future__ import annotations

import os
import traceback

from tarn import _debug_log, _tarn
from tarn._tarn import DeviceMemoryResource, UpstreamResourceAdaptor


class TrackingResourceAdaptor(UpstreamResourceAdaptor):
    """Record the outstanding allocations, and where the program made them.

    A call stack has the Python functions that led to the allocation. On a thread that does not run
    Python it has native functions.

    Parameters
    ----------
    upstream_mr : DeviceMemoryResource
        The resource beneath; the adaptor keeps it alive.
    capture_stacks : bool
        Record the call stack of each allocation.
    stack_depth : int
        Most frames of a call stack, from the innermost on; at most 128.

    Raises
    ------
    InvalidArgumentError
        `stack_depth` exceeds 128.
    """

    _captures = False

    def __init__(
        self,
        upstream_mr: DeviceMemoryResource,
        capture_stacks: bool = False,
        *,
        stack_depth: int = 64,
    ) -> None:
        super().__init__(upstream_mr)
        self._captures = bool(capture_stacks)
        _tarn._wrap_tracker(self, stack_depth if capture_stacks else 0)

    def __repr__(self) -> str:
        return f"<tarn.mr.{type(self).__name__} over {self.upstream_mr!r}>"

    def get_allocated_bytes(self) -> int:
        """Return the bytes of the outstanding allocations, as requested."""
        return _tarn._tracker_bytes(self)

    def get_outstanding_allocations_str(self) -> str:
        """Return a line for each outstanding allocation, with its call stack beneath.

        The lines of a stack are those of a traceback. A native line has the offset in the module
        and the build-id of it, for `addr2line -e FILE OFFSET`.
        """
        lines = []
        for address, nbytes, stack in _tarn._tracker_blocks(self):
            lines.append(f"{address:#x}: {nbytes} B\n")
            if self._captures:
                lines.extend(_lines(stack))
        return "".join(lines)

    def dump_log(self, filename: str | os.PathLike[str]) -> None:
        """Write a binary log with an allocation for each outstanding block, and its call stack.

        `tarn report` and `tarn log` show the log. `tarn convert` exports it to PyTorch's viewer,
        Perfetto or a flame graph.

        Parameters
        ----------
        filename : str or path-like
            The file to write. An existing file is replaced.

        Raises
        ------
        MemoryError
            No host memory for a copy of the list of blocks.
        TarnError
            The file cannot be written.
        """
        _tarn._tracker_write(self, os.fspath(filename))

    def log_outstanding_allocations(self) -> None:
        """Write the outstanding allocations to the debug log, at the level `debug`."""
        text = self.get_outstanding_allocations_str()
        _debug_log.write(_debug_log.level_enum.debug, f"Outstanding Allocations: {text}")


def _lines(stack: int) -> list[str]:
    """Return the lines of a call stack, the innermost frame last."""
    frames = _tarn._stack_frames(stack)
    if not frames:
        return ["  the call stack is unknown\n"]
    return [line for frame in reversed(frames) for line in _frame_lines(*frame)]


def _frame_lines(
    function: str, file: str, line: int, offset: int, build_id: str | None
) -> list[str]:
    """Return the lines of a frame; a line of Python's has its source text beneath."""
    if build_id is None:
        return traceback.StackSummary.from_list([(file, line, function, None)]).format()
    name = f", in {function}" if function else ""
    module = f", build-id {build_id}" if build_id else ""
    return [f'  File "{file}", offset {offset:#x}{name}{module}\n']
