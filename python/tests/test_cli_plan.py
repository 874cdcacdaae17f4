"""`tarn plan`: logs in all their forms, its figures, its files and invalid input."""

import gzip
import json

from binary_log import BinaryLog
from cli_tool import NBEP7, RMM, refused, tarn_tool


def row(action, address, size, stream=0):
    return f"1,10:00:00.000000,{action},{address:#x},{size},{stream}\n"


# Two blocks of 4 MiB, one after the other, beside one of 2 MiB.
ROWS = (
    row("allocate", 16, 4 << 20)
    + row("allocate", 32, 2 << 20)
    + row("free", 16, 4 << 20)
    + row("allocate", 48, 4 << 20, 7)
    + row("free", 48, 4 << 20, 7)
)


def log(tmp_path, text=RMM + ROWS, name="a.csv"):
    path = tmp_path / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def planned(*arguments):
    done = tarn_tool("plan", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_plan_and_the_pool_are_beside_each_other(tmp_path):
    told = planned(log(tmp_path))
    assert (told["blocks"], told["operations"], told["streams"]) == (3, 5, 2)
    assert told["peak_live_bytes"] == 6 << 20
    assert told["plan"] == {
        "height_bytes": 6 << 20, "reserved_bytes": 6 << 20, "handovers": 1, "waits": 1,
    }  # fmt: skip
    assert told["pool"]["reserved_bytes"] >= 6 << 20
    assert told["pool"]["failures"] == told["pool_at_limit"]["failures"] == 0
    assert told["limit_bytes"] == 6 << 20
    assert told["plan_at_limit"]["failures"] == 0
    lines = tarn_tool("plan", log(tmp_path)).stdout.splitlines()
    assert any(line.split()[:3] == ["reserved", "6.00", "MiB"] for line in lines)
    assert any(line.split()[:4] == ["reserved", ":", "live", "1.0000"] for line in lines)


def test_a_wait_costs_memory_where_it_is_worth_more(tmp_path):
    told = planned("--wait-price", "8MiB", "--no-pool", log(tmp_path))
    assert told["plan"]["reserved_bytes"] == 10 << 20
    assert told["plan"]["waits"] == 0
    assert "pool" not in told
    told = planned("--lag", "1", "--no-pool", log(tmp_path))
    assert told["plan"]["waits"] == 0


def test_a_limit_moves_pages(tmp_path):
    rows = "".join(
        row("allocate", at, 2 << 20) + row("allocate", at + 1, 4 << 20)
        + row("free", at, 2 << 20) + row("free", at + 1, 4 << 20)
        for at in range(16, 48, 2)
    )  # fmt: skip
    told = planned("--limit", "4MiB", log(tmp_path, RMM + rows))
    assert told["limit_bytes"] == 4 << 20
    assert told["plan_at_limit"]["failures"] > 0
    assert told["pool_at_limit"]["failures"] > 0


def test_logs_of_all_forms_are_planned(tmp_path):
    nbep7 = NBEP7 + (
        "Alloc,0,0x10,none,100,900,1000,1,0.5,0.6,0.1,a.py:7\n"
        "Free,0,0x10,none,100,900,1000,1,1.5,1.5,0,a.py:8\n"
    )
    assert planned("--no-pool", log(tmp_path, nbep7))["blocks"] == 1
    assert planned("--no-pool", log(tmp_path, name="a.csv.gz"))["blocks"] == 3
    binary = tmp_path / "a.tarn"
    binary.write_bytes(BinaryLog().bytes())
    assert planned("--no-pool", binary)["blocks"] == 0
    assert planned(log(tmp_path, RMM))["plan"]["height_bytes"] == 0


def test_the_plan_is_written_whole_or_not_at_all(tmp_path):
    out = tmp_path / "work.plan"
    done = tarn_tool("plan", log(tmp_path), "-o", out, "--no-pool")
    assert done.returncode == 0, done.stderr
    data = out.read_bytes()
    assert data[:8] == b"TARNPLAN" and len(data) == 64 + 3 * 28
    again = tmp_path / "again.plan"
    tarn_tool("plan", log(tmp_path), "-o", again, "--no-pool")
    assert again.read_bytes() == data
    refused(1, "tarn plan: ", "plan", log(tmp_path, RMM + "1,2\n"), "-o", out)
    assert out.read_bytes() == data
    refused(1, "tarn plan: cannot create", "plan", log(tmp_path), "-o", tmp_path / "no/a.plan")
    path = log(tmp_path)
    refused(1, f"tarn plan: {path} is the log itself", "plan", path, "-o", path)


def test_wrong_use_is_named(tmp_path):
    path = log(tmp_path)
    for arguments, message in (
        ([], "exactly one log is required"),
        ([path, "--limit", "no"], "--limit no is not a size"),
        ([path, "--wait-price", "0"], "--wait-price 0 is not a size above 0"),
        ([path, "--lag", "0"], "--lag 0 is not a number from 1 to 2^30"),
        ([path, "--effort", "1001"], "--effort 1001 is not a number from 1 to 1000"),
        ([path, "--effort", "+1"], "--effort +1 is not a number from 1 to 1000"),
    ):
        refused(2, f"tarn plan: {message}", "plan", *arguments)
    refused(1, "tarn plan: cannot open", "plan", tmp_path / "none.csv")
