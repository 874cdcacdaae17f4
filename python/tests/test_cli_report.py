"""`tarn report`: its page, its options, hostile logs, and files that cannot be written."""

import base64
import hashlib
import html.parser
import os
import pathlib
import pty
import re
import subprocess

import pytest
from binary_log import BinaryLog
from cli_tool import NBEP7, RMM, TOOL, refused, tarn_tool
from report_logs import ALLOCATE, FAILURE, FREE, NONE, blocks, csv, path_of

MS, SECOND = 10**6, 10**9
MIB = 1 << 20
STEP = "/home/ann/train.py:88"


def write(tmp_path, rows, name="a.csv"):
    path = tmp_path / name
    path.write_bytes(rows if isinstance(rows, bytes) else csv(rows))
    return path


def page_of(tmp_path, rows, *args):
    """The page of a log, and its data blocks."""
    out = tmp_path / "page.html"
    done = tarn_tool("report", write(tmp_path, rows), "-o", out, *args)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = out.read_bytes()
    return page, blocks(page)


def at(seconds, action, address, size, place=STEP, stream=NONE):
    return (action, address, stream, size, int(seconds * SECOND), place)


PLAIN = [
    at(0, ALLOCATE, 16, 3 * MIB),
    at(1, ALLOCATE, 32, 5 * MIB, "/home/ann/b.py:2"),
    at(2, FREE, 16, 3 * MIB),
    at(3, ALLOCATE, 48, 2 * MIB),
    at(4, FREE, 32, 5 * MIB, "<exit>"),
]


class Elements(html.parser.HTMLParser):
    """The elements of a page, and its text outside of scripts."""

    def __init__(self, page):
        super().__init__()
        self.found, self.text, self.inside = [], "", ""
        self.feed(page.decode())

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside not in ("script", "style"):
            self.text += data

    def count(self, tag):
        return sum(name == tag for name, _ in self.found)


# --- the page ---------------------------------------------------------------------------


def test_the_page_is_whole_without_its_script(tmp_path):
    page, _ = page_of(tmp_path, PLAIN)
    elements = Elements(page)
    assert page.startswith(b"<!doctype html>\n<html lang=")
    for name in "findings", "timeline", "flame", "sites", "quality", "glossary":
        assert ("section", {"id": f"tarn-{name}"}) in elements.found
    for text in "Peak 8.00 MiB", "held until exit 7.00 MiB", "train.py:88", "b.py:2", "62.5 %":
        assert text in " ".join(elements.text.split()), text
    assert elements.count("svg") == 1 and elements.count("h1") == 1
    figures = {int(a["data-bytes"]) for _, a in elements.found if "data-bytes" in a}
    assert {8 * MIB, 7 * MIB, 5 * MIB, 3 * MIB} <= figures


@pytest.mark.parametrize(
    "command, title",
    [
        ("/home/ann/.venv/bin/python3 train.py --epochs 3", "train.py --epochs 3"),
        ("python3.12 -m train", "-m train"),
        ("python", "python"),
        ("python train.py", "train.py"),
        ("pythonic train", "pythonic train"),
        ("./solver -n 4", "./solver -n 4"),
    ],
)
def test_the_title_is_the_program_without_its_interpreter(command, title):
    done = tarn_tool("report", "-", "-o", "-", input=BinaryLog(command=command).bytes())
    assert f"<title>tarn report: {title}</title>" in done.stdout
    (block,) = blocks(done.stdout.encode())
    assert (block["meta"]["program"], block["meta"]["command"]) == (title, command)


def test_the_glossary_of_the_page_is_that_of_the_documentation():
    done = tarn_tool("report", "-", "-o", "-", input=BinaryLog().bytes())
    page = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", done.stdout))
    text = (pathlib.Path(__file__).parents[2] / "docs/report.md").read_text()
    docs = dict(re.findall(r"^\| ([a-z ,]+) \| (.+) \|$", text.partition("## Glossary")[2], re.M))
    shared = page.keys() & docs.keys() - {"term"}
    assert shared == {
        "live",
        "peak",
        "reserved",
        "device used",
        "held until exit",
        "lifetime",
        "reuse",
    }
    assert {term: page[term] for term in shared} == {term: docs[term] for term in shared}


def test_the_policy_admits_the_script_and_the_style_by_their_hashes(tmp_path):
    page, _ = page_of(tmp_path, PLAIN)
    policy = re.search(rb'Content-Security-Policy" content="([^"]*)"', page)[1].decode()
    for kind, pattern in (
        ("script", rb"<script>(.*?)</script>"),
        ("style", rb"<style>(.*?)</style>"),
    ):
        (text,) = re.findall(pattern, page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for name, attributes in Elements(page).found:
        assert not {"style", "src", "href"} & set(attributes), name
        assert not any(key.startswith("on") for key in attributes)


NAMES = [
    "</script><script>alert(1)</script>", "<!--", "]]>", '"><img src=x onerror=alert(1)>',
    "quote \" ' & <b>", "__proto__", "constructor", "=cmd", "\u202egnp.py", "\u2028\u2029",
    "\u200bzero", "\x1b[31m", "\x9b31m", "\udcff\udcfe", "\udced\udca0\udc80", "\udcc3(", "😀",
    "x" * 4200, "ä" * 3000, "%s%n", "a:b:7", ":9", "9:", "<gc>", "-->", "<svg/onload=alert(1)>",
]  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "binary"])
def test_names_of_a_log_are_shown_as_text(tmp_path, form):
    names = [f"{name}:{number + 1}" for number, name in enumerate(NAMES)]
    if form == "csv":
        plain = csv([at(i, ALLOCATE, 16 * i + 16, MIB, f"/a/b.py:{i + 1}") for i in range(26)])
        data = csv([at(i, ALLOCATE, 16 * i + 16, MIB, name) for i, name in enumerate(names)])
    else:
        made = []
        for texts in NAMES, [f"f{i}" for i in range(26)]:
            log = BinaryLog(chunk_bytes=65536, command=texts[0], host=texts[1], gpu0=texts[3])
            log.string = lambda text, log=log: _string(log, text)
            for i, name in enumerate(texts):
                log.add(i, ALLOCATE, 16 * i + 16, MIB, log.stack((name, name + ".py", i + 1)))
                log.mark(i, name)
            made.append(log.bytes())
        data, plain = made
    benign, _ = page_of(tmp_path, plain)
    page, (block,) = page_of(tmp_path, data)
    hostile, usual = Elements(page), Elements(benign)
    for tag in "script", "img", "iframe", "svg", "style", "section", "table", "b":
        assert hostile.count(tag) == usual.count(tag), tag
    for hidden in "\u202e", "\u2028", "\u200b", "\x1b", "\x9b":
        assert hidden not in page.decode()
    assert "\\u{202e}gnp.py" in hostile.text and "\ufffd" in hostile.text
    assert len(block["peak"]) == 26
    functions = {frame[0] for frame in block["frames"]} | {frame[1] for frame in block["frames"]}
    assert "\u202egnp.py" in {name.removesuffix(".py") for name in functions} | functions


def _string(log, text):
    """A string of bytes that need not be UTF-8."""
    data = text.encode(errors="surrogateescape")[:4000]
    return log._known(1, text, lambda number: number.to_bytes(4, "little") + bytes(4) + data)


def test_an_empty_log_has_a_page_that_says_so(tmp_path):
    for text in NBEP7, RMM:
        page, (block,) = page_of(tmp_path, text.encode())
        assert "No allocation in this log" in Elements(page).text
        assert block["columns"] == block["sites"] == block["snapshots"] == []


def test_a_log_of_failures_alone_has_their_cards(tmp_path):
    page, (block,) = page_of(tmp_path, [at(1, FAILURE, 0, MIB)])
    text = Elements(page).text
    assert "Out of memory at" in text and "Wanted 1.00 MiB" in text
    assert block["failures"][0]["fields"] == {"requested": MIB, "failed_attempts": 1}


def test_stacks_frameworks_and_maps_are_in_the_page(tmp_path):
    log = BinaryLog(chunk_bytes=65536, command="python train.py")
    cupy = ("empty", "/usr/lib/python3/dist-packages/cupy/core.py", 3)
    torch = ("empty", "/v/site-packages/torch/nn/a.py", 5)
    step, main = ("step", "/home/ann/train.py", 88), ("<module>", "/home/ann/train.py", 120)
    one, other = log.stack(cupy, step, main), log.stack(torch, cupy, main)
    log.add(1, ALLOCATE, 1 << 40, MIB, one)
    log.add(2, ALLOCATE, (1 << 40) + 2 * MIB, 3 * MIB, other, stream=7)
    log.flush()
    base = 1 << 40
    log.pool(
        3,
        4,
        8 * MIB,
        4 * MIB,
        [(base, MIB, MIB - 5, 0, base, 0), (base + MIB, 7 * MIB, 0, 7, base, 3)],
    )
    page, (block,) = page_of(tmp_path, log.bytes())
    (node,) = [n for n, (size, _) in block["peak"].items() if size == MIB]
    assert [frame[0] for frame in path_of(block, node)] == ["<module>", "step", "empty"]
    found = {
        site["total"]: (block["frames"][site["frame"]][0], site["framework"])
        for site in block["sites"]
    }
    assert found == {MIB: ("step", "cupy"), 3 * MIB: ("<module>", "cupy")}
    assert {band["label"] for band in block["bands"]["framework"]} == {"cupy", "other"}
    snapshot, peak, end = block["maps"]
    assert [one["kind"] for one in block["maps"]] == [2, 0, 3]
    assert snapshot["segments"] == [
        (base, 8 * MIB, [(MIB, MIB - 5, 0, "", node), (7 * MIB, 0, 3, "7", -1)])
    ]
    assert [block[2] for block in peak["segments"][0][2]] == [0, 8, 0]
    assert "train.py:88" in Elements(page).text and end["segments"] == peak["segments"]
    assert block["columns"][0]["reserved"] == 8 * MIB


# --- golden logs ------------------------------------------------------------------------


def figures(tmp_path, *rows):
    return page_of(tmp_path, list(rows))[1][0]


def test_of_equal_peaks_the_first_counts(tmp_path):
    a, b = "/a.py:1", "/b.py:2"
    block = figures(
        tmp_path,
        at(0, ALLOCATE, 16, 10, a), at(1, FREE, 16, 10, a), at(2, ALLOCATE, 16, 10, b),
    )  # fmt: skip
    assert block["meta"]["peak_ns"] == 0
    assert {frame[1] for node in block["peak"] for frame in path_of(block, node)} == {"/a.py"}


def test_a_peak_inside_a_column_and_at_the_last_row_is_exact(tmp_path):
    rows = [at(0, ALLOCATE, 16, 10), at(0.00010, ALLOCATE, 32, 90), at(0.0002, FREE, 32, 90)]
    block = figures(tmp_path, *rows)
    assert (block["columns"][0]["max"], block["columns"][0]["offset"]) == (100, 100_000)
    assert (len(block["columns"]), block["columns"][0]["min"]) == (1, 0)
    block = figures(tmp_path, *rows, at(1, ALLOCATE, 48, 1000))
    assert block["meta"]["peak_ns"] == SECOND and block["columns"][-1]["max"] == 1010


def test_merged_columns_keep_the_larger_maximum_and_the_time_axis(tmp_path):
    """2,049 columns of 1 ms become columns of 2 ms; no column is left out or drawn twice."""
    rows = [at(0, ALLOCATE, 16, 7), at(0.0005, FREE, 16, 7), at(0.0015, ALLOCATE, 16, 5)]
    rows += [at(1.0005, ALLOCATE, 32, 1), at(2.0485, FREE, 32, 1)]
    block = figures(tmp_path, *rows)
    assert block["width"] == 2 * MS
    assert [one["max"] for one in block["columns"]] == [7] + [5] * 499 + [6] * 525
    assert (block["columns"][0]["offset"], block["columns"][0]["min"]) == (0, 0)
    assert [one["min"] for one in block["columns"][-1:]] == [5]


def test_the_larger_one_of_two_merged_columns_keeps_its_instant(tmp_path):
    rows = [at(0, ALLOCATE, 16, 5, "/a.py:1"), at(0.0015, ALLOCATE, 32, 5, "/b.py:2")]
    block = figures(tmp_path, *rows, at(3, FREE, 32, 5))
    column = block["columns"][0]
    assert (block["width"], column["max"], column["offset"]) == (2 * MS, 10, 1_500_000)
    assert len(block["snapshots"][0][2]) == 2


def test_a_gap_of_a_year_takes_no_time_and_no_columns(tmp_path):
    block = figures(tmp_path, at(0, ALLOCATE, 16, 7), at(365 * 86400, FREE, 16, 7))
    assert 1024 <= len(block["columns"]) <= 2048
    assert {one["max"] for one in block["columns"]} == {7}


def test_one_row_zero_bytes_and_sums_beyond_2_to_the_53(tmp_path):
    (column,) = figures(tmp_path, at(0, ALLOCATE, 16, 1))["columns"]
    assert (column["max"], column["allocations"]) == (1, 1)
    assert figures(tmp_path, at(0, ALLOCATE, 16, 0))["meta"]["peak_bytes"] == 0
    big = 2**53 + 1
    block = figures(tmp_path, at(0, ALLOCATE, 16, big), at(1, ALLOCATE, 32, big))
    assert block["meta"]["peak_bytes"] == 2 * big == sum(size for size, _ in block["peak"].values())


def test_the_clock_of_rmm_passes_midnight(tmp_path):
    row = "1,{},allocate,0x{:x},{},0x0\n"
    text = RMM + row.format("23:59:59.000000", 16, 5) + row.format("00:00:01.000000", 32, 6)
    block = page_of(tmp_path, text.encode())[1][0]
    assert block["meta"]["duration_ns"] == 2 * SECOND and block["meta"]["moved"] == 0
    assert [block["columns"][0]["max"], block["columns"][-1]["max"]] == [5, 11]


def test_many_stacks_are_folded_and_their_sums_stay(tmp_path):
    rows = [at(i / 1000, ALLOCATE, 16 * i + 16, i + 1, f"/m{i}.py:1") for i in range(6000)]
    block = figures(tmp_path, *rows)
    assert sum(size for size, _ in block["peak"].values()) == 6000 * 6001 // 2
    (smaller,) = [smaller for _, _, smaller in block["nodes"] if smaller]
    assert 4096 <= len(block["nodes"]) <= 4200 and smaller + len(block["nodes"]) == 6002
    for column, _, values in block["snapshots"]:
        assert sum(values.values()) == block["columns"][column]["max"]


def test_sites_beyond_65536_are_one(tmp_path):
    rows = [at(i / 1000, ALLOCATE, 16 * i + 16, 8, f"m{i}") for i in range(65_600)]
    block = figures(tmp_path, *rows)
    assert block["meta"]["peak_bytes"] == 8 * 65_600 == sum(s for s, _ in block["peak"].values())
    assert block["meta"]["other_sites"] == 64


def test_100_000_live_blocks_make_a_bounded_map(tmp_path):
    rows = [at(i / 10**6, ALLOCATE, 4096 * i + 4096, 512 + i % 7) for i in range(100_000)]
    page, (block,) = page_of(tmp_path, rows)
    assert len(page) < 2_500_000
    assert "91,808 smaller blocks" in block["maps"][0]["title"]


# --- options ----------------------------------------------------------------------------


def test_a_window_has_the_live_blocks_at_its_begin(tmp_path):
    _, (block,) = page_of(tmp_path, PLAIN, "--from", "1.5", "--to", "3500ms")
    meta = block["meta"]
    assert (meta["rows"], meta["allocations"], meta["frees"]) == (2, 1, 1)
    assert (meta["peak_bytes"], meta["end_bytes"]) == (8 * MIB, 7 * MIB)
    assert block["start"] == 1500 * MS and block["columns"][0]["max"] == 8 * MIB
    assert {site["total"] for site in block["sites"]} == {0, 2 * MIB}


def test_two_logs_are_compared(tmp_path):
    a, b = write(tmp_path, PLAIN), write(tmp_path, PLAIN[:1] + PLAIN[3:4], "b.csv")
    done = tarn_tool("report", "--compare", a, b, "-o", "-")
    text = " ".join(Elements(done.stdout.encode()).text.split())
    assert "blocks=2\ncompare=1\n" in done.stdout
    assert len(blocks(done.stdout.encode())) == 2
    assert "all8.00 MiB5.00 MiB-3.00 MiB" in text.replace("> ", "")
    assert (
        "ann/b.py5.00 MiB0 B-5.00 MiB" in text and "ann/train.py3.00 MiB5.00 MiB+2.00 MiB" in text
    )


def test_processes_of_a_gpu_are_added_by_the_wall_clock(tmp_path):
    paths = []
    for number, gpu in enumerate(["GPU-1", "GPU-1", "GPU-2"]):
        log = BinaryLog(chunk_bytes=65536, pid=number + 7, start=10**18 + number * SECOND, gpu0=gpu)
        log.add(1, ALLOCATE, 16, 4 * MIB)
        log.add(SECOND // 2, FREE, 16)
        log.add(SECOND, ALLOCATE, 16, 3 * MIB)
        log.add(2 * SECOND, FREE, 16)
        paths.append(write(tmp_path, log.bytes(), f"{number}.tlog"))
    done = tarn_tool("report", *paths, "-o", "-")
    text = Elements(done.stdout.encode()).text
    assert "The 2 processes of GPU-1 have at most 7.00 MiB live at once." in text
    assert "GPU-2 have" not in text
    assert [block["meta"]["pid"] for block in blocks(done.stdout.encode())] == [7, 8, 9]


def test_wrong_lines_are_refused(tmp_path):
    log = write(tmp_path, PLAIN)
    for args, says in [
        ([], "a log is required"),
        ([log], "-o FILE is required"),
        ([log, "-o"], "-o requires a value"),
        ([log, "-o", "a", "--from", "x"], "--from: x is not a time"),
        ([log, "-o", "a", "--to", "-1"], "--to: -1 is not a time"),
        ([log, "-o", "a", "--from", "2", "--to", "2s"], "--from is not before --to"),
        ([log, "-o", "a", "--compare"], "--compare requires two logs, not 1"),
        ([log] * 1001 + ["-o", "a"], "1001 logs; at most 1000"),
    ]:
        refused(2, says, "report", *args, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == [log]


def test_broken_logs_leave_no_page(tmp_path):
    out = tmp_path / "page.html"
    whole = csv(PLAIN)
    for data in b"", b"foreign\n1,2\n", whole + b"Alloc,0\n", whole + b"# incomplete: disk\n":
        refused(1, "a.csv", "report", write(tmp_path, data), "-o", out)
    refused(1, "cannot open", "report", tmp_path / "none.csv", "-o", out)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_page_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path):
    log = write(tmp_path, PLAIN)
    refused(1, "cannot write", "report", log, "-o", tmp_path / "no" / "page.html")
    (tmp_path / "folder").mkdir()
    refused(1, "Is a directory", "report", log, "-o", tmp_path / "folder")
    with open("/dev/full", "w") as full:
        done = subprocess.run([TOOL, "report", log, "-o", "-"], stdout=full, stderr=-1)
    assert done.returncode == 1 and b"cannot write the output" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "folder"]


def test_a_full_disk_leaves_the_page_of_before(tmp_path):
    log, out = write(tmp_path, PLAIN), tmp_path / "page.html"
    out.write_text("before")
    limit = f"ulimit -f 1; trap '' XFSZ; exec '{TOOL}' report '{log}' -o '{out}'"
    done = subprocess.run(["sh", "-c", limit], capture_output=True)
    assert done.returncode == 1 and b"cannot write" in done.stderr, done.stderr
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "page.html"]


def test_the_page_has_the_rights_of_a_new_file(tmp_path):
    log, out = write(tmp_path, PLAIN), tmp_path / "page.html"
    subprocess.run(["sh", "-c", f"umask 027; '{TOOL}' report '{log}' -o '{out}'"], check=True)
    assert out.stat().st_mode & 0o777 == 0o640


def test_the_progress_is_shown_on_a_terminal_alone(tmp_path):
    log = tmp_path / "a.csv"
    log.write_bytes(csv(PLAIN * 1))
    quiet = tarn_tool("report", log, "-o", tmp_path / "page.html")
    assert quiet.stderr == ""
    ours, theirs = pty.openpty()
    subprocess.run([TOOL, "report", log, "-o", tmp_path / "page.html"], stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 4096)
    os.close(ours)
    assert b"tarn report: " in shown and shown.endswith(b"\r\x1b[K")


def test_the_output_may_be_a_fifo_and_is_never_the_log(tmp_path):
    log, fifo = write(tmp_path, PLAIN), tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen([TOOL, "report", log, "-o", fifo]) as tool:
        assert fifo.read_bytes().startswith(b"<!doctype html>")
        assert tool.wait() == 0
    assert fifo.is_fifo()
    before = log.read_bytes()
    refused(1, "is the log itself", "report", log, "-o", log)
    assert log.read_bytes() == before


def test_the_framework_of_memory_without_its_python_frames_is_known(tmp_path):
    """Tarn's module for the framework, or PyTorch's library, is the innermost frame."""
    log, wanted = BinaryLog(chunk_bytes=65536), {}
    for number, module in enumerate(("cupy", "warp", "cuda_core", "mr")):
        frame = ("allocate", f"/v/site-packages/tarn/{module}.py", 80)
        stack = log.stack(frame, ("step", "/home/ann/train.py", number))
        log.add(number, ALLOCATE, 4096 * (number + 1), MIB, stack)
        wanted[number] = {"cuda_core": "cuda", "mr": ""}.get(module, module)
    _, (block,) = page_of(tmp_path, log.bytes())
    found = {block["frames"][one["frame"]][2]: one["framework"] for one in block["sites"]}
    assert found == wanted


def test_the_libraries_of_pytorch_are_one_framework(tmp_path):
    """Threads of PyTorch have native frames alone; the C++ runtime starts them."""
    log = BinaryLog(chunk_bytes=65536)
    names = ["libc10_cuda.so", "libtorch_cuda.so", "libtorch_python.so", "libstdc++.so.6"]
    frames = [log.native_frame(f"/v/lib/{name}", 16) for name in (*names, "libc.so.6")]
    log.add(1, ALLOCATE, 4096, MIB, log.stack_of(frames))
    _, (block,) = page_of(tmp_path, log.bytes())
    assert [one["framework"] for one in block["sites"]] == ["torch"]


def test_an_empty_log_beside_others_is_left_out(tmp_path):
    log, empty, out = write(tmp_path, PLAIN), tmp_path / "empty", tmp_path / "page.html"
    empty.touch()
    done = tarn_tool("report", empty, log, "-o", out)
    assert (done.returncode, done.stderr) == (0, f"tarn report: {empty} is empty: left out\n")
    assert len(blocks(out.read_bytes())) == 1
    refused(1, "the file is empty", "report", empty, "-o", out)
