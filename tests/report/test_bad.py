"""Damaged, newer and hostile data: words, never an empty page and never an element too many."""

import base64
import random
import zlib

import conftest
import logs
import page
import pytest
from block import encode, varint

COUNTS = "[document.scripts.length, document.images.length, document.querySelectorAll('iframe, a, link, object, form[action]').length]"


def words(tab):
    """What the page says about its data; its static tables are still there."""
    assert tab.tab.locator("#tarn-sites table.plain").count() == 1
    assert "static head" in tab.text("#tarn-head")
    return tab.text("#tarn-problem")


def replaced(name, data):
    """A page whose data is this text, with the static tables of another one."""
    good = page.page([conftest.blocks(name)[0]])
    begin = good.index('id="tarn-data-0">') + len('id="tarn-data-0">')
    return good[:begin] + data + good[good.index("</script>", begin) :]


def text_of(data):
    return base64.b64encode(data).decode()


GOOD = encode(logs.without_stacks())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (text_of(GOOD[:1000]), "cut off"),
        (text_of(GOOD[:40]), "do not fit"),
        (text_of(b"PK" + GOOD[2:]), "does not begin as"),
        (text_of(GOOD[:-3] + b"abc"), "checksum differs"),
        (text_of(GOOD[:8] + b"\2\0" + GOOD[10:]), "version 2"),
        ("", "does not begin"),
        ("%%%%", "no base64 text"),
    ],
)
def test_data_that_cannot_be_read_gives_words_and_leaves_the_tables(other, data, said):
    tab = other(replaced("no stacks", data))
    assert said in words(tab)
    tab.check()


def test_a_page_without_data_says_so(other):
    source = page.page([conftest.blocks("no stacks")[0]])
    tab = other(source.replace("tarn-data-0", "tarn-nothing-0"))
    assert "no data" in words(tab)
    tab.check()


def test_unknown_sections_and_a_newer_minor_version_are_read(other):
    data = encode(logs.without_stacks(), extra={"NEWS": b"12345"})
    tab = other(replaced("no stacks", text_of(data[:10] + b"\7\0" + data[12:])))
    assert tab.tab.locator("#tarn-problem").count() == 0
    assert (
        tab.bytes(".figures [data-bytes]")[0] == conftest.blocks("no stacks")[0].meta["peak_bytes"]
    )
    tab.check()


def sections(data):
    """Tag -> (place of the entry, offset, length)."""
    found = {}
    for at in range(16, 16 + 16 * int.from_bytes(data[12:16], "little"), 16):
        offset, length = (int.from_bytes(data[at + o : at + o + 4], "little") for o in (4, 8))
        found[data[at : at + 4].decode()] = (at, offset, length)
    return found


def with_section(data, tag, content):
    """The block with another content of a section, and its checksum; the length stays."""
    at, offset, length = sections(data)[tag]
    content = content[:length].ljust(length, b"\0")
    data = bytearray(data)
    data[offset : offset + length] = content
    data[at + 12 : at + 16] = zlib.crc32(content).to_bytes(4, "little")
    return bytes(data)


DECODE = """texts => texts.map(text => {
    try {
        const block = decodeBlock(text);
        block.readSnapshots();
        return "read";
    } catch (error) {
        return error instanceof Damage ? "words" : String(error.stack);
    }
})"""


def test_counts_beyond_the_data_are_refused_before_anything_is_allocated(opened):
    tab = opened("one row")
    huge = [varint(2**60) * 3, varint(2**32) * 3, b"\xff" * 12]
    texts = [text_of(with_section(GOOD, tag, start)) for tag in sections(GOOD) for start in huge]
    outcomes = tab.tab.evaluate(DECODE, texts)
    small = {"PEAK", "EXIT", "TOTL", "MARK", "FAIL", "MAPS", "FIND"}  # may be too short to differ
    assert set(outcomes) <= {"words", "read"}
    assert outcomes.count("read") <= len(small) * len(huge)
    assert outcomes.count("words") > len(texts) / 2


@pytest.mark.parametrize("name", ["fragmented", "training"])
def test_damaged_sections_with_a_good_checksum_give_words_or_a_page(opened, name):
    rng = random.Random(7)
    data = encode(conftest.blocks(name)[0])
    texts = []
    for tag, (_, offset, length) in sections(data).items():
        for _ in range(20 if length > 1 else 0):
            content = bytearray(data[offset : offset + length])
            for _ in range(rng.choice((1, 1, 3, 20))):
                content[rng.randrange(min(length, rng.choice((20, length))))] = rng.randrange(256)
            texts.append(text_of(with_section(data, tag, bytes(content))))
    tab = opened("one row")
    outcomes = [outcome for at in range(0, len(texts), 60)
                for outcome in tab.tab.evaluate(DECODE, texts[at : at + 60])]  # fmt: skip
    assert set(outcomes) == {"words", "read"}


def test_a_page_of_damaged_figures_is_drawn_or_says_what_it_cannot_draw(other):
    """All panels get figures that are in range and wrong."""
    rng = random.Random(8)
    data = encode(conftest.blocks("fragmented")[0])
    for tag in ("META", "COLS", "BAND", "SITE"):
        _, offset, length = sections(data)[tag]
        content = bytearray(data[offset : offset + length])
        for at in range(20, length, 50):
            content[at] = content[at] & 128 | rng.randrange(128)
        tab = other(replaced("fragmented", text_of(with_section(data, tag, bytes(content)))))
        if tab.tab.locator("#tarn-problem").count() == 0:
            assert tab.tab.locator("#tarn-timeline canvas").count() == 3
        assert tab.js("document.body.innerText.length") > 300


def test_names_of_strangers_are_shown_as_text(opened):
    tab, benign = opened("hostile"), opened("fragmented")
    assert tab.js(COUNTS) == benign.js(COUNTS)
    assert tab.js("document.title") == "tarn report"
    assert tab.js("typeof ({}).polluted") == "undefined"
    shown = tab.text("body")
    assert "<img src=x onerror=document.title='run'>" in shown
    assert "\\u{202e}right to left\\u{2066}" in shown
    assert "\\u{0}in\\u{1}it" in shown
    assert "\u202e" not in shown and "\u2028" not in shown and "\0" not in shown
    for by in ("framework", "stream", "size", "site"):
        tab.click(f'#tarn-timeline [data-value="{by}"]')
        assert tab.js(COUNTS) == benign.js(COUNTS)
    tab.click("#tarn-sites tbody .link >> nth=2")
    assert tab.tab.locator("dialog[open]").count() == 1
    longest = tab.js(
        "Math.max(...[...document.querySelectorAll('bdi')].map(e => e.textContent.length))"
    )
    assert longest <= 257


def test_names_of_a_prototype_are_names(opened):
    tab = opened("hostile")
    assert "__proto__" in tab.text("#tarn-failures")
    for word in ("__proto__", "constructor", "toString"):
        tab.tab.fill("#tarn-filter", word)
        tab.settle()
        assert tab.js("sites.rows.length") == 1
    tab.tab.fill("#tarn-filter", "")
    tab.click('#tarn-sites [data-value="framework"]')
    assert tab.js("sites.rows.length") == len(logs.HOSTILE)
