"""Tarn: GPU memory for a whole process."""

from tarn._tarn import *  # noqa: F401,F403
from tarn._tarn import __version__
