"""A pool that follows a plan of `tarn plan`."""

import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tarn
import tarn.mr
import tarn.torch

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


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_a_pool_and_a_failed_second_beginning_keep_no_plan(plan: Path) -> None:
    def resident_after(times: int) -> int:
        for _ in range(times):
            pool = tarn.mr.PoolMemoryResource(plan=plan)
            with pytest.raises(ValueError, match="only once"):
                pool.__init__(plan=plan)  # type: ignore[misc]
            del pool
        return resident_bytes()

    first = resident_after(100)
    assert resident_after(1000) - first < 300 * plan.stat().st_size


def learn(pool: tarn.mr.PoolMemoryResource, mark: Any) -> None:
    """Run two marked steps, and wait until the pool has the plan of them."""
    for _ in range(2):
        mark()
        work(pool)
    mark()
    until = time.monotonic() + 120
    while pool.statistics().plans_made == 0 and time.monotonic() < until:
        time.sleep(0.001)
        mark()


def test_the_pool_learns_marked_steps() -> None:
    pool = tarn.mr.PoolMemoryResource(plan="learn", no_stream="single-stream")
    assert pool.statistics().plan_state == "learning"
    learn(pool, pool.mark_step)
    assert pool.statistics().plan_state == "followed"
    work(pool)
    pool.mark_step()
    found = pool.statistics()
    assert (found.steps_learned, found.plans_made) == (2, 1)
    assert (found.planned, found.plan_missed) == (len(SIZES) * 40, 0)
    assert found.planned_share == 1.0


def test_the_pool_finds_steps_without_marks() -> None:
    pool = tarn.mr.PoolMemoryResource(plan="detect", no_stream="single-stream")
    until = time.monotonic() + 120
    while pool.statistics().plans_made == 0 and time.monotonic() < until:
        work(pool)
        time.sleep(0.001)
    work(pool)
    planned = pool.statistics().planned
    for _ in range(3):
        work(pool)
    assert pool.statistics().plan_state == "followed"
    assert pool.statistics().planned - planned == 3 * len(SIZES) * 40


def test_a_mark_ends_the_search_for_steps() -> None:
    pool = tarn.mr.PoolMemoryResource(plan="detect", no_stream="single-stream")
    pool.mark_step()
    for _ in range(20):
        work(pool)
    pool.mark_step()
    assert pool.statistics().steps_learned == 1


def test_step_marks_the_pool_of_the_current_resource() -> None:
    pool = tarn.mr.PoolMemoryResource(plan="learn", no_stream="single-stream")
    before = tarn.mr.get_current_device_resource()
    tarn.mr.set_current_device_resource(tarn.mr.LimitingResourceAdaptor(pool, 1 << 30))
    try:
        learn(pool, tarn.step)
        tarn.step(0)
        assert pool.statistics().plans_made == 1
        tarn.mr.set_current_device_resource(tarn.mr.CudaMemoryResource())
        with pytest.raises(tarn.InvalidArgumentError, match="no pool"):
            tarn.step()
    finally:
        tarn.mr.set_current_device_resource(before)


class Optimizer:
    """The part of PyTorch's optimizers that has hooks."""

    class Handle:
        """A registered hook."""

        def __init__(self, hooks: list[Any], hook: Any) -> None:
            self.hooks, self.hook = hooks, hook

        def remove(self) -> None:
            """Remove the hook."""
            self.hooks.remove(self.hook)

    def __init__(self) -> None:
        self.hooks: list[Any] = []

    def register_step_post_hook(self, hook: Any) -> Handle:
        """Add a hook, which each step calls last."""
        self.hooks.append(hook)
        return self.Handle(self.hooks, hook)

    def step(self, *args: Any, **kwargs: Any) -> None:
        """Make a step."""
        for hook in self.hooks:
            hook(self, args, kwargs)

    def zero_grad(self, set_to_none: bool = True) -> str:
        """Free the gradients."""
        return f"to none: {set_to_none}"


@pytest.mark.parametrize("frees_gradients", [True, False])
def test_an_optimizer_marks_steps(frees_gradients: bool) -> None:
    pool = tarn.mr.PoolMemoryResource(plan="learn", no_stream="single-stream")
    before = tarn.mr.get_current_device_resource()
    tarn.mr.set_current_device_resource(pool)
    optimizer = Optimizer()

    def step() -> None:
        optimizer.step()
        if frees_gradients:
            assert optimizer.zero_grad(set_to_none=False) == "to none: False"

    try:
        handle = tarn.torch.mark_steps(optimizer)
        optimizer.zero_grad()  # no step was made: no mark
        step()  # without zero_grad() the next step marks this one
        learn(pool, step)
        assert pool.statistics().plan_state == "followed"
        handle.remove()
        work(pool)
        steps = pool.statistics().planned_share
        step()
        assert pool.statistics().planned_share == steps == 0.0
        assert optimizer.hooks == [] and optimizer.zero_grad() == "to none: True"
    finally:
        tarn.mr.set_current_device_resource(before)
    with pytest.raises(TypeError, match="register_step_post_hook"):
        tarn.torch.mark_steps(object())


def test_learning_excludes_what_it_cannot_work_with(tmp_path: Path) -> None:
    with pytest.raises(tarn.InvalidArgumentError, match="learn"):
        tarn.mr.PoolMemoryResource(plan="learn", moves="never")
    with pytest.raises(tarn.InvalidArgumentError, match="learn"):
        tarn.mr.PoolMemoryResource(plan="detect", moves="never")
    with pytest.raises(tarn.NotSupportedError):
        tarn.mr.PoolMemoryResource(tarn.mr.CudaMemoryResource(), plan="learn")
    with pytest.raises(FileNotFoundError):
        tarn.mr.PoolMemoryResource(plan="./learn")
    with pytest.raises(FileNotFoundError):
        tarn.mr.PoolMemoryResource(plan=tmp_path / "learn")
