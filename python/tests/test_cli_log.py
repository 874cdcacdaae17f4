"""`tarn log` and `tarn replay` on valid and invalid logs."""

import gzip
import json

import binary_log
import tarn
from cli_tool import NBEP7, RMM, refused, tarn_tool

ROWS = (
    "Alloc,0,0x10,none,100,900,1000,1,0.5,0.6,0.1,/a/b.py:7\n"
    'Alloc,0,0x20,0,1048576,9,1000,2,0.7,0.8,0.1,"odd ""name"", \x1b[31m\nx.py:1"\n'
    "Free,0,0x10,none,100,900,1000,1,1.5,1.5,0,<gc>\n"
    "Alloc Failure,0,0x0,0,77,900,1000,1,2,2.5,0.5,/a/b.py:9\n"
)


def log(tmp_path, text, name="a.csv"):
    path = tmp_path / name
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def test_summary_shows_peaks_what_is_live_and_the_largest_places(tmp_path):
    done = tarn_tool("log", log(tmp_path, NBEP7 + ROWS))
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    for phrase in (
        "log of NBEP 7, 4 rows, 2 s",
        "allocations 2 1.00 MiB in total",
        "failures 1",
        "peak live 2 1.00 MiB",
        "live at end 1 1.00 MiB",
        "devices 1",
        "largest allocation sites at the peak",
        "largest allocation sites live at the end",
        "/a/b.py:7",
    ):
        assert phrase in " ".join(words)


def test_prints_no_control_characters_of_the_log(tmp_path):
    done = tarn_tool("log", log(tmp_path, NBEP7 + ROWS))
    assert 'odd "name", \\x1b[31m\\x0ax.py:1' in done.stdout
    assert "\x1b" not in done.stdout
    done = tarn_tool("log", log(tmp_path, NBEP7 + "Al\x1bloc,1\u009b,2\n"))
    assert done.returncode == 1
    assert "\x1b" not in done.stderr and "\u009b" not in done.stderr
    bad = tarn_tool("log", log(tmp_path, RMM, name="a\x1b[2J.csv"))
    assert "\x1b" not in bad.stdout


def test_json_says_the_same(tmp_path):
    told = json.loads(tarn_tool("log", "--json", log(tmp_path, NBEP7 + ROWS)).stdout)
    assert told["format"] == "nbep7"
    assert told["events"] == 4
    assert told["peak_live_bytes"] == 1048676
    assert told["end_live_bytes"] == 1048576
    assert told["duration_ns"] == 2_000_000_000
    first = told["largest_live_at_end"][0]
    assert first["location"] == 'odd "name", \x1b[31m\nx.py:1'
    assert first["peak_bytes"] == first["live_bytes"] == 1048576
    assert [site["location"] for site in told["largest_by_total"]][1] == "/a/b.py:7"


def test_json_stays_json_with_a_location_that_is_no_utf8(tmp_path):
    row = b"Alloc,0,0x10,0,100,0,0,1,0.5,0.6,0.1,\xff\xc3(\xc2\x9b\n"
    done = tarn_tool("log", "--json", log(tmp_path, NBEP7.encode() + row))
    assert json.loads(done.stdout)["largest_by_total"][0]["location"] == "\ufffd\ufffd(\x9b"
    assert "\\xff\\xc3(\\xc2\\x9b" in tarn_tool("log", tmp_path / "a.csv").stdout


def test_reads_gzip_and_stdin(tmp_path):
    text = RMM + "1,00:00:01.0,allocate,0x10,100,0\r\n"
    plain = tarn_tool("log", "--json", log(tmp_path, text)).stdout
    packed = log(tmp_path, text, "a.csv.gz")
    told = json.loads(tarn_tool("log", "--json", packed).stdout)
    assert told.pop("file") != json.loads(plain)["file"]
    assert told["end_live_bytes"] == 100 and told["format"] == "rmm"
    for data in text, packed.read_bytes():
        done = tarn_tool("log", "-", input=data)
        assert done.stdout.startswith("stdin: log of RMM, 1 rows")


def test_check_names_rows_that_cannot_be(tmp_path):
    path = log(
        tmp_path,
        RMM + "1,00:00:01.0,free,0x10,100,0\n"
        "1,00:00:01.0,allocate,0x20,100,0\n"
        "1,00:00:01.0,allocate,0x21,100,0\n"
        "1,00:00:01.0,allocate,0x20,100,0\n"
        "1,00:00:01.0,free,0x21,99,0\n",
    )
    done = tarn_tool("log", path, "--check")
    assert done.returncode == 1
    assert done.stdout.splitlines()[:3] == [
        f"{path}:2: free of 0x10, which is not live",
        f"{path}:5: allocation at 0x20, which is live since line 3",
        f"{path}:6: free of 0x21 with 99 bytes, which was allocated with 100 in line 4",
    ]
    assert done.stderr == f"tarn log: {path}: 3 inconsistencies\n"
    done = tarn_tool("log", path, "--check", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert [problem["line"] for problem in told["problems"]] == [2, 5, 6]
    assert told["problem_count"] == 3
    done = tarn_tool("log", path)
    assert done.returncode == 0 and "3 inconsistencies" in done.stdout


def test_check_finds_nothing_in_a_sound_log(tmp_path):
    done = tarn_tool("log", "--check", log(tmp_path, NBEP7 + ROWS))
    assert done.returncode == 0 and done.stderr == ""
    told = json.loads(tarn_tool("log", "--check", "--json", tmp_path / "a.csv").stdout)
    assert told["problems"] == []


def test_bad_logs_are_refused_with_file_and_line(tmp_path):
    good = "1,00:00:01.0,allocate,0x10,100,0\n"
    for text, says in [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ("a,b\n", ":1: not a header of NBEP 7 or of RMM"),
        (RMM + good + "1,00:00:01.0,allo", ":3: the file ends inside a line with 3"),
        (RMM + good + good[:-1] + ",9\n", ":3: the line has 7 columns, 6 are required"),
        (RMM + good.replace("100", "9" * 30), ':2: Size "' + "9" * 30 + '" is too large'),
        (RMM + good.replace("100", "-1"), ':2: Size "-1" is not a number'),
        (RMM + good.replace("0x10", "0xfg"), ':2: Pointer "0xfg" is not a number'),
        (RMM + good + "\0" + good, ":3: a NUL byte"),
        (RMM + "x" * 70000, ":2: the line exceeds 65536 bytes"),
        (NBEP7 + ROWS + 'Alloc,"', ":7: the file ends inside a quoted field"),
    ]:
        path = log(tmp_path, text)
        for verb in ["log"], ["log", "--json", "--check"], ["replay", "--resource", "host"]:
            refused(
                1, f"tarn {verb[0]}: {path}{says if says[0] == ':' else ': ' + says}", *verb, path
            )


def test_files_that_cannot_be_read_are_refused(tmp_path):
    refused(1, "tarn log: cannot open /nowhere.csv: No such file", "log", "/nowhere.csv")
    refused(1, "Is a directory", "log", tmp_path)
    packed = log(tmp_path, RMM + "1,00:00:01.0,allocate,0x10,100,0\n" * 500, "a.gz")
    data = packed.read_bytes()
    packed.write_bytes(data[:-12])
    refused(1, "tarn log: ", "log", packed)
    packed.write_bytes(data[:-8] + b"\0\0\0\0" + data[-4:])
    refused(1, "incorrect data check", "log", packed)


def test_damaged_gzip_is_refused_in_words_without_a_file_number(tmp_path):
    packed = log(tmp_path, RMM + "1,00:00:01.0,allocate,0x10,100,0\n" * 500, "a.gz")
    data = packed.read_bytes()
    packed.write_bytes(data[:20] + b"xxxx" + data[24:])
    done = tarn_tool("log", packed)
    assert done.returncode == 1
    assert done.stderr.startswith(f"tarn log: {packed}")
    assert "fd:" not in done.stderr


def test_long_durations_are_whole_seconds(tmp_path):
    rows = "1,00:00:01.0,allocate,0x10,100,0\n1,01:00:01.0,free,0x10,100,0\n"
    assert "2 rows, 3600 s\n" in tarn_tool("log", log(tmp_path, RMM + rows)).stdout


def test_replay_reports_what_it_did(tmp_path):
    path = log(tmp_path, NBEP7 + ROWS)
    for resource in "cuda", "async", "managed", "pinned", "pool", "slab", "binning", "host":
        done = tarn_tool("replay", path, "--resource", resource)
        assert done.returncode == 0, done.stderr
        assert f"on {resource}: 3 operations" in done.stdout
        assert done.stderr == ""
    told = json.loads(tarn_tool("replay", "--json", "--threads", "--streams", path).stdout)
    assert told["keep_streams"] and not told["register_streams"]
    registered = tarn_tool("replay", "--json", "--registered", "--resource", "pool", path).stdout
    assert json.loads(registered)["keep_streams"] and json.loads(registered)["register_streams"]
    assert told["resource"] == "cuda"
    assert told["operations"] == 3
    assert told["allocate"]["count"] == 2 and told["free"]["count"] == 1
    assert told["allocate"]["longest_ns"] >= told["allocate"]["p50_ns"] > 0
    assert told["end_frees"] == 1
    assert told["failures"] == 0
    assert told["peak_live_bytes"] == 1048676
    if tarn.driver_info().is_simulator:  # others may free memory of a GPU meanwhile
        assert told["peak_reserved_bytes"] >= 1048676


def test_replay_shows_progress_when_asked(tmp_path):
    done = tarn_tool("replay", "--progress", log(tmp_path, NBEP7 + ROWS))
    assert "\rtarn replay: 3 of 3 operations (100 %)\n" in done.stderr


def test_replay_counts_what_does_not_fit(tmp_path):
    row = "1,00:00:01.0,allocate,0x10,3000000000,0\n"
    path = log(tmp_path, RMM + row + row.replace("0x10", "0x20"))
    done = tarn_tool(
        "replay", "--json", "--driver", "sim", path,
        TARN_DRIVER=None, TARN_SIM="memory=4GiB",
    )  # fmt: skip
    assert json.loads(done.stdout)["failures"] == 1


def test_replay_without_a_driver_says_so(tmp_path):
    path = log(tmp_path, NBEP7 + ROWS)
    refused(1, "tarn replay: driver: ", "replay", path, "--driver", "/nowhere.so")
    done = tarn_tool("replay", path, "--resource", "host", TARN_DRIVER="/nowhere.so")
    assert done.returncode == 0, done.stderr


def leaking(**options):
    """A binary log: a.py:9 holds 64 KiB until exit through a package, b.py:3 holds 100 bytes."""
    made = binary_log.BinaryLog(host="box", **options)
    kept = made.stack(("empty", "/v/lib/python3.12/site-packages/x.py", 3), ("main", "/me/a.py", 9))
    small, gone = made.stack(("cache", "/me/b.py", 3)), made.stack(("main", "/me/a.py", 12))
    for row in (
        (10, binary_log.ALLOCATE, 0x10, 65536, kept),
        (20, binary_log.ALLOCATE, 0x20, 100, small),
        (30, binary_log.ALLOCATE, 0x30, 7, gone),
        (40, binary_log.FREE, 0x30, 0, gone),
        (2_000_000, binary_log.FREE, 0x10, 0, made.stack(("", "<exit>", 0))),
        (2_000_001, binary_log.FREE, 0x20, 0, made.stack(("", "<gc>", 0))),
    ):
        made.add(*row)
    made.mark(1_000_010, "<exit>")
    return made


def test_names_the_users_line_of_what_is_held_until_exit(tmp_path):
    path = log(tmp_path, leaking().bytes(), "a.tarn")
    done = tarn_tool("log", path)
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "log of Tarn, 6 rows" in words
    assert "live at end 0 0 B held until exit 2 64.10 KiB" in words
    assert "largest allocation sites held until exit" in words
    assert "64.00 KiB 1 1 ms /me/a.py:9" in words
    assert "site-packages" not in done.stdout
    assert "close the log" not in done.stdout
    frames = "    /v/lib/python3.12/site-packages/x.py:3 in empty\n    /me/a.py:9 in main\n"
    assert frames in tarn_tool("log", "--stacks", path).stdout


def test_json_has_what_is_held_and_its_stacks(tmp_path):
    packed = log(tmp_path, leaking().bytes(), "a.tarn.gz")
    told = json.loads(tarn_tool("log", "--json", packed).stdout)
    assert told["format"] == "binary" and told["has_exit"] and not told["is_cut"]
    assert told["held_bytes"] == 65636 and told["held_blocks"] == 2
    first = told["largest_held"][0]
    assert first["location"] == "/me/a.py:9" and first["held_age_ns"] == 1_000_000
    assert [frame["function"] for frame in first["stack"]] == ["empty", "main"]


def test_allowed_places_do_not_count_as_held_and_the_rest_fails_the_run(tmp_path):
    path = log(tmp_path, leaking().bytes(), "a.tarn")
    allow = tmp_path / "allow.txt"
    failing = tarn_tool("log", "--fail-on-held", "64KiB", path)
    assert failing.returncode == 1
    assert "65636 bytes held until exit, 65536 are allowed" in failing.stderr
    assert tarn_tool("log", "--fail-on-held", "65636", path).returncode == 0
    for pattern in "a.py:9", "a.py:main", "/me/*:9", "x.py:emp*":
        allow.write_text(f"# known\n\n  {pattern}  \n")
        done = tarn_tool("log", "--allow", allow, "--fail-on-held", "1KiB", path)
        assert done.returncode == 0, (pattern, done.stderr)
        assert "1 100 B, and 64.00 KiB allowed" in " ".join(done.stdout.split())
    allow.write_text("#a.py:9\nb.py:4\npy:9\n")
    assert tarn_tool("log", "--allow", allow, "--fail-on-held", "1KiB", path).returncode == 1
    refused(1, "cannot read", "log", "--allow", tmp_path / "none", path)
    refused(2, "is no size", "log", "--fail-on-held", "many", path)


def test_without_an_exit_what_is_live_at_the_end_is_held(tmp_path):
    path = log(tmp_path, NBEP7 + ROWS)
    done = tarn_tool("log", "--fail-on-held", "0", path)
    assert done.returncode == 1
    assert "1048576 bytes held until exit" in done.stderr
    assert "no exit in the log" in done.stdout


def test_a_cut_binary_log_is_read_to_its_last_row(tmp_path):
    assert "the log has no end" in tarn_tool("log", log(tmp_path, leaking().bytes(False))).stdout
    whole = leaking().bytes()
    done = tarn_tool("log", log(tmp_path, whole[: -(1024 - 64 - 48 * 2 - 5)], "a.tarn"))
    assert done.returncode == 0, done.stderr
    assert "log of Tarn, 2 rows" in done.stdout
    assert (
        "  the log has no end: a signal (Ctrl-C, kill), a crash or _exit() ended its program, "
        "it still runs, or the file was cut\n" in done.stdout
    )
    assert "1 damaged rows or records were left out" in done.stdout


def test_refuses_a_binary_log_of_a_newer_version(tmp_path):
    path = log(tmp_path, binary_log.BinaryLog(major=9).bytes(), "a.tarn")
    refused(1, "a binary log of version 9.0; this Tarn reads version 1", "log", path)


def test_replays_a_binary_log(tmp_path):
    done = tarn_tool("replay", "--resource", "host", log(tmp_path, leaking().bytes(), "a.tarn"))
    assert done.returncode == 0, done.stderr
    assert "6 operations in" in done.stdout
