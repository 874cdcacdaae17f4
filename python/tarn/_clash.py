"""Names that this package shares with others: a package `tarn`, and the frameworks.

Another project's `tarn` installs into the same folder of site-packages, so the one that is
installed last replaces files of the other. Where this package still runs, it warns of that.

Files such as tarn/numba.py have the name of a framework. A program inside this folder, or one
that is started in it, has the folder on sys.path, where `import numba` would find that file.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import warnings

_OTHER = re.compile(r"tarn-[^-]+\.(dist-info|egg-info)")


def other_distribution(folder: str) -> str | None:
    """Return the metadata of a distribution `tarn` beside the package in `folder`, or None.

    This project's distribution is `tarn-gpu`, whose metadata begin with `tarn_gpu-`.
    """
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    return next((name for name in sorted(names) if _OTHER.fullmatch(name)), None)


def warn(package: str) -> None:
    """Warn if a distribution `tarn` lies beside the folder `package`; the extension calls it."""
    other = other_distribution(os.path.dirname(package))
    if other is not None:
        warnings.warn(
            f"{other} is another distribution that installs into {package}, where tarn-gpu is: "
            "files of one replace those of the other. Run `pip uninstall tarn tarn-gpu`, then "
            "`pip install tarn-gpu`",
            RuntimeWarning,
            stacklevel=2,
        )


def yield_names() -> None:
    """Keep the files of this package from being found under the names of frameworks.

    tarn/__init__.py calls it. It removes the folder of this package from sys.path. A file that
    Python has found there under the name of a framework imports `tarn` first; the framework then
    takes its place.
    """
    folder = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") != folder]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and "." not in name and name not in ("tarn", "__main__"):
            if os.path.realpath(file).startswith(folder + os.sep):
                del sys.modules[name]
                sys.modules[name] = importlib.import_module(name)
