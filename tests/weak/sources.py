"""sources.py -- the sites of the source that a model stands for, and their memory orders.

A site is a file, a function and the text of one atomic operation in it. Its order is read from that
text. find() fails if the function does not have the text, so a changed order needs a changed model.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]

# Orders that are weaker than another one; a load cannot release, nor can a store acquire.
WEAKER = {
    "fence": {"seq_cst": ("none",)},
    "load": {"seq_cst": ("acquire", "relaxed"), "acquire": ("relaxed",)},
    "store": {"seq_cst": ("release", "relaxed"), "release": ("relaxed",)},
    "change": {
        "seq_cst": ("acq_rel", "relaxed"),
        "acq_rel": ("acquire", "release", "relaxed"),
        "acquire": ("relaxed",),
        "release": ("relaxed",),
    },
}


@dataclasses.dataclass(frozen=True)
class Site:
    """One atomic operation of the source."""

    file: str
    function: str
    text: str
    times: int = 1  # how often the function has it

    @property
    def order(self):
        """Return the memory order of the operation; that of a compare-exchange is the first."""
        named = re.search(r"memory_order_(\w+)|__ATOMIC_(\w+)", self.text)
        if not named:
            return "seq_cst"  # atomic_load(x) and the like
        return (named[1] or named[2]).lower()

    @property
    def kind(self):
        """Return load, store, change or fence."""
        if "fence" in self.text or "tarn__process_barrier" in self.text:
            return "fence"
        name = re.search(r"(?:__)?atomic_(\w+)", self.text)[1]
        if name.startswith("load"):
            return "load"
        return "store" if name.startswith("store") else "change"

    def weaker(self):
        """Return the orders that are weaker than that of the site."""
        return WEAKER[self.kind].get(self.order, ())


def plain(text):
    """Return a text without the differences that a formatter makes."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"\s*([(),;{}&*\[\]?:|!+=<>-])\s*", r"\1", text)).strip()


@functools.cache
def text_of(file):
    return (ROOT / file).read_text()


@functools.cache
def bodies(file, function):
    """Return the texts of the definitions of a function."""
    text = re.sub(r"/\*.*?\*/", " ", text_of(file), flags=re.S)
    found = []
    for match in re.finditer(rf"\b{re.escape(function)}\(", text):
        brace = text.find("{", match.end())
        semicolon = text.find(";", match.end())
        if brace < 0 or 0 <= semicolon < brace:
            continue  # a call or a declaration
        end = text.find("\n}", brace)
        found.append(plain(text[brace:end]))
    return found


def find(site):
    """Return True if the function of a site has its text, as often as the site says."""
    found = sum(body.count(plain(site.text)) for body in bodies(site.file, site.function))
    return found == site.times


def ordered(file, known=()):
    """Return the memory orders of a file but for relaxed ones, without those in known texts."""
    text = text_of(file)
    if "memory_order_" not in text and "__ATOMIC_" not in text:
        return []
    text = plain(text)
    for one in known:
        text = text.replace(plain(one), "")
    return re.findall(r"\S{0,60}memory_order_(?!relaxed)\w+|\S{0,60}__ATOMIC_(?!RELAXED)\w+", text)
