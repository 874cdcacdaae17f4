"""A pool that follows a plan of `tarn plan`."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tarn
import tarn.mr

TARN = Path(sys.executable).with_name("tarn")
SIZES = [1 << 20, 3 << 20, 512, 70000, 2 << 20, 5 << 20, 4096, 900000]


def work(pool: tarn.mr.PoolMemoryResource) -> None:
    live: list[tuple[int, int]] = []
    for size in SIZES * 40:
        live.append((pool.allocate(size), size))
        if len(live) > 5:
            pool.deallocate(*live.pop(0))
    for block in live:
        pool.deallocate(*block)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """The plan of a log of `work()`."""
    log = tmp_path / "work.csv"
    rows = ["Thread,Time,Action,Pointer,Size,Stream"]
    live: list[tuple[int, int]] = []

    def row(action: str, block: tuple[int, int]) -> None:
        number = len(rows)
        rows.append(f"1,00:00:00.{number:06},{action},{hex(block[0])},{block[1]},0x0")

    for number, size in enumerate(SIZES * 40):
        live.append((0x7F0000000000 + (number << 24), size))
        row("allocate", live[-1])
        if len(live) > 5:
            row("free", live.pop(0))
    for block in live:
        row("free", block)
    log.write_text("\n".join(rows) + "\n", encoding="utf-8")
    path = tmp_path / "work.plan"
    command = str(TARN) if TARN.exists() else shutil.which("tarn")
    assert command is not None
    subprocess.run([command, "plan", log, "--no-pool", "-o", path], check=True, capture_output=True)
    return path


def test_the_pool_follows_a_plan(plan: Path) -> None:
    pool = tarn.mr.PoolMemoryResource(plan=plan, no_stream="single-stream")
    work(pool)
    pool.mark_step()
    work(pool)
    found = pool.statistics()
    assert (found.planned, found.plan_missed) == (2 * len(SIZES) * 40, 0)
    assert found.plan_state == "followed"
    assert found.cache_hits == 0


def test_without_a_plan_a_mark_does_nothing() -> None:
    pool = tarn.mr.PoolMemoryResource()
    pool.mark_step()
    work(pool)
    assert pool.statistics().plan_state == "none"


def test_bad_plans_are_rejected(plan: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tarn.mr.PoolMemoryResource(plan=tmp_path / "none")
    good = plan.read_bytes()
    for bad in (b"", good[:100], good[:-1], good.replace(b"TARNPLAN", b"TARNPLAY"), b"x" * 999):
        plan.write_bytes(bad)
        with pytest.raises(tarn.TarnError):
            tarn.mr.PoolMemoryResource(plan=plan)
    plan.write_bytes(good[:70] + bytes([good[70] ^ 1]) + good[71:])
    with pytest.raises(tarn.TarnError):
        tarn.mr.PoolMemoryResource(plan=str(plan))
