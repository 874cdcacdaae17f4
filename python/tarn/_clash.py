"""A warning for another project's package `tarn`, installed into the folder of this one.

Both have a folder `tarn` in site-packages, so the one that is installed last replaces files of
the other. Where this package still runs, it warns of that.
"""

from __future__ import annotations

import os
import re
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
