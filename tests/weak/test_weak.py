"""The lock-free parts of libtarn under weak memory: models, and an explorer of all their orders.

The explorer is tried on litmus tests with known results first. Each model holds under C11 and under
x86-TSO. Each weaker order at one of its sites is tried, too: the explorer finds those that break the
model. So an order in the source that nothing needs has a reason, and one that is needed has a proof.
"""

import collections

import pytest
import sources
from explorer import MACHINES, Model, explore, need
from models import MODELS, NOT_MODELLED, NOT_NEEDED, WRONG
from operations import Await, Fence, Load, ProcessBarrier, Read, Store, Write, add, exchange
from sources import Site

# --- litmus tests ---------------------------------------------------------------------------------


def outcomes(machine, initial, *threads):
    """Return the results of the threads in all orders; "race" if one of them is a data race."""
    found = set()

    def check(*results):
        found.add(results)

    result = explore(Model("litmus", initial, threads, {}, check), machine)
    return "race" if result.violation else found


def thread(*operations):
    """Return a thread whose result is the results of its loads."""

    def run(order):
        results = []
        for operation in operations:
            result = yield operation
            if not isinstance(operation, (Store, Write, Fence, ProcessBarrier)):
                results.append(result)
        return tuple(results)

    return run


XY = {"x": 0, "y": 0}


def store_buffering(order, *between):
    return (
        thread(Store("x", 1, order[0]), *between, Load("y", order[1])),
        thread(Store("y", 1, order[0]), *between, Load("x", order[1])),
    )


@pytest.mark.parametrize(
    "orders, between, weak_on",
    [
        (("relaxed", "relaxed"), (), {"c11", "tso"}),
        (("release", "acquire"), (), {"c11", "tso"}),
        (("seq_cst", "seq_cst"), (), set()),
        (("seq_cst", "acquire"), (), {"c11"}),
        (("relaxed", "relaxed"), (Fence(),), set()),
    ],
)
def test_store_buffering(orders, between, weak_on):
    weak = ((0,), (0,))
    for machine in MACHINES:
        found = outcomes(machine, XY, *store_buffering(orders, *between))
        assert (weak in found) == (machine in weak_on), machine
        assert found - {weak} == {((0,), (1,)), ((1,), (0,)), ((1,), (1,))}


@pytest.mark.parametrize("machine", MACHINES)
def test_a_process_barrier_of_one_thread_orders_both(machine):
    often = thread(Store("x", 1, "relaxed"), Load("y", "relaxed"))
    rare = thread(Store("y", 1, "relaxed"), ProcessBarrier(), Load("x", "relaxed"))
    assert ((0,), (0,)) not in outcomes(machine, XY, often, rare)
    rare = thread(Store("y", 1, "relaxed"), Fence(), Load("x", "relaxed"))
    assert ((0,), (0,)) in outcomes(machine, XY, often, rare)


@pytest.mark.parametrize(
    "store, load, is_weak",
    [
        ("release", "acquire", False),
        ("relaxed", "acquire", True),
        ("release", "relaxed", True),
        ("seq_cst", "seq_cst", False),
    ],
)
def test_message_passing(store, load, is_weak):
    writer = thread(Store("x", 1, "relaxed"), Store("y", 1, store))
    reader = thread(Load("y", load), Load("x", "relaxed"))
    weak = ((), (1, 0))
    assert (weak in outcomes("c11", XY, writer, reader)) == is_weak
    assert weak not in outcomes("tso", XY, writer, reader)


@pytest.mark.parametrize("store", ["release", "relaxed"])
def test_plain_accesses_race_without_order(store):
    def reader(order):
        return (yield Read("x")) if (yield Load("y", "acquire")) else None

    writer = thread(Write("x", 1), Store("y", 1, store))
    found = outcomes("c11", XY, writer, reader)
    assert found == ({((), 1), ((), None)} if store == "release" else "race")


def test_a_plain_store_after_a_load_of_another_thread_races():
    assert outcomes("c11", XY, thread(Read("x")), thread(Write("x", 1))) == "race"


@pytest.mark.parametrize("fenced", [False, True])
def test_fences_order_relaxed_message_passing(fenced):
    fence = (Fence(),) if fenced else ()
    writer = thread(Store("x", 1, "relaxed"), *fence, Store("y", 1, "relaxed"))
    reader = thread(Load("y", "relaxed"), *fence, Load("x", "relaxed"))
    assert (((), (1, 0)) in outcomes("c11", XY, writer, reader)) != fenced


def test_one_location_has_one_order():
    """Two loads of a location never go back, and all threads agree on the order of its stores."""
    writers = thread(Store("x", 1, "relaxed")), thread(Store("x", 2, "relaxed"))
    readers = [thread(Load("x", "relaxed"), Load("x", "relaxed"))] * 2
    for machine in MACHINES:
        found = outcomes(machine, XY, *writers, *readers)
        assert ((), (), (1, 2), (1, 2)) in found and ((), (), (1, 2), (2, 1)) not in found
        assert not any(0 in one[1:] and one[0] for *_, one, _ in found)


@pytest.mark.parametrize(
    "order, is_weak", [("relaxed", True), ("acq_rel", True), ("seq_cst", False)]
)
def test_independent_reads_of_independent_writes(order, is_weak):
    store = "release" if order == "acq_rel" else order
    load = "acquire" if order == "acq_rel" else order
    found = outcomes(
        "c11", XY,
        thread(Store("x", 1, store)), thread(Store("y", 1, store)),
        thread(Load("x", load), Load("y", load)), thread(Load("y", load), Load("x", load)),
    )  # fmt: skip
    assert (((), (), (1, 0), (1, 0)) in found) == is_weak


def test_stores_may_enter_before_others():
    """2+2W: both locations end with the first store of a thread."""
    one = thread(Store("x", 1, "relaxed"), Store("y", 2, "relaxed"), Load("y", "relaxed"))
    other = thread(Store("y", 1, "relaxed"), Store("x", 2, "relaxed"), Load("x", "relaxed"))
    readers = (
        thread(Load("x", "relaxed"), Load("x", "relaxed")),
        thread(Load("y", "relaxed"), Load("y", "relaxed")),
    )
    weak = ((2,), (2,), (2, 1), (2, 1))
    assert weak in outcomes("c11", XY, one, other, *readers)
    assert weak not in outcomes("tso", XY, one, other, *readers)


@pytest.mark.parametrize("machine", MACHINES)
def test_no_two_changes_read_the_same_value(machine):
    found = outcomes(machine, XY, *[thread(add("x", 1, "relaxed"))] * 3)
    assert {tuple(sorted(result for (result,) in results)) for results in found} == {(0, 1, 2)}


@pytest.mark.parametrize("order, is_weak", [("relaxed", False), ("acquire", False)])
def test_a_change_continues_a_release_sequence(order, is_weak):
    writer = thread(Store("x", 1, "relaxed"), Store("y", 1, "release"))
    between = thread(add("y", 10, order))
    reader = thread(Load("y", "acquire"), Load("x", "relaxed"))
    assert (((), (1,), (11, 0)) in outcomes("c11", XY, writer, between, reader)) == is_weak
    assert ((), (0,), (10, 0)) in outcomes("c11", XY, writer, between, reader)


def test_threads_that_wait_for_each_other_are_found():
    stuck = thread(exchange("x", 1, "relaxed"))

    def waits(order):
        yield Await("y", 1, "acquire")

    result = explore(Model("stuck", XY, (stuck, waits), {}), "c11")
    assert result.violation == "no thread can go on" and result.trace


def test_a_violation_has_the_steps_that_lead_to_it():
    def fails(order):
        yield Store("x", 1, "relaxed")
        need((yield Load("x", "relaxed")) == 2, "x is not 2")

    result = explore(Model("fails", XY, (fails,), {}), "c11")
    assert result.violation == "thread 0: x is not 2"
    assert result.trace == ("thread 0: store x 1 relaxed -> None", "thread 0: load x relaxed -> 1")


# --- the models -------------------------------------------------------------------------------------

names = [model.name for model in MODELS]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("model", MODELS, ids=names)
def test_a_model_holds_in_every_order(model, machine):
    result = explore(model, machine)
    assert result.violation is None, "\n".join([result.violation, *result.trace])
    print(f"{model.name}, {machine}: {result.states} states")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("model", MODELS, ids=names)
def test_a_missing_order_is_found(model, machine):
    found = {
        f"{name}: {weaker}"
        for name, site in model.sites.items()
        for weaker in site.weaker()
        if explore(model, machine, {name: weaker}).violation
    }
    assert found == (model.needed if machine == "c11" else model.needed_on_tso)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("model", WRONG, ids=[model.name for model in WRONG])
def test_a_wrong_algorithm_is_found(model, machine):
    assert explore(model, machine).violation


def test_an_order_that_no_model_needs_has_a_reason():
    needed = collections.defaultdict(bool)
    for model in MODELS:
        for name, site in model.sites.items():
            is_needed = any(one.startswith(f"{name}: ") for one in model.needed)
            needed[site] |= is_needed or not site.weaker()
    assert {
        (site.file, site.function) for site, is_needed in needed.items() if not is_needed
    } == set(NOT_NEEDED)


# --- the source ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_the_source_has_the_operations_of_a_model(model):
    for name, site in model.sites.items():
        assert sources.find(site), f"{model.name}: {name}: {site}"


def test_another_order_or_function_is_noticed():
    site = MODELS[0].sites["lock"]
    assert sources.find(site) and site.order == "acquire" and site.weaker() == ("relaxed",)
    relaxed = site.text.replace("acquire", "relaxed")
    assert not sources.find(Site(site.file, site.function, relaxed))
    assert not sources.find(Site(site.file, "tarn__lock_take", site.text))


def test_each_ordered_operation_of_the_source_has_a_model_or_a_reason():
    listed = collections.defaultdict(set)
    for model in MODELS:
        for site in model.sites.values():
            listed[site.file].add(site.text)
    for file, text, _ in NOT_MODELLED:
        listed[file].add(text)
    assert sources.ordered("src/pool/lock.h")
    for path in sorted((sources.ROOT / "src").rglob("*.[ch]")):
        file = str(path.relative_to(sources.ROOT))
        left = sources.ordered(file, listed[file])
        assert not left, f"{file}: {left}"
    for file, text, _ in NOT_MODELLED:
        assert sources.plain(text) in sources.plain(sources.text_of(file)), (file, text)
