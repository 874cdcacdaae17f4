"""Programs that use PyTorch's memory, for test_torch.py: each runs in a process of its own.

PyTorch cannot change its allocator twice in a process. `python torch_programs.py NAME` runs one
function. Functions with @on_gpu check the results of kernels, which the simulator does not run.
A line "TEST PASSED" at the end shows that all checks ran.
"""

import ctypes
import gc
import os
import pickle
import sys
import threading

import tarn
import tarn.torch
import torch

MIB = 1 << 20
PROGRAMS = {}
IS_SIM = False


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def on_gpu(function):
    function.needs_gpu = True
    return function


def two_devices(function):
    function.devices = 2
    return function


def raises(kind, call, *texts):
    """Check that a call raises this kind of exception with these texts, and return the message."""
    try:
        call()
    except kind as error:
        message = str(error)
        for text in texts:
            assert text in message, f"{text!r} is not in {message!r}"
        return message
    raise AssertionError(f"no {kind.__name__} was raised")


def bytes_on(device, count):
    return torch.empty(count, dtype=torch.uint8, device=f"cuda:{device}")


def live():
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


def until(condition, what):
    """Make small allocations until a condition holds: they poll frees that wait for streams."""
    for _ in range(2000):
        torch.cuda.synchronize()
        torch.empty(256, dtype=torch.uint8, device="cuda")
        if condition():
            return
    raise AssertionError(what)


# --- whole program: out of memory, errors, sizes -------------------------------------------------


@program
def out_of_memory_is_pytorchs():
    pool = tarn.mr.PoolMemoryResource(maximum_pool_size=256 * MIB)
    tarn.torch.use(pool)
    kept = bytes_on(0, 200 * MIB)
    message = raises(
        torch.OutOfMemoryError,
        lambda: bytes_on(0, 100 * MIB),
        "CUDA out of memory. Tried to allocate 100.00 MiB",
        "requested         100 MiB",
    )
    assert " out of memory." in message
    small = bytes_on(0, 40 * MIB)
    assert small.data_ptr() != 0 and kept.data_ptr() != 0
    weights = bytes_on(0, MIB).float().requires_grad_()
    raises(torch.OutOfMemoryError, lambda: (weights.repeat(64) * 2).sum().backward())
    del kept
    assert bytes_on(0, 200 * MIB).data_ptr() != 0
    stats = torch.cuda.memory_stats()
    assert stats["num_ooms"] >= 2, stats["num_ooms"]


@program
def out_of_memory_in_backward_is_pytorchs():
    tarn.torch.use(tarn.mr.PoolMemoryResource(maximum_pool_size=256 * MIB))

    class TooMuch(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            return gradient + bytes_on(0, 300 * MIB)[:1].float()

    x = torch.empty(1, device="cuda", requires_grad=True)
    raises(torch.OutOfMemoryError, lambda: TooMuch.apply(x).backward(), "CUDA out of memory")
    assert bytes_on(0, 100 * MIB).data_ptr() != 0


@program
def failing_frees_are_warnings():
    tarn.torch.use()
    functions = tarn._tarn._torch_functions()
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(
        functions["deallocate"]
    )
    x = bytes_on(0, 1000)
    free(x.data_ptr(), 7, 0, None)
    free(12345 << 9, 100, 0, None)
    free(None, 0, 0, None)
    free(512, 100, 77, None)
    y = x.clone()
    assert y.data_ptr() != x.data_ptr()


@program
def sizes_0_and_2_to_the_40():
    tarn.torch.use()
    empty = bytes_on(0, 0)
    assert empty.data_ptr() == 0 and empty.numel() == 0
    del empty
    raises(torch.OutOfMemoryError, lambda: bytes_on(0, 1 << 40), "1024.00 GiB")
    raises(RuntimeError, lambda: bytes_on(0, 1 << 62))
    assert bytes_on(0, 1).data_ptr() != 0


@program
def other_failures_are_runtime_errors():
    pool = tarn.mr.PoolMemoryResource()
    tarn.torch.use(pool)
    x = bytes_on(0, MIB)
    pool.suspend()
    message = raises(RuntimeError, lambda: bytes_on(0, MIB), "suspended")
    assert "out of memory" not in message
    del x
    pool.resume()
    assert bytes_on(0, MIB).data_ptr() != 0


# --- threads ------------------------------------------------------------------------------------


@program
def threads_and_backward_return_all_memory():
    tarn.torch.use()
    sys.setswitchinterval(1e-6)
    done = threading.Event()

    def hold_the_gil():
        while not done.is_set():
            sum(range(1000))

    def train(failures):
        try:
            weights = torch.empty(256, 256, device="cuda", requires_grad=True)
            for size in range(1, 40):
                x = torch.empty(size, 256, device="cuda")
                ((x @ weights if not IS_SIM else x[:, :1] * weights[:1]) * 2).sum().backward()
                weights.grad = None
        except BaseException as error:
            failures.append(error)

    failures = []
    busy = threading.Thread(target=hold_the_gil)
    busy.start()
    threads = [threading.Thread(target=train, args=(failures,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    train(failures)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "deadlock"
    done.set()
    busy.join()
    assert not failures, failures
    gc.collect()
    stats = torch.cuda.memory_stats()
    # cuBLAS keeps its workspaces
    torch._C._cuda_clearCublasWorkspaces()
    gc.collect()
    stats = torch.cuda.memory_stats()
    assert stats["allocation.all.current"] == 0, stats["allocation.all.current"]
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] > 200
    assert stats["allocated_bytes.all.allocated"] == stats["allocated_bytes.all.freed"]


@program
@two_devices
def free_reaches_the_device_of_the_allocation():
    tarn.torch.use()
    x = bytes_on(1, 4 * MIB)
    assert torch.cuda.memory_allocated(1) == 4 * MIB

    def drop():
        torch.cuda.set_device(0)
        held.pop()

    held = [x]
    del x
    thread = threading.Thread(target=drop)
    thread.start()
    thread.join()
    assert torch.cuda.memory_allocated(1) == 0
    assert torch.cuda.memory_allocated(0) == 0
    one = torch.arange(1000, device="cuda:0")
    other = one.to("cuda:1")
    if not IS_SIM:
        assert other.cpu().tolist() == list(range(1000))
        total = (one[::2] + other.to("cuda:0")[::2]).sum().item()
        assert total == 2 * sum(range(0, 1000, 2))
        assert one.to("cuda:1")[::3].sum().item() == sum(range(0, 1000, 3))


# --- streams ------------------------------------------------------------------------------------


def overwritten(record):
    """Read a freed block on one stream while another one reuses it; return the wrong elements."""
    wrong = 0
    count = 16 * MIB
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    target = torch.zeros(count, dtype=torch.uint8, device="cuda")
    for _ in range(5):
        torch.cuda.synchronize()
        with torch.cuda.stream(one):
            source = torch.ones(count, dtype=torch.uint8, device="cuda")
        two.wait_stream(one)
        with torch.cuda.stream(two):
            torch.cuda._sleep(200_000_000)
            target.copy_(source)
        if record:
            source.record_stream(two)
        del source
        with torch.cuda.stream(one):
            others = [torch.full((count,), 7, dtype=torch.uint8, device="cuda") for _ in range(3)]
        torch.cuda.synchronize()
        wrong += int((target != 1).sum())
        del others
    return wrong


@program
@on_gpu
def recorded_streams_keep_a_freed_block():
    tarn.torch.use()
    assert overwritten(True) == 0
    assert overwritten(False) > 0, "the test detects nothing: the block was not reused"
    until(lambda: torch.cuda.memory_stats()["active_bytes.all.current"] == live(), "still waiting")


@program
def recorded_streams_return_their_blocks():
    tarn.torch.use()
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    for _ in range(50):
        with torch.cuda.stream(one):
            x = bytes_on(0, MIB)
        x.record_stream(two)
        x.record_stream(one)
        x.record_stream(torch.cuda.default_stream())
        del x
    until(lambda: torch.cuda.memory_stats()["active.all.current"] == 0, "still waiting")
    assert torch.cuda.memory_stats()["active.all.freed"] >= 50
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= 4 * MIB


@program
@on_gpu
def memory_behind_streams_is_used_before_out_of_memory():
    tarn.torch.use(tarn.mr.PoolMemoryResource(maximum_pool_size=256 * MIB))
    two = torch.cuda.Stream()
    x = bytes_on(0, 200 * MIB)
    with torch.cuda.stream(two):
        torch.cuda._sleep(500_000_000)
    x.record_stream(two)
    del x
    assert bytes_on(0, 200 * MIB).data_ptr() != 0
    assert torch.cuda.memory_stats()["num_alloc_retries"] == 1


# --- graphs -------------------------------------------------------------------------------------


def body(x):
    """Work with temporaries, which are freed in the capture."""
    y = x * 2
    z = y + 1
    del y
    w = z * 3
    del z
    return w - 1


def captured_bytes():
    pool = tarn._tarn._torch_resource(0)
    return pool.statistics().captured


@program
def memory_stays_with_a_graph():
    tarn.torch.use()
    x = torch.zeros(4 * MIB, device="cuda")
    body(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = body(x)
    held = captured_bytes()
    assert held >= 16 * MIB, held
    address = out.data_ptr()
    del out
    assert captured_bytes() >= held + 16 * MIB
    fills = [torch.full((16 * MIB,), 9.0, device="cuda") for _ in range(10)]
    assert all(not fill.data_ptr() <= address < fill.data_ptr() + fill.nbytes for fill in fills), (
        "memory of the graph was reused"
    )
    if not IS_SIM:
        result = torch.empty(4 * MIB, device="cuda")
        again = torch.cuda.CUDAGraph()
        with torch.cuda.graph(again, pool=graph.pool()):
            result.copy_(body(x))
        for value in (1.0, 2.0, 3.0):
            x.fill_(value)
            for fill in fills:
                fill.fill_(value)
            graph.replay()
            again.replay()
            torch.cuda.synchronize()
            assert bool((result == (value * 2 + 1) * 3 - 1).all()), value
            assert all(bool((fill == value).all()) for fill in fills), "a graph wrote elsewhere"
        again.reset()
    before = torch.cuda.memory_allocated()
    graph.reset()
    fills = fill = None
    gc.collect()
    until(lambda: captured_bytes() == 0, "memory stays with a graph that is gone")
    assert torch.cuda.memory_allocated() <= before
    del x
    result = None
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= 4 * MIB, torch.cuda.memory_reserved()


@program
def graphs_of_one_pool_keep_their_memory_until_the_last():
    tarn.torch.use()
    pool = torch.cuda.graph_pool_handle()
    x = torch.ones(MIB, device="cuda")
    result = torch.zeros(MIB, device="cuda")
    body(x)
    torch.cuda.synchronize()
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first, pool=pool):
        shared = x + 1
    with torch.cuda.graph(second, pool=pool):
        result.copy_(body(shared))
    address = shared.data_ptr()
    del shared
    held = captured_bytes()
    first.replay()
    torch.cuda.synchronize()
    first.reset()
    torch.cuda.synchronize()
    for _ in range(20):
        bytes_on(0, 256)
    assert captured_bytes() >= held > 0, "the first reset released memory of the second"
    fills = [torch.full((4 * MIB,), 9.0, device="cuda") for _ in range(10)]
    for fill in fills:
        assert not fill.data_ptr() <= address < fill.data_ptr() + fill.nbytes
    second.replay()
    torch.cuda.synchronize()
    if not IS_SIM:
        assert bool((result == (2 * 2 + 1) * 3 - 1).all())
    second.reset()
    until(lambda: captured_bytes() == 0, "memory stays after the last reset")


@program
def exception_in_a_capture_leaves_the_allocator_usable():
    tarn.torch.use(tarn.mr.PoolMemoryResource(maximum_pool_size=512 * MIB))
    x = torch.zeros(MIB, device="cuda")
    torch.cuda.synchronize()

    def capture(graph):
        with torch.cuda.graph(graph):
            y = x * 2
            bytes_on(0, 1 << 30)
            return y

    raises(torch.OutOfMemoryError, lambda: capture(torch.cuda.CUDAGraph()), "CUDA out of memory")
    gc.collect()
    torch.cuda.synchronize()
    assert bytes_on(0, 100 * MIB).data_ptr() != 0
    until(lambda: captured_bytes() == 0, "memory stays with a capture that failed")


@program
@on_gpu
def graphed_callables_train():
    tarn.torch.use()
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)
    ).cuda()
    x = torch.randn(64, 256, device="cuda")
    expected = model(x).detach().clone()
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(64, 256, device="cuda"),))
    for _ in range(5):
        noise = [torch.full((MIB,), 5.0, device="cuda") for _ in range(20)]
        out = graphed(x)
        out.square().sum().backward()
        del noise
    assert torch.allclose(out, expected, atol=1e-3)
    reference = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    model.zero_grad()
    graphed(x).square().sum().backward()
    for parameter, gradient in zip(model.parameters(), reference):
        assert torch.allclose(parameter.grad, gradient, rtol=1e-2, atol=1e-2)


# --- MemPool ------------------------------------------------------------------------------------


@program
def mem_pool_takes_and_returns_whole_segments():
    resource = tarn.mr.PoolMemoryResource(device=0)
    pool = tarn.torch.MemPool(resource)
    with pool.use():
        x, y = bytes_on(0, 100), bytes_on(0, 30 * MIB)
    outside = bytes_on(0, 5 * MIB)
    assert resource.statistics().live_blocks == 2
    assert resource.statistics().live_requested == 32 * MIB
    assert x.data_ptr() != 0 and y.data_ptr() != 0 and outside.data_ptr() != 0
    del pool
    gc.collect()
    assert resource.statistics().live_blocks == 2
    del x, y
    gc.collect()
    torch.cuda.empty_cache()
    assert resource.statistics().live_blocks == 0, resource.statistics()
    resource.trim()
    assert resource.statistics().reserved == 0


@program
def mem_pool_out_of_memory_is_pytorchs():
    resource = tarn.mr.PoolMemoryResource(maximum_pool_size=64 * MIB, device=0)
    pool = tarn.torch.MemPool(resource)
    with pool.use():
        raises(torch.OutOfMemoryError, lambda: bytes_on(0, 100 * MIB), "CUDA out of memory")
        raises(torch.OutOfMemoryError, lambda: bytes_on(0, 1 << 40), "CUDA out of memory")
        assert bytes_on(0, 0).numel() == 0
        assert bytes_on(0, 40 * MIB).data_ptr() != 0
    assert resource.statistics().failures >= 1
    assert torch.cuda.memory_stats()["num_ooms"] >= 2


@program
@two_devices
def mem_pool_of_another_device_is_rejected():
    resource = tarn.mr.PoolMemoryResource(device=0)
    pool = tarn.torch.MemPool(resource)

    def enter(device):
        with pool.use(device):
            bytes_on(1, 100)

    raises(ValueError, lambda: enter(1), "device 0, not of 1")
    raises(ValueError, lambda: enter("cuda:1"), "device 0, not of 1")
    torch.cuda.set_device(1)
    other = tarn.torch.MemPool(tarn.mr.PoolMemoryResource(device=0))
    assert other.device == 0
    with other.use():
        x = bytes_on(0, MIB)
    assert other.resource.statistics().live_blocks == 1
    del x


@program
def mem_pool_serves_captures():
    resource = tarn.mr.PoolMemoryResource(device=0)
    pool = tarn.torch.MemPool(resource)
    x = torch.zeros(MIB, device="cuda")
    result = torch.zeros(MIB, device="cuda")
    body(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool.id):
        result.copy_(body(x))
    assert resource.statistics().live_blocks > 0, "the capture did not use the resource"
    assert resource.statistics().captured == 0
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        if not IS_SIM:
            assert bool((result == (value * 2 + 1) * 3 - 1).all())
    graph.reset()
    del graph, pool
    gc.collect()
    torch.cuda.empty_cache()
    assert resource.statistics().live_blocks == 0
    assert resource.statistics().captured == 0


@program
def mem_pools_suspend_and_resume_by_tag():
    weights = tarn.torch.MemPool(tarn.mr.PoolMemoryResource(device=0), tags="weights")
    cache = tarn.torch.MemPool(tarn.mr.PoolMemoryResource(device=0), tags=["cache"])
    with weights.use():
        x = torch.zeros(8 * MIB, dtype=torch.uint8, device="cuda")
    with cache.use():
        y, z = bytes_on(0, 30 * MIB), bytes_on(0, 50 * MIB)
    x.copy_(torch.arange(8 * MIB, dtype=torch.int32).to(torch.uint8))
    expected = x.cpu()
    address = x.data_ptr()
    if not IS_SIM:
        torch.cuda._sleep(100_000_000)
        x.add_(1)
        expected += 1
    tarn.torch.suspend("weights", keep=True)
    tarn.torch.suspend("cache", keep=False)
    assert weights.resource.statistics().suspended == weights.resource.statistics().reserved > 0
    del z
    raises(ValueError, lambda: tarn.torch.suspend("nothing"), "'nothing'")
    tarn.torch.resume()
    assert x.data_ptr() == address
    assert torch.equal(x.cpu(), expected)
    y.zero_()
    del y
    gc.collect()
    assert cache.resource.statistics().suspended == 0


@program
def mem_pool_and_whole_program_exclude_each_other():
    tarn.torch.use()
    torch.cuda.init()
    raises(RuntimeError, lambda: tarn.torch.MemPool(), "no MemPool")


# --- statistics, processes, order of calls ------------------------------------------------------


@program
def native_keys():
    torch.empty(1, device="cuda")
    print("KEYS", *sorted(torch.cuda.memory_stats()))
    print("SEGMENT", *sorted(torch.cuda.memory_snapshot()[0]))
    print("SNAPSHOT", *sorted(torch.cuda.memory._snapshot()))


@program
def statistics_have_pytorchs_keys():
    tarn.torch.use()
    a = bytes_on(0, 3 * MIB)
    b = bytes_on(0, 1000)
    print("KEYS", *sorted(torch.cuda.memory_stats()))
    print("SEGMENT", *sorted(torch.cuda.memory_snapshot()[0]))
    print("SNAPSHOT", *sorted(torch.cuda.memory._snapshot()))
    assert torch.cuda.memory_allocated() == 3 * MIB + 1024
    assert torch.cuda.memory_stats()["requested_bytes.all.current"] == 3 * MIB + 1000
    assert torch.cuda.memory_stats()["allocation.small_pool.current"] == 1
    del a
    assert torch.cuda.memory_allocated() == 1024
    assert torch.cuda.max_memory_allocated() == 3 * MIB + 1024
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == 1024
    assert torch.cuda.memory_reserved() >= 4 * MIB
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_reserved() == torch.cuda.memory_reserved() <= 4 * MIB
    c = bytes_on(0, 50 * MIB)
    del c
    assert torch.cuda.max_memory_reserved() >= 52 * MIB
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == 3
    torch.cuda.reset_accumulated_memory_stats()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == 0
    assert "Allocated memory" in torch.cuda.memory_summary()
    assert torch.accelerator.memory_allocated() == 1024
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.empty_cache()
    sizes = sum(
        block["size"]
        for segment in torch.cuda.memory_snapshot()
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    )
    assert sizes == 1024, sizes
    for segment in torch.cuda.memory_snapshot():
        assert segment["total_size"] == sum(block["size"] for block in segment["blocks"])
    free, total = torch.cuda.mem_get_info()
    assert 0 < free < total
    torch.cuda.set_per_process_memory_fraction(0.5)
    assert abs(torch.cuda.get_per_process_memory_fraction() - 0.5) < 1e-6
    raises(torch.OutOfMemoryError, lambda: bytes_on(0, total // 4 * 3))
    pickle.dumps(torch.cuda.memory._snapshot(), protocol=4)
    torch.cuda.ipc_collect()
    del b


@program
def statistics_can_stay_pytorchs():
    tarn.torch.use(statistics=False)
    bytes_on(0, 100)
    raises(RuntimeError, torch.cuda.memory_allocated, "does not yet support getDeviceStats")


@program
def refused_calls_raise_and_do_not_crash():
    tarn.torch.use()
    x = bytes_on(0, 1000)
    from multiprocessing.reduction import ForkingPickler

    import torch.multiprocessing

    raises(RuntimeError, lambda: ForkingPickler.dumps(x), "does not yet support")
    raises(RuntimeError, lambda: torch.cuda.memory._record_memory_history(), "yet support")
    raises(RuntimeError, lambda: torch.cuda.MemPool(), "yet support")
    raises(RuntimeError, lambda: torch._C._cuda_getCheckpointState(0, (0, 1)), "yet support")
    assert bytes_on(0, 100).data_ptr() != 0


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.tensor(float(index * index))


@program
def forked_children_work_and_free_nothing():
    tarn.torch.use()
    x = bytes_on(0, MIB)
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(one):
        y = bytes_on(0, MIB)
    y.record_stream(two)
    loader = torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=2)
    seen = sum(batch.to("cuda").numel() for batch in loader)
    assert seen == 64
    child = os.fork()
    if child == 0:
        del x, y
        gc.collect()
        raises(RuntimeError, lambda: bytes_on(0, 100))
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    before = torch.cuda.memory_allocated()
    del y
    assert torch.cuda.memory_allocated() == before - MIB
    x.zero_()
    torch.cuda.synchronize()


@program
def exit_with_live_tensors_is_clean():
    tarn.torch.use()
    kept = [bytes_on(0, MIB) for _ in range(10)]
    kept[0].record_stream(torch.cuda.Stream())
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        kept.append(kept[1] * 2)
    globals()["kept"], globals()["graph"] = kept, graph


@program
def exit_with_a_live_mem_pool_is_clean():
    pool = tarn.torch.MemPool()
    with pool.use():
        globals()["kept"] = [bytes_on(0, MIB) for _ in range(10)]
    globals()["pool"] = pool


@program
def late_and_second_calls_are_rejected():
    torch.empty(1, device="cuda")
    raises(RuntimeError, tarn.torch.use, "too late")
    states = tarn.use(frameworks=None) if hasattr(tarn, "use") else {"torch": "skipped: too late"}
    assert "too late" in states["torch"], states


@program
def second_use_keeps_the_first():
    pool = tarn.mr.PoolMemoryResource(device=0)
    tarn.torch.use(pool)
    x = bytes_on(0, MIB)
    assert pool.statistics().live_blocks == 1
    tarn.torch.use()
    tarn.torch.use(pool)
    raises(
        RuntimeError,
        lambda: tarn.torch.use(tarn.mr.PoolMemoryResource(device=0)),
        "uses a pool on device 0, which cannot change",
    )
    del x
    assert pool.statistics().live_blocks == 0


@program
def tarn_use_configures_pytorch():
    if not hasattr(tarn, "use"):
        return
    pool = tarn.mr.PoolMemoryResource(device=0)
    assert tarn.use(pool, frameworks="torch") == {"torch": "active"}
    x = bytes_on(0, MIB)
    assert pool.statistics().live_blocks == 1
    del x


def main():
    global IS_SIM
    name = sys.argv[1]
    IS_SIM = os.environ.get("TARN_TORCH_ON_SIMULATOR") == "1"
    PROGRAMS[name]()
    print("TEST PASSED", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main()
    else:
        print(*PROGRAMS, sep="\n")
