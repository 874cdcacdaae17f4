"""models.py -- the lock-free parts of libtarn, as litmus tests.

Each model names the sites of the source that it stands for (sources.py), asserts what the source
promises, and lists the weaker orders that break the promise. An order that a model does not need is
needed by another one, or is stronger than any model here requires; test_weak.py has both lists.

Location names are those of the source. A plain location stands for all fields that the atomic one
protects. 0 is an empty list, no block and no stream.
"""

from __future__ import annotations

import dataclasses

from explorer import Model, need
from operations import (
    Await,
    Fence,
    Load,
    ProcessBarrier,
    Read,
    Store,
    Write,
    add,
    compare_exchange,
    exchange,
    lock,
    unlock,
)
from sources import Site

# --- the pool's lock --------------------------------------------------------------------------

LOCK_H = "src/pool/lock.h"
POOL_LOCK = {
    "lock": Site(
        LOCK_H,
        "tarn__lock_try",
        "atomic_exchange_explicit(&lock->held, true, memory_order_acquire)",
    ),
    "unlock": Site(
        LOCK_H,
        "tarn__lock_leave",
        "atomic_store_explicit(&lock->held, false, memory_order_release)",
    ),
}


def hold_and_count(order):
    yield lock("held", order["lock"])
    yield Write("count", (yield Read("count")) + 1)
    yield unlock("held", order["unlock"])


def hold_and_read(order):
    yield lock("held", order["lock"])
    count = yield Read("count")
    yield unlock("held", order["unlock"])
    return count


pool_lock = Model(
    "pool lock",
    {"held": 0, "count": 0},
    (hold_and_count, hold_and_count, hold_and_read),
    POOL_LOCK,
    lambda _, __, count: need(0 <= count <= 2, f"{count} of 2 counted"),
    needed=frozenset({"lock: relaxed", "unlock: relaxed"}),
)

pool_lock_urgent = Model(
    "pool lock, left to an urgent thread",
    {"held": 0, "count": 0},
    (hold_and_count, hold_and_read),
    {
        "lock": POOL_LOCK["lock"],
        "unlock": Site(
            "src/pool/lock.c",
            "tarn__lock_leave_to_urgent",
            "atomic_store_explicit(&lock->held, false, memory_order_release)",
        ),
    },
    needed=frozenset({"lock: relaxed", "unlock: relaxed"}),
)

# --- thread caches: the owner enters, another thread drains --------------------------------------

CACHE_H, CACHE_C = "src/pool/cache/thread_cache.h", "src/pool/cache/thread_cache.c"
BARRIER_H = "src/base/process_barrier.h"
CACHE = {
    "enter.check": Site(
        CACHE_H,
        "tarn__thread_cache_enter",
        "atomic_load_explicit(&cache->is_excluded, memory_order_seq_cst)",
    ),
    "enter.undo": Site(
        CACHE_H,
        "tarn__thread_cache_enter",
        "atomic_store_explicit(&cache->is_entered, false, memory_order_release)",
    ),
    "leave": Site(
        CACHE_H,
        "tarn__thread_cache_leave",
        "atomic_store_explicit(&cache->is_entered, false, memory_order_release)",
    ),
    "exclude": Site(
        CACHE_C,
        "tarn__thread_cache_exclude_owner",
        "atomic_store_explicit(&cache->is_excluded, true, memory_order_seq_cst)",
    ),
    "exclude.wait": Site(
        CACHE_C,
        "tarn__thread_cache_exclude_owner",
        "atomic_load_explicit(&cache->is_entered, memory_order_seq_cst)",
    ),
    "admit": Site(
        CACHE_C,
        "tarn__thread_cache_admit_owner",
        "atomic_store_explicit(&cache->is_excluded, false, memory_order_release)",
    ),
}
FLAG_BY_BARRIER = Site(
    BARRIER_H,
    "tarn__process_barrier_set_flag",
    "atomic_store_explicit(flag, true, memory_order_relaxed)",
)
FLAG_BY_ITSELF = Site(
    BARRIER_H,
    "tarn__process_barrier_set_flag",
    "atomic_store_explicit(flag, true, memory_order_seq_cst)",
)


def enter_and_take(order):
    """Take the block out of the cache; 0: the cache is empty, or another thread is inside."""
    yield Store("is_entered", 1, order["enter"])
    if (yield Load("is_excluded", order["enter.check"])):
        yield Store("is_entered", 0, order["enter.undo"])
        return 0
    block = yield Read("small")
    if block:
        yield Write("small", 0)
    yield Store("is_entered", 0, order["leave"])
    return block


def take_twice(order):
    first = yield from enter_and_take(order)
    return first + (yield from enter_and_take(order))


# The barrier of the rare thread: on all threads, or where the kernel has none, on its own.
BARRIER_OWN = Site(
    "src/base/process_barrier.c",
    "tarn__process_barrier",
    "atomic_thread_fence(memory_order_seq_cst)",
)


def barrier(order, has_barrier):
    return (ProcessBarrier if has_barrier else Fence)(order["barrier"])


def drainer(has_barrier):
    def drain(order):
        yield Store("is_excluded", 1, order["exclude"])
        yield barrier(order, has_barrier)
        yield Await("is_entered", 0, order["exclude.wait"])
        block = yield Read("small")
        if block:
            yield Write("small", 0)
        yield Store("is_excluded", 0, order["admit"])
        return block

    return drain


def one_took_it(taken, drained):
    need(taken + drained == 1, f"{taken + drained} threads have the block")


def thread_cache(has_barrier, needed, needed_on_tso):
    flag = FLAG_BY_BARRIER if has_barrier else FLAG_BY_ITSELF
    on_all = Site(CACHE_C, "tarn__thread_cache_exclude_owner", "tarn__process_barrier()")
    return Model(
        f"thread cache, {'with membarrier' if has_barrier else 'without membarrier'}",
        {"is_entered": 0, "is_excluded": 0, "small": 1},
        (take_twice, drainer(has_barrier)),
        {"enter": flag, "barrier": on_all if has_barrier else BARRIER_OWN, **CACHE},
        one_took_it,
        frozenset(needed),
        frozenset(needed_on_tso),
    )


CONTENTS = {"enter.undo: relaxed", "leave: relaxed", "exclude.wait: relaxed", "admit: relaxed"}
thread_cache_by_barrier = thread_cache(
    True, {"barrier: none", "enter.check: relaxed", *CONTENTS}, {"barrier: none"}
)
thread_cache_by_itself = thread_cache(
    False,
    {
        *("enter: release", "enter: relaxed", "enter.check: acquire", "enter.check: relaxed"),
        *CONTENTS,
    },
    {"enter: release", "enter: relaxed"},
)


# --- the last-freed slot --------------------------------------------------------------------------

LAST_FREED = {
    "put": Site(
        CACHE_H,
        "tarn__thread_cache_put_last_freed",
        "atomic_store_explicit(&cache->last_freed, quanta << 32 | index, memory_order_release)",
    ),
    "take": Site(
        CACHE_H,
        "tarn__thread_cache_take_last_freed",
        "atomic_compare_exchange_strong_explicit(&cache->last_freed, &last_freed, 0,"
        " memory_order_acq_rel, memory_order_relaxed)",
    ),
    "take.look": Site(
        CACHE_H,
        "tarn__thread_cache_take_last_freed",
        "atomic_load_explicit(&cache->last_freed, memory_order_relaxed)",
    ),
    "return.look": Site(
        CACHE_C,
        "return_last_freed",
        "atomic_load_explicit(&cache->last_freed, memory_order_relaxed)",
    ),
    "return": Site(
        CACHE_C,
        "return_last_freed",
        "atomic_exchange_explicit(&cache->last_freed, 0, memory_order_acq_rel)",
    ),
}


def take_last_freed(order):
    seen = yield Load("last_freed", order["take.look"])
    if not seen:
        return 0
    old = yield compare_exchange("last_freed", seen, 0, order["take"])
    return old if old == seen else 0


def free_and_take(order):
    """Free block 1 into the slot, take it again; then free block 2 into the empty slot."""
    yield Write("node 1", 10)
    yield Store("last_freed", 1, order["put"])
    taken = yield from take_last_freed(order)
    if taken:
        yield Write("node 1", 11)
    yield Write("node 2", 20)
    if taken:  # the slot is empty: only this thread fills it
        yield Store("last_freed", 2, order["put"])
    return taken


def return_to_heap(order):
    if not (yield Load("last_freed", order["return.look"])):
        return 0
    block = yield exchange("last_freed", 0, order["return"])
    if block:
        content = yield Read(f"node {block}")
        need(content in (10, 20), f"block {block} was returned with content {content}")
        yield Write(f"node {block}", 30)
    return block


last_freed = Model(
    "last-freed slot",
    {"last_freed": 0, "node 1": 0, "node 2": 0},
    (free_and_take, return_to_heap),
    LAST_FREED,
    lambda taken, returned: need(not (taken and returned == 1), "two threads have block 1"),
    needed=frozenset({"put: relaxed", "return: relaxed", "return: release"}),
)

# --- nodes: who frees a block, while its node becomes another block's ----------------------------

NODE_H = "src/pool/blocks/node.h"
NODE = {
    "live": Site(
        NODE_H,
        "tarn__node_make_live",
        "atomic_store_explicit(&node->state, TARN__LIVE, memory_order_release)",
    ),
    "claim": Site(
        NODE_H,
        "tarn__node_claim",
        "atomic_compare_exchange_strong_explicit(&node->state, &live, (uint8_t)state,"
        " memory_order_acq_rel, memory_order_relaxed)",
    ),
    "claim.undo": Site(
        NODE_H,
        "tarn__node_claim",
        "atomic_store_explicit(&node->state, TARN__LIVE, memory_order_release)",
    ),
    "address": Site(
        NODE_H,
        "tarn__node_address",
        "__atomic_load_n(&node->address, __ATOMIC_RELAXED)",
    ),
    "address.set": Site(
        NODE_H,
        "tarn__node_set_address",
        "__atomic_store_n(&node->address, address, __ATOMIC_RELAXED)",
    ),
}
LIVE, CACHED = 2, 3
A, B = 100, 200  # addresses of two blocks


def claim(order, address):
    if (yield compare_exchange("state", LIVE, CACHED, order["claim"])) != LIVE:
        return False
    if (yield Load("address", order["address"])) == address:
        return True
    yield Store("state", LIVE, order["claim.undo"])
    return False


def free_a_and_reuse_its_node(order):
    """Free block A; then its node becomes block B, of which this thread is the owner."""
    if not (yield from claim(order, A)):
        return "A was freed by the other thread"
    yield Write("links", 1)  # the node is in the heap's lists meanwhile
    yield Store("address", B, order["address.set"])
    yield Store("state", LIVE, order["live"])
    return "B"


def free_a_too(order):
    """A second free of A: an error of the program, which must not take block B."""
    if not (yield from claim(order, A)):
        return "not live"
    address = yield Load("address", order["address"])
    need(address == A, "the second free of A has taken block B")
    yield Write("links", 2)
    return "freed A"


def one_freed_a(first, second):
    need((first == "B") != (second == "freed A"), f"frees of A: {first}, {second}")


node_claim = Model(
    "two frees of a block, and its node reused",
    {"state": LIVE, "address": A, "links": 0},
    (free_a_and_reuse_its_node, free_a_too),
    NODE,
    one_freed_a,
    needed=frozenset({"live: relaxed", "claim: relaxed", "claim: release"}),
)

# --- the address table: look-ups without the lock, beside insertion and growth -------------------

ADDRESSES_H, ADDRESSES_C = "src/pool/blocks/addresses.h", "src/pool/blocks/addresses.c"
LIVE_H = "src/pool/live.h"
ADDRESSES = {
    **POOL_LOCK,
    "link": Site(
        ADDRESSES_H,
        "tarn__addresses_chain_store",
        "atomic_store_explicit(link, index, memory_order_release)",
    ),
    "grow": Site(
        ADDRESSES_C,
        "add_chains",
        "atomic_store_explicit(&addresses->chains, chains, memory_order_release)",
    ),
    "look.chains": Site(
        ADDRESSES_H,
        "tarn__addresses_look",
        "atomic_load_explicit(&addresses->chains, memory_order_acquire)",
    ),
    "look.first": Site(
        ADDRESSES_H,
        "tarn__addresses_look",
        "atomic_load_explicit(&chains->first[tarn__addresses_chain_of(chains, address)],"
        " memory_order_acquire)",
    ),
    "look.next": Site(
        ADDRESSES_H,
        "tarn__addresses_look",
        "atomic_load_explicit(&node->chain, memory_order_acquire)",
    ),
    "older.chains": Site(
        ADDRESSES_C,
        "tarn__addresses_look_in_older",
        "atomic_load_explicit(&addresses->chains, memory_order_acquire)",
    ),
    "older.first": Site(
        ADDRESSES_C,
        "first_of",
        "atomic_load_explicit(&chains->first[tarn__addresses_chain_of(chains, address)],"
        " memory_order_acquire)",
    ),
    "older.next": Site(
        ADDRESSES_C,
        "find_in",
        "atomic_load_explicit(&tarn__node(nodes, index)->chain, memory_order_acquire)",
    ),
    "is_live": Site(
        LIVE_H,
        "tarn__live_is",
        "atomic_load_explicit(&tarn__node(&pool->heap.nodes, index)->state, memory_order_acquire)",
    ),
    "address": NODE["address"],
    "address.set": NODE["address.set"],
}
UNMOVED, END = 0, 1
NODE_A, NODE_B, NODE_C = 8, 16, 24  # indices; blocks A and B are in one old chain
C = 300


def look(order, address, first, chains, next_):
    """Return the node of an address in the chain of the table that `chains` names, or 0."""
    table = yield Load("chains", chains)
    yield Read(f"shift {table}")  # the fields of an array of chains are plain
    index = yield Load(f"first {table}", first)
    for _ in range(4):
        if index <= END:
            return index
        if (yield Load(f"address {index}", order["address"])) == address:
            return index
        index = yield Load(f"chain {index}", next_)
    return 0


def look_in_older(order, address):
    """The same, in the old chain if the new one is not moved."""
    table = yield Load("chains", order["older.chains"])
    first = UNMOVED
    while table and first == UNMOVED:
        yield Read(f"shift {table}")
        first = yield Load(f"first {table}", order["older.first"])
        table -= 1
    for _ in range(4):
        if first <= END or (yield Load(f"address {first}", order["address"])) == address:
            break
        first = yield Load(f"chain {first}", order["older.next"])
    return first


def find_live(order, address):
    """Return the node of a live block, as a free finds it: find() and find_again()."""
    index = yield from look(
        order, address, order["look.first"], order["look.chains"], order["look.next"]
    )
    if index > END and (yield Load(f"state {index}", order["is_live"])) == LIVE:
        return index
    index = yield from look_in_older(order, address)
    if index > END and (yield Load(f"state {index}", order["is_live"])) == LIVE:
        return index
    yield lock("held", order["lock"])
    index = yield from look_in_older(order, address)
    yield unlock("held", order["unlock"])
    return index


def free_a(order):
    index = yield from find_live(order, A)
    need(index == NODE_A, f"the live block A was looked up as node {index}")


def grow_and_move(order):
    """Add a larger array of chains, and move the chain of A and B there."""
    yield lock("held", order["lock"])
    yield Write("shift 2", 9)
    yield Store("chains", 2, order["grow"])
    yield Store(f"chain {NODE_A}", END, order["link"])
    yield Store(f"chain {NODE_B}", NODE_A, order["link"])
    yield Store("first 2", NODE_B, order["link"])
    yield unlock("held", order["unlock"])


def add_a_block(order):
    """Enter block C before the others of its chain."""
    yield lock("held", order["lock"])
    yield Store(f"address {NODE_C}", C, order["address.set"])
    yield Store(f"state {NODE_C}", LIVE, "release")
    first = yield Load("first 1", "relaxed")
    yield Store(f"chain {NODE_C}", first, order["link"])
    yield Store("first 1", NODE_C, order["link"])
    yield unlock("held", order["unlock"])


def remove_and_reuse_a_node(order):
    """Remove block B, which comes before A, and enter its node in another chain as block C."""
    yield lock("held", order["lock"])
    yield Store(f"state {NODE_B}", CACHED, "relaxed")
    next_ = yield Load(f"chain {NODE_B}", "relaxed")
    yield Store("first 1", next_, order["link"])
    yield Store(f"address {NODE_B}", C, order["address.set"])
    yield Store(f"chain {NODE_B}", END, order["link"])
    yield Store("first of C", NODE_B, order["link"])
    yield Store(f"state {NODE_B}", LIVE, "release")
    yield unlock("held", order["unlock"])


CHAIN_OF_A_AND_B = {
    "held": 0, "chains": 1, "shift 1": 10, "shift 2": 0, "first 1": NODE_B, "first 2": UNMOVED,
    "first of C": END,
    f"chain {NODE_A}": END, f"chain {NODE_B}": NODE_A, f"chain {NODE_C}": 0,
    f"address {NODE_A}": A, f"address {NODE_B}": B, f"address {NODE_C}": 0,
    f"state {NODE_A}": LIVE, f"state {NODE_B}": LIVE, f"state {NODE_C}": 0,
}  # fmt: skip

addresses_grow = Model(
    "address table, a look-up beside growth",
    CHAIN_OF_A_AND_B,
    (free_a, grow_and_move),
    ADDRESSES,
    needed=frozenset({"grow: relaxed", "look.chains: relaxed"}),
)
addresses_add = Model(
    "address table, a look-up beside an insertion",
    CHAIN_OF_A_AND_B,
    (free_a, add_a_block),
    ADDRESSES,
)
addresses_reuse = Model(
    "address table, a look-up beside a removal and a reused node",
    CHAIN_OF_A_AND_B,
    (free_a, remove_and_reuse_a_node),
    ADDRESSES,
)

# --- publication: an object is written, then a pointer or flag to it ------------------------------


def publish(order):
    yield Write("object", 1)
    yield Store("pointer", 1, order["store"])


def use(order):
    if (yield Load("pointer", order["load"])):
        need((yield Read("object")) == 1, "the object is not complete")


def publication(name, store, load, needed=("store: relaxed", "load: relaxed")):
    return Model(
        f"publication, {name}",
        {"object": 0, "pointer": 0},
        (publish, use, use),
        {"store": store, "load": load},
        needed=frozenset(needed),
    )


REGISTRATION_C = "src/driver/registration.c"
ALLOC_SITE_C = "src/nrt/alloc_site.c"
SITE_TABLE = Site(
    ALLOC_SITE_C,
    "table_made",
    "atomic_store_explicit(&sites.table, table, memory_order_release)",
)
SITE_READY = Site(
    ALLOC_SITE_C,
    "insert",
    "atomic_store_explicit(&table[number].ready, true, memory_order_release)",
)
NRT_WORD = Site(
    "src/nrt/modes.c",
    "tarn__modes_update_word",
    "atomic_store_explicit(&runtime->word, word, memory_order_release)",
)
STRONG = ("store: release", "store: relaxed", "load: relaxed")  # of a seq_cst store

PUBLICATIONS = [
    publication(
        "the table of driver calls",
        Site(
            "src/driver/driver.c", "load_and_start", "atomic_store(&driver.current, &driver.calls)"
        ),
        Site(
            "src/driver/driver.c",
            "tarn__driver",
            "atomic_load_explicit(&driver.current, memory_order_acquire)",
        ),
        STRONG[1:],
    ),
    publication(
        "the bins of a binning resource",
        Site(
            "src/resource/binning.c",
            "insert",
            "atomic_store_explicit(&binning->bins, made, memory_order_release)",
        ),
        Site(
            "src/resource/binning.c",
            "route",
            "atomic_load_explicit(&binning->bins, memory_order_acquire)",
        ),
    ),
    publication(
        "the resource of PyTorch",
        Site(
            "src/torch/torch_resource.c",
            "set",
            "atomic_compare_exchange_strong(&resources[device], &present, resource)",
        ),
        Site(
            "src/torch/torch_resource.c",
            "tarn__torch_resource_get",
            "atomic_load_explicit(&resources[device], memory_order_acquire)",
        ),
        STRONG[1:],
    ),
    publication(
        "the release of an exported pointer",
        Site(
            "src/ipc/export_table.c",
            "entry_new",
            "atomic_store_explicit(&pointer->release, release_shared, memory_order_release)",
        ),
        Site(
            "src/pointer/pointer.c",
            "tarn_pointer_release",
            "atomic_load_explicit(&pointer->release, memory_order_acquire)",
        ),
    ),
    publication(
        "an instance of the runtime",
        Site(
            "src/nrt/registry.c",
            "tarn__registry_add",
            "atomic_store_explicit(&tarn__runtimes[i], runtime, memory_order_release)",
        ),
        Site(
            "src/nrt/registry.h",
            "tarn__registry_at",
            "atomic_load_explicit(&tarn__runtimes[index % TARN__RUNTIMES], memory_order_acquire)",
        ),
    ),
    publication(
        "allocator and modes of the runtime, to shards",
        NRT_WORD,
        Site(
            "src/nrt/shard.c",
            "tarn__shard_get",
            "atomic_load_explicit(&runtime->word, memory_order_acquire)",
            times=2,
        ),
    ),
    publication(
        "allocator and modes of the runtime, to requests",
        NRT_WORD,
        Site(
            "src/nrt/slow.c",
            "take",
            "atomic_load_explicit(&request->runtime->word, memory_order_acquire)",
        ),
    ),
    publication(
        "the table of allocation sites, to those that enter one",
        SITE_TABLE,
        Site(
            ALLOC_SITE_C,
            "table_made",
            "atomic_load_explicit(&sites.table, memory_order_acquire)",
        ),
    ),
    publication(
        "the table of allocation sites, to readers",
        SITE_TABLE,
        Site(
            ALLOC_SITE_C,
            "tarn__alloc_site_read",
            "atomic_load_explicit(&sites.table, memory_order_acquire)",
        ),
    ),
    publication(
        "an allocation site, to those that look for it",
        SITE_READY,
        Site(
            ALLOC_SITE_C,
            "find",
            "atomic_load_explicit(&table[number].ready, memory_order_acquire)",
        ),
    ),
    publication(
        "an allocation site, to readers",
        SITE_READY,
        Site(
            ALLOC_SITE_C,
            "tarn__alloc_site_read",
            "atomic_load_explicit(&table[number].ready, memory_order_acquire)",
        ),
    ),
    publication(
        "a chunk of registered streams",
        Site(
            REGISTRATION_C,
            "add_chunk",
            "atomic_store_explicit(&chunks[chunk_count], chunk, memory_order_release)",
        ),
        Site(
            REGISTRATION_C,
            "place_at",
            "atomic_load_explicit(&chunks[index / CHUNK_PLACES], memory_order_acquire)",
        ),
    ),
    publication(
        "the unwinder",
        Site(
            "src/trace/native_stack.c",
            "load_unwinder",
            "atomic_store_explicit(&is_unwinder_loaded, true, memory_order_release)",
        ),
        Site(
            "src/trace/native_stack.c",
            "load_unwinder",
            "atomic_load_explicit(&is_unwinder_loaded, memory_order_acquire)",
        ),
    ),
    publication(
        "a definition in a binary log",
        Site(
            "src/trace/binary_records.c",
            "set_defined",
            "atomic_fetch_or_explicit(&records->defined[number / 64],"
            " (uint64_t)1 << number % 64, memory_order_release)",
        ),
        Site(
            "src/trace/binary_records.h",
            "tarn__binary_records_has",
            "atomic_load_explicit(&records->defined[number / 64], memory_order_acquire)",
        ),
    ),
    publication(
        "the file of a forked child's binary log",
        Site(
            "src/trace/binary_output.c",
            "tarn__binary_output_begin",
            "atomic_store(&chunks->floor_ns, 0)",
        ),
        Site(
            "src/trace/binary_output.c",
            "tarn__binary_output_is_ready",
            "atomic_load_explicit(&writer->chunks.floor_ns, memory_order_acquire)",
        ),
        STRONG[1:],
    ),
    publication(
        "a pool that was resumed",
        Site(
            "src/pool/suspend.c",
            "end_suspension",
            "atomic_fetch_and(&pool->lifecycle, ~(unsigned)TARN__POOL_SUSPENDED)",
        ),
        Site(
            "src/pool/pool.h",
            "tarn__pool_lifecycle",
            "atomic_load_explicit(&((struct tarn__pool *)pool)->lifecycle, memory_order_acquire)",
        ),
        STRONG[1:],
    ),
]

# --- registered streams: a look-up beside a place that is used again -------------------------------

REGISTRATION = {
    "add": Site(
        REGISTRATION_C,
        "fill_place",
        "atomic_store_explicit(&place->registration_number, place->registration_count,"
        " memory_order_release)",
    ),
    "remove": Site(
        REGISTRATION_C,
        "tarn_stream_unregister",
        "atomic_store_explicit(&registration->registration_number, 0, memory_order_release)",
    ),
    "find": Site(
        REGISTRATION_C,
        "tarn__registration_find",
        "atomic_load_explicit(&registration->registration_number, memory_order_acquire)",
    ),
}


def register_again(order):
    """Unregister stream 1, register stream 2 in its place, and pass the new value on."""
    yield Store("number", 0, order["remove"])
    yield Write("handle", 2)
    yield Store("number", 2, order["add"])
    yield Store("value", 2, "relaxed")


def find_registered(order, value):
    return (yield Load("number", order["find"])) == value


def use_stream_2(order):
    """Use the value that was passed on, even without order."""
    value = yield Load("value", "relaxed")
    if value == 2 and (yield from find_registered(order, value)):
        need((yield Read("handle")) == 2, "stream 2 has the handle of stream 1")


def find_stream_1(order):
    """Look stream 1 up again and again: once it is gone, it stays away."""
    first = yield from find_registered(order, 1)
    second = yield from find_registered(order, 1)
    need(first or not second, "stream 1 was found after it was gone")


registered_streams = Model(
    "registered streams, a place that is used again",
    {"number": 1, "handle": 1, "value": 0},
    (register_again, use_stream_2, find_stream_1),
    REGISTRATION,
    needed=frozenset({"add: relaxed", "find: relaxed"}),
)

# --- the reference count of a MemInfo ---------------------------------------------------------------

MEMINFO_C = "src/nrt/meminfo.c"
MEMINFO = {
    "look": Site(
        MEMINFO_C, "drop_reference", "atomic_load_explicit(&meminfo->refct, memory_order_acquire)"
    ),
    "drop": Site(
        MEMINFO_C,
        "drop_reference",
        "atomic_fetch_sub_explicit(&meminfo->refct, 1, memory_order_acq_rel)",
    ),
    "fast.look": Site(
        MEMINFO_C, "release", "atomic_load_explicit(&meminfo->refct, memory_order_acquire)"
    ),
}


def owner(number, look):
    def release(order):
        """Write into the data and drop a reference; the last owner reads all data and frees."""
        yield Write(f"data {number}", number)
        count = yield Load("refct", order[look])
        need(count > 0, "a release of a freed MemInfo")
        if count == 1:
            yield Store("refct", 0, "relaxed")
        elif (yield add("refct", -1, order["drop"])) != 1:
            return 0
        for other in range(3):
            need((yield Read(f"data {other}")) == other, f"data of owner {other} are lost")
        return 1

    return release


def references(look):
    return Model(
        f"reference count, by {look}",
        {"refct": 3, "data 0": 0, "data 1": 0, "data 2": 0},
        tuple(owner(number, look) for number in range(3)),
        MEMINFO,
        lambda *freed: need(sum(freed) == 1, f"{sum(freed)} owners have freed it"),
        needed=frozenset({f"{look}: relaxed", "drop: acquire", "drop: release", "drop: relaxed"}),
    )


reference_count, reference_count_fast = references("look"), references("fast.look")

# --- counts of the runtime ----------------------------------------------------------------------------

COUNT_H, STATS_C = "src/nrt/count.h", "src/nrt/stats.c"
COUNTS = {
    "bump": Site(
        COUNT_H,
        "tarn__count_bump",
        "atomic_store_explicit(counter, tarn__count_read(counter) + more, memory_order_relaxed)",
    ),
    "bump.last": Site(
        COUNT_H,
        "tarn__count_bump_last",
        "atomic_store_explicit(counter, tarn__count_read(counter) + 1, memory_order_release)",
    ),
    "sum": Site(
        STATS_C,
        "sum",
        "atomic_load_explicit((const _Atomic uint64_t *)(const void *)((const char *)"
        "&shard->counters + offset), memory_order_acquire)",
    ),
}


def make_raw_block(order):
    """Count a raw block in the shard of this thread, and pass it on."""
    yield Store("histogram", 1, order["bump"])
    yield Store("raw_alloc", 1, order["bump.last"])
    yield Store("block", 1, "release")  # the program orders its threads


def free_raw_block(order):
    """Count the free in the shard of another thread."""
    yield Await("block", 1, "acquire")
    yield Store("raw_free", 1, order["bump.last"])


def read_counts(order):
    freed = yield Load("raw_free", order["sum"])
    raw = yield Load("raw_alloc", order["sum"])
    allocated = yield Load("histogram", order["sum"])
    need(freed <= allocated, "a block was freed before it was allocated")
    need(raw <= allocated, "there are more raw blocks than blocks")
    return freed, raw, allocated


nrt_counts = Model(
    "counts of the runtime, in shards",
    {"histogram": 0, "raw_alloc": 0, "block": 0, "raw_free": 0},
    (make_raw_block, free_raw_block, read_counts),
    COUNTS,
    needed=frozenset({"bump.last: relaxed", "sum: relaxed"}),
)

SHARED_COUNTS = {
    "made": Site(
        "src/nrt/count.c",
        "tarn__count_made_shared",
        "atomic_fetch_add(&counters->histogram[tarn__count_bucket(bytes)], 1)",
    ),
    "made.raw": Site(
        "src/nrt/count.c",
        "tarn__count_made_shared",
        "atomic_fetch_add(&counters->raw_alloc, 1)",
    ),
    "sum": Site(
        STATS_C,
        "sum",
        "atomic_load_explicit((const _Atomic uint64_t *)(const void *)((const char *)"
        "&runtime->folded + offset), memory_order_acquire)",
    ),
}


def count_shared(order):
    yield add("histogram", 1, order["made"])
    yield add("raw_alloc", 1, order["made.raw"])


def read_shared(order):
    raw = yield Load("raw_alloc", order["sum"])
    allocated = yield Load("histogram", order["sum"])
    need(raw <= allocated, "there are more raw blocks than blocks")


nrt_shared_counts = Model(
    "counts of the runtime, without a shard",
    {"histogram": 0, "raw_alloc": 0},
    (count_shared, count_shared, read_shared),
    SHARED_COUNTS,
    needed=frozenset({"made.raw: relaxed", "sum: relaxed"}),
)

PEAK = {
    "live": Site(
        "src/nrt/count.c", "tarn__count_flush", "atomic_fetch_add(&runtime->live, now - flushed)"
    ),
    "peak": Site("src/nrt/count.c", "raise_peak", "atomic_load(&runtime->peak)"),
    "raise": Site(
        "src/nrt/count.c",
        "raise_peak",
        "atomic_compare_exchange_weak(&runtime->peak, &peak, seen)",
    ),
}


def flush(order):
    """Flush one byte to the instance, and raise its peak."""
    seen = (yield add("live", 1, order["live"])) + 1
    peak = yield Load("peak", order["peak"])
    while seen > peak:
        old = yield compare_exchange("peak", peak, seen, order["raise"], "relaxed")
        if old == peak:
            break
        peak = old
    return seen


def read_peak(order):
    """Read the peak at the end."""
    yield Await("ended", 2, "acquire")
    return (yield Load("peak", "relaxed"))


def flush_and_end(order):
    seen = yield from flush(order)
    yield add("ended", 1, "acq_rel")
    return seen


def counted_exactly(one, other, peak):
    need({one, other} == {1, 2}, f"live bytes {one} and {other} after a byte each")
    need(peak == 2, f"the peak is {peak} of 2")


nrt_peak = Model(
    "peak of the runtime",
    {"live": 0, "peak": 0, "ended": 0},
    (flush_and_end, flush_and_end, read_peak),
    PEAK,
    counted_exactly,
)

# --- rows of a ring beside the thread that folds it ---------------------------------------------------

ROWS_C, RING_C = "src/trace/binary_rows.c", "src/trace/binary_ring.c"
RING = {
    "row": Site(
        ROWS_C,
        "store_row",
        "__atomic_store_n(&place->check, tarn__binary_check(slot->seed, slot->index, row),"
        " __ATOMIC_RELEASE)",
    ),
    "settle": Site(
        ROWS_C,
        "settle_row",
        "atomic_load_explicit(&writer->chunks.floor_ns, memory_order_relaxed)",
    ),
    "floor": Site(RING_C, "begin_turn", "atomic_store(&chunks->floor_ns, out->before_ns)"),
}


def row_writer(has_barrier):
    def write_row(order):
        """Store a row of time 5, and correct it if the floor is above it by now."""
        yield Store("row", 5, order["row"])
        if not has_barrier:
            yield Fence(order["settle.fence"])
        return (yield Load("floor_ns", order["settle"])) > 5

    return write_row


def row_folder(has_barrier):
    def fold(order):
        """Raise the floor to 9, and fold the older rows of the file."""
        yield Store("floor_ns", 9, order["floor"])
        yield barrier(order, has_barrier)
        return (yield Load("row", "relaxed")) == 5  # by a system call

    return fold


def binary_ring(has_barrier):
    if has_barrier:
        fences = {"barrier": Site(RING_C, "begin_turn", "tarn__process_barrier()")}
    else:
        own = Site(ROWS_C, "settle_row", "atomic_thread_fence(memory_order_seq_cst)")
        fences = {"barrier": BARRIER_OWN, "settle.fence": own}
    return Model(
        f"rows of a ring, {'with membarrier' if has_barrier else 'without membarrier'}",
        {"row": 0, "floor_ns": 0},
        (row_writer(has_barrier), row_folder(has_barrier)),
        {**RING, **fences},
        lambda corrected, folded: need(corrected or folded, "the row is lost to the ring"),
        needed=frozenset(f"{site}: none" for site in fences),
        needed_on_tso=frozenset({"barrier: none"} if has_barrier else {"settle.fence: none"}),
    )


# --- models that are wrong on purpose ----------------------------------------------------------------


def replaced(model, name, *threads):
    """Return a model with other threads, which breaks the promise."""
    return dataclasses.replace(model, name=name, threads=threads)


def drain_without_waiting(order):
    yield Store("is_excluded", 1, order["exclude"])
    yield barrier(order, True)
    block = yield Read("small")
    if block:
        yield Write("small", 0)
    return block


def return_without_exchange(order):
    block = yield Load("last_freed", "acquire")
    if block:
        yield Store("last_freed", 0, "release")
    return block


def claim_without_address(order):
    """A second free that does not look whether the node is still that of block A."""
    if (yield compare_exchange("state", LIVE, CACHED, order["claim"])) != LIVE:
        return "not live"
    need((yield Load("address", order["address"])) == A, "the second free of A has taken block B")
    return "freed A"


def free_without_lock(order):
    """A free that does not look again with the lock."""
    first = order["look.first"], order["look.chains"], order["look.next"]
    index = yield from look(order, A, *first)
    need(index == NODE_A, f"the live block A was looked up as node {index}")


def flush_without_exchange(order):
    seen = (yield add("live", 1, order["live"])) + 1
    if seen > (yield Load("peak", order["peak"])):
        yield Store("peak", seen, "seq_cst")
    yield add("ended", 1, "acq_rel")
    return seen


def drop_without_exchange(order):
    yield Write("data 0", 0)
    count = yield Load("refct", "acquire")
    yield Store("refct", count - 1, "release")
    return count == 1


WRONG = [
    replaced(
        thread_cache_by_barrier, "a drain that does not wait", take_twice, drain_without_waiting
    ),
    replaced(
        last_freed, "a block returned without an exchange", free_and_take, return_without_exchange
    ),
    replaced(
        node_claim,
        "a claim that ignores the address",
        free_a_and_reuse_its_node,
        claim_without_address,
    ),
    replaced(
        addresses_reuse,
        "a look-up that does not look again",
        free_without_lock,
        remove_and_reuse_a_node,
    ),
    replaced(
        addresses_grow, "a look-up during growth that does not look again", free_without_lock,
        grow_and_move,
    ),
    replaced(
        nrt_peak, "a peak raised without an exchange", flush_without_exchange,
        flush_without_exchange, read_peak,
    ),
    replaced(
        reference_count, "references dropped without an exchange",
        drop_without_exchange, drop_without_exchange, drop_without_exchange,
    ),
]  # fmt: skip

# --- orders that no model needs -----------------------------------------------------------------------

LINKS = "A look-up that misses a block looks again with the lock."
NEWEST = "A read-modify-write reads the newest value in any order."

# Why the source has the order nevertheless, by site.
NOT_NEEDED = {
    (ADDRESSES_H, "tarn__addresses_chain_store"): LINKS,
    (ADDRESSES_H, "tarn__addresses_look"): LINKS,  # of the links, not of the chains
    (ADDRESSES_C, "tarn__addresses_look_in_older"): LINKS,
    (ADDRESSES_C, "first_of"): LINKS,
    (ADDRESSES_C, "find_in"): LINKS,
    (LIVE_H, "tarn__live_is"): "The claim of the node has the order.",
    (CACHE_C, "tarn__thread_cache_exclude_owner"): "The barrier after the store has the order.",
    (CACHE_H, "tarn__thread_cache_take_last_freed"): "Only the thread itself fills its slot.",
    (NODE_H, "tarn__node_claim"): "The undo writes nothing else; its owner has the block already.",
    (REGISTRATION_C, "tarn_stream_unregister"): "The next registration has the order.",
    (
        "src/nrt/count.c",
        "tarn__count_made_shared",
    ): "The count of raw blocks after it has the order.",
    ("src/nrt/count.c", "tarn__count_flush"): NEWEST,
    ("src/nrt/count.c", "raise_peak"): NEWEST,
    (ROWS_C, "store_row"): "A check of the row finds one that is not whole.",
    (RING_C, "begin_turn"): "The barrier after the store has the order.",
}

# Ordered atomic operations without a model: (file, text, why).
NOT_MODELLED = [
    (
        REGISTRATION_C,
        "atomic_store_explicit(&place->captures, captures, memory_order_release)",
        "An announcement takes the lock of the value.",
    ),
    (
        "src/device/device.c",
        "atomic_load_explicit(&registry[device], memory_order_acquire)",
        "The pointer is compared and not followed.",
    ),
    (
        CACHE_H,
        "atomic_load_explicit(&cache->closed, memory_order_acquire)",
        "A flag: the cache is looked at again inside.",
    ),
    (
        "src/pool/snapshot.c",
        "atomic_load_explicit(&node->state, memory_order_acquire)",
        "A snapshot reads the state again.",
    ),
    (
        NODE_H,
        "__atomic_load_n(&node->requested, __ATOMIC_ACQUIRE)",
        "A figure: who does not own the block checks its state afterwards.",
    ),
    (NODE_H, "__atomic_load_n(&node->alignment_log, __ATOMIC_ACQUIRE)", "As the requested bytes."),
    (
        NODE_H,
        "__atomic_store_n(&node->requested, requested, __ATOMIC_RELEASE)",
        "As the load of the requested bytes.",
    ),
    (
        NODE_H,
        "__atomic_store_n(&node->alignment_log, (uint8_t)__builtin_ctzll(alignment),"
        " __ATOMIC_RELEASE)",
        "As the load of the requested bytes.",
    ),
    (
        NODE_H,
        "__atomic_store_n(link, index, __ATOMIC_RELEASE)",
        "It shares memory with the requested bytes.",
    ),
    (
        "src/trace/binary_records.c",
        "__atomic_store_n(&record->check, fresh.check, __ATOMIC_RELEASE)",
        "For a process that is killed; readers check the record.",
    ),
    (BARRIER_H, "atomic_signal_fence(memory_order_seq_cst)", "For the compiler alone."),
    (ROWS_C, "atomic_signal_fence(memory_order_seq_cst)", "For the compiler alone."),
    (
        "src/trace/binary_chunks.c",
        "atomic_signal_fence(memory_order_seq_cst)",
        "For the compiler alone: a process that is killed leaves a whole header.",
    ),
]

# --- all -----------------------------------------------------------------------------------------------

MODELS = [
    pool_lock, pool_lock_urgent, thread_cache_by_barrier, thread_cache_by_itself, last_freed,
    node_claim, addresses_grow, addresses_add, addresses_reuse, *PUBLICATIONS, registered_streams,
    reference_count, reference_count_fast, nrt_counts, nrt_shared_counts, nrt_peak,
    binary_ring(True), binary_ring(False),
]  # fmt: skip
