"""RMM's names over Tarn: `import tarn.rmm as rmm` runs a script that was written for RMM.

The modules are those of RMM 26.10. The classes are those of tarn and tarn.mr, so the objects of
both are the same. docs/rmm-names.md lists the differences. install_as_rmm(), called before the
first `import rmm`, also serves Python libraries that import `rmm` themselves.
"""

from __future__ import annotations

from tarn._tarn import DeviceBuffer
from tarn.rmm import _cuda, librmm, mr, pylibrmm, statistics  # noqa: F401
from tarn.rmm._cuda import gpu as _gpu  # noqa: F401
from tarn.rmm._install import install_as_rmm
from tarn.rmm._version import __git_commit__, __version__  # noqa: F401
from tarn.rmm.mr import disable_logging, enable_logging, get_log_filenames
from tarn.rmm.pylibrmm.logger import (
    flush_logger,
    get_flush_level,
    get_logging_level,
    level_enum,
    set_flush_level,
    set_logging_level,
    should_log,
)
from tarn.rmm.rmm import (
    RMMError,
    is_initialized,
    register_reinitialize_hook,
    reinitialize,
    unregister_reinitialize_hook,
)

__all__ = [
    "DeviceBuffer",
    "RMMError",
    "disable_logging",
    "enable_logging",
    "flush_logger",
    "get_flush_level",
    "get_log_filenames",
    "get_logging_level",
    "install_as_rmm",
    "is_initialized",
    "level_enum",
    "mr",
    "register_reinitialize_hook",
    "reinitialize",
    "set_flush_level",
    "set_logging_level",
    "should_log",
    "unregister_reinitialize_hook",
]
