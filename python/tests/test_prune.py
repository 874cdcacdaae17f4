"""tarn.prune on IR: its own calls, and its results compared with llvmlite's."""

import ctypes
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tarn.prune
from tarn.prune import _library

pytest.importorskip("llvmlite")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import llvmlite.binding as ll  # noqa: E402
import prune_compare  # noqa: E402
import prune_random  # noqa: E402

HEAD = """
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @use(ptr) readonly
"""

PAIR = (
    HEAD
    + """
define void @pair(ptr %a, i1 %c) {
entry:
  call void @NRT_incref(ptr %a)
  br i1 %c, label %left, label %end
left:
  br label %end
end:
  call void @NRT_decref(ptr %a)
  ret void
}
"""
)

KEPT = (
    HEAD
    + """
define void @stays(ptr %a, ptr %b, i1 %c) {
entry:
  call void @NRT_incref(ptr %a)
  br i1 %c, label %left, label %end
left:
  call void @NRT_decref(ptr %b)
  br label %end
end:
  call void @NRT_decref(ptr %a)
  ret void
}
"""
)


def refops(ir):
    text = ir if isinstance(ir, str) else str(ll.parse_bitcode(ir))
    return len(re.findall(r"call void @NRT_(in|de)cref", text))


def test_text_comes_back_as_text_and_bitcode_as_bitcode():
    text = tarn.prune.prune(PAIR)
    bitcode = tarn.prune.prune(ll.parse_assembly(PAIR).as_bitcode())
    assert isinstance(text.ir, str) and isinstance(bitcode.ir, bytes)
    assert refops(text.ir) == refops(bitcode.ir) == 0
    assert text.report[:8] == bitcode.report[:8] == (0, 2, 0, 0, 1, 1, 1, 1)
    assert text.report.removed == 2 and text.report.peak_bytes > 0


def test_only_the_shapes_that_are_asked_for_are_looked_for():
    assert refops(tarn.prune.prune(PAIR, shapes=["per_block", "fanout_raise"]).ir) == 2
    assert refops(tarn.prune.prune(PAIR, shapes=["diamond"]).ir) == 0


@pytest.mark.parametrize(
    "wrong", [{"mode": "best"}, {"shapes": []}, {"shapes": ["per_block", "round"]}]
)
def test_what_is_not_there_is_refused(wrong):
    with pytest.raises(ValueError, match="prune: "):
        tarn.prune.prune(PAIR, **wrong)


@pytest.mark.parametrize("ir", ["define void @f( {", b"BC\xc0\xde1234", "no IR"])
def test_bad_ir_is_an_error_that_names_it(ir):
    with pytest.raises(tarn.TarnError, match="some file"):
        tarn.prune.prune(ir, name="some file")


def test_explain_says_what_kept_an_incref_and_where():
    assert tarn.prune.prune(KEPT).kept == []
    (kept,) = tarn.prune.explain(KEPT)
    assert kept.function == "stays" and "%a" in kept.value
    assert kept.incref.block == "%entry" and kept.at.block == "%left"
    assert str(kept).startswith("stays: ") and kept.message in str(kept)
    with pytest.raises(TypeError):
        tarn.prune.explain(3)


def test_threads_prune_at_once():
    texts = [prune_random.module(5, 100 * i, 100) for i in range(4)]
    alone = [tarn.prune.prune(text) for text in texts]
    results = {}

    def work(i):
        results[i] = [tarn.prune.prune(texts[i]) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(4):
        assert all(result == alone[i] for result in results[i])


HEADER = Path(tarn.get_include()) / "tarn" / "prune.h"


@pytest.mark.parametrize(
    "struct, mirror",
    [
        ("tarn_prune_place", _library._CPlace),
        ("tarn_prune_kept", _library._CKept),
        ("tarn_prune_options", _library._COptions),
        ("tarn_prune_report", _library._CReport),
    ],
)
def test_the_structs_are_those_of_the_header(struct, mirror):
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    fields = re.search(r"typedef struct " + struct + r" \{(.*?)\}", text, re.S).group(1)
    names = [
        name.strip(" *\n").split()[-1].lstrip("*")
        for row in fields.split(";")
        for name in row.split(",")
        if name.strip()
    ]
    assert names == [name for name, _ in mirror._fields_]
    wide = {"uint64_t", "size_t"}
    sizes = {"unsigned": 4, "bool": 1}
    for row in fields.split(";"):
        words = row.replace("*", " * ").split()
        if not words or "*" in words or words[0].endswith(("_place", "_fn")):
            continue
        expected = 8 if words[0] in wide else sizes.get(words[0], 4)
        for name in " ".join(words[1:]).split(","):
            kinds = dict(mirror._fields_)
            assert ctypes.sizeof(kinds[name.strip()]) == expected, name


def test_the_modes_and_shapes_are_those_of_the_header():
    text = HEADER.read_text()
    for shape, bit in _library.SHAPES.items():
        assert f"TARN_PRUNE_{shape.upper()} = {bit}," in text
    for mode, value in _library.MODES.items():
        assert f"TARN_PRUNE_{mode.upper()} = {value}" in text


# --- beside llvmlite --------------------------------------------------------------------


def test_compatible_mode_gives_llvmlites_text_and_numbers():
    stock = prune_compare.Stock()
    for batch in prune_compare.batches(4000, seed=3):
        assert prune_compare.compare_batch(stock, batch) is None


def test_the_old_pass_gives_the_text_of_numbas():
    pytest.importorskip("numba")
    from numba.core.runtime.nrtopt import _remove_redundant_nrt_refct

    removed = 0
    for batch in prune_compare.batches(1000, seed=4):
        for text in (batch.text, str(ll.parse_assembly(batch.text))):
            ours, count = tarn.prune.old_text(text)
            assert ours == _remove_redundant_nrt_refct(text)
            removed += count
    assert removed > 500


SAMPLE = """
import sys
sys.path.append(sys.argv[1])
import prune_corpus
prune_corpus.install(prune_corpus.Recorder(sys.argv[2]))
import numpy as np
from numba import njit, typed, types

@njit
def element(n):
    rows = [np.ones(3), np.zeros(2)]
    for i in range(n):
        rows.append(rows[i] + 1.0)
        if rows[i].size == 7:
            raise ValueError("seven")
    return rows[-1][0]

BY_NAME
@njit
def pick(flag, a, b):
    c = a if flag else b
    while c.size > 1:
        c = c[1:]
    return c

element(3), pick(True, np.ones(3), np.ones(2))
"""

# A typed dict: hundreds of functions of Numba's own.
BY_NAME = """
@njit
def by_name(n):
    d = typed.Dict.empty(types.unicode_type, types.float64[:])
    for name in ("a", "b", "c"):
        d[name] = np.arange(n) * 1.5
    total = 0.0
    for key, value in d.items():
        total += value.sum() + len(key)
    return total

by_name(4)
"""


@pytest.mark.parametrize(
    "more, least", [("", 10), pytest.param(BY_NAME, 50, marks=pytest.mark.full)]
)
def test_modules_of_numba_come_out_as_llvmlites(tmp_path, more, least):
    pytest.importorskip("numba")
    sample = SAMPLE.replace("BY_NAME", more)
    subprocess.run([sys.executable, "-c", sample, ROOT / "tools", tmp_path], check=True)
    paths = sorted(tmp_path.glob("*.bc"))
    assert len(paths) > least
    stock = prune_compare.Stock()
    for path in paths:
        assert prune_compare.compare_module(stock, path.read_bytes(), path.name) is None
