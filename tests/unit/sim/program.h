/* program.h -- generate programs, and a plain model of the order of their operations.
 *
 * The model knows for each operation the set of all operations before it. It shares no
 * code with the vector clocks of the simulator. property.c runs the programs.
 */
#ifndef TARN_TESTS_SIM_PROGRAM_H
#define TARN_TESTS_SIM_PROGRAM_H

#include "test.h"
#include "base/random.h"

enum {
    STREAMS = 6, /* the two legacy ones, and up to four more */
    SLOTS = 4,
    CELLS = 2, /* halves of a slot: each has one value */
    WORDS = 64,
    CELL_BYTES = WORDS * 4,
    SLOT_BYTES = CELLS * CELL_BYTES,
    ACTIONS = 220,
    NODES = 256,
    RESULTS = 32,
    VALUES = 62,
};
#define ANYTHING ((uint64_t)1 << 63) /* the previous contents of memory */

enum kind {
    ALLOC,
    ALLOC_NOW,
    FREE,
    FREE_NOW,
    SET,
    COPY,
    READ,
    READ_NOW,
    RECORD,
    WAIT,
    SYNC_STREAM,
    SYNC_EVENT,
    SYNC_CONTEXT,
    POLL_STREAM,
};

struct action {
    enum kind kind;
    int stream, slot, from, event, result;
    unsigned cells; /* a bit each */
    unsigned value;
};

/* Nodes of the model that come before another one. */
struct set {
    uint64_t bits[NODES / 64];
};

/* A node that reads or writes cells of a slot, in one of its lifetimes. */
struct access {
    int node, generation, action;
    unsigned cells;
    bool is_write;
};

struct program {
    int streams, devices;
    bool is_blocking[STREAMS];
    int device[STREAMS];
    struct action actions[ACTIONS];
    int count, results, events;
    bool is_short; /* of capacity: no further node is generated */

    struct set before[NODES];
    int stream_of[NODES]; /* -1: the host */
    int nodes;
    int last[STREAMS]; /* node of each stream; -1: none */
    int last_host;
    struct access accesses[ACTIONS * 2];
    int access_count;

    int generation[SLOTS]; /* 0: not allocated */
    int generations;
    unsigned written[SLOTS]; /* cells that hold a value, */
    unsigned value[SLOTS][CELLS];
    unsigned values;
    unsigned right[RESULTS][CELLS];   /* the result of a read; 0: not read */
    uint64_t allowed[RESULTS][CELLS]; /* the values that it may show, one bit each */

    int bug_in;   /* conflicts until the one that stays; 0: no bug requested */
    bool is_bad;  /* it has stayed */
    bool is_wild; /* and was about freed memory, so it may contain anything */
};

static struct program program;
static uint64_t random_state;

static unsigned below(unsigned limit)
{
    return (unsigned)tarn__random_below(&random_state, limit);
}

/* --- the model --- */

static bool has(const struct set *set, int node)
{
    return set->bits[node / 64] >> (node % 64) & 1;
}

static void add(struct set *set, int node)
{
    if (node < 0)
        return;
    set->bits[node / 64] |= (uint64_t)1 << (node % 64);
    for (int i = 0; i < NODES / 64; i++)
        set->bits[i] |= program.before[node].bits[i];
}

static bool is_legacy(int stream)
{
    return stream < 2;
}

/* All nodes before the next operation on `stream`; -1: before the host's next one. */
static struct set before_now(int stream)
{
    struct set set = {{0}};

    add(&set, program.last_host);
    if (stream < 0)
        return set;
    add(&set, program.last[stream]);
    for (int other = 0; other < program.streams; other++)
        if (program.device[other] == program.device[stream] &&
            program.is_blocking[stream] && program.is_blocking[other] &&
            (is_legacy(stream) || is_legacy(other)))
            add(&set, program.last[other]);
    return set;
}

static int new_node(int stream)
{
    int node = program.nodes++;

    CHECK(node < NODES);
    program.before[node] = before_now(stream);
    program.stream_of[node] = stream;
    if (stream < 0)
        program.last_host = node;
    else
        program.last[stream] = node;
    return node;
}

/* Add a node with a position in its stream. Unless the stream is the legacy one, the
 * default stream's rules do not apply to it. */
static int new_place(int stream)
{
    bool was_blocking = program.is_blocking[stream];

    program.is_blocking[stream] = was_blocking && is_legacy(stream);
    int node = new_node(stream);
    program.is_blocking[stream] = was_blocking;
    return node;
}

/* The host has waited for `stream`. If that is the legacy stream, it has waited for all
 * blocking streams; the reverse does not hold. */
static void host_waits(int stream)
{
    struct set waited = before_now(stream);
    int node = new_node(-1);

    add(&program.before[node], program.last[stream]);
    for (int i = 0; i < NODES / 64 && is_legacy(stream); i++)
        program.before[node].bits[i] |= waited.bits[i];
}

static void host_waits_for_device(int device)
{
    int node = new_node(-1);

    for (int stream = 0; stream < program.streams; stream++)
        if (program.device[stream] == device)
            add(&program.before[node], program.last[stream]);
}

/* --- the generator --- */

static int any_stream(void)
{
    int stream = (int)below((unsigned)program.streams);

    return program.devices == 1 && stream == 1 ? 0 : stream;
}

static struct action *act(enum kind kind, int stream)
{
    struct action *action = &program.actions[program.count++];

    *action = (struct action){.kind = kind, .stream = stream};
    program.is_short = program.count > ACTIONS - 60 || program.nodes > NODES - 90;
    return action;
}

static int record(int stream)
{
    act(RECORD, stream)->event = program.events;
    new_node(stream);
    return program.events++;
}

/* Order all queued work of `from` before the next operation of `to` (-1: the host). */
static void put_wait(int from, int to)
{
    switch (below(to < 0 ? 4 : 7)) {
    case 0:
        act(SYNC_STREAM, from);
        host_waits(from);
        break;
    case 1:
        act(POLL_STREAM, from);
        host_waits(from);
        break;
    case 2:
        act(SYNC_CONTEXT, from);
        host_waits_for_device(program.device[from]);
        break;
    case 3: {
        int event = record(from);
        act(SYNC_EVENT, from)->event = event;
        int node = new_node(-1);
        add(&program.before[node], program.last[from]);
        break;
    }
    default: {
        int event = record(from), recorded = program.last[from];
        act(WAIT, to)->event = event;
        add(&program.before[new_place(to)], recorded);
    }
    }
}

/* An access that no wait orders before the next operation of `stream` on these cells. */
static const struct access *find_conflict(int stream, int generation, unsigned cells,
                                          bool is_write)
{
    struct set before = before_now(stream);

    for (int i = 0; i < program.access_count; i++) {
        const struct access *access = &program.accesses[i];
        if (access->generation == generation && access->cells & cells &&
            (is_write || access->is_write) && !has(&before, access->node))
            return access;
    }
    return NULL;
}

/* Add the required waits, except for the bug. */
static void settle(int stream, int slot, unsigned cells, bool is_write)
{
    const struct access *conflict;

    while (
        (conflict = find_conflict(stream, program.generation[slot], cells, is_write))) {
        if (program.bug_in > 0 && stream >= 0 && --program.bug_in == 0)
            return;
        put_wait(program.stream_of[conflict->node], stream);
    }
}

static void record_access(int node, int slot, unsigned cells, bool is_write)
{
    program.accesses[program.access_count++] = (struct access){
        node, program.generation[slot], program.count - 1, cells, is_write};
}

static void allocate(int slot)
{
    int stream = any_stream();
    bool is_now = below(4) == 0;

    program.generation[slot] = ++program.generations;
    program.written[slot] = 0;
    act(is_now ? ALLOC_NOW : ALLOC, stream)->slot = slot;
    if (is_now) {
        record_access(new_node(-1), slot, 3, true);
        return;
    }
    /* A position in its stream, and no barrier on the default one. */
    bool was_blocking = program.is_blocking[stream];
    program.is_blocking[stream] = false;
    record_access(new_node(stream), slot, 3, true);
    program.is_blocking[stream] = was_blocking;
}

/* cuMemFree waits for the device of the memory, but for no other; for a pool's memory it
 * would not wait. */
static void free_slot(int slot)
{
    int stream = any_stream();
    const struct action *allocation = NULL;

    for (int i = 0; i < program.count; i++)
        if ((program.actions[i].kind == ALLOC || program.actions[i].kind == ALLOC_NOW) &&
            program.actions[i].slot == slot)
            allocation = &program.actions[i];
    if (allocation->kind == ALLOC_NOW) {
        host_waits_for_device(program.device[allocation->stream]);
        settle(-1, slot, 3, true);
        act(FREE_NOW, allocation->stream)->slot = slot;
        new_node(-1);
    } else {
        settle(stream, slot, 3, true);
        act(FREE, stream)->slot = slot;
        record_access(new_node(stream), slot, 3, true);
    }
    program.generation[slot] = 0;
}

static void set(int slot, int stream, unsigned cells)
{
    if (program.values == VALUES)
        return;
    settle(stream, slot, cells, true);
    struct action *action = act(SET, stream);
    action->slot = slot;
    action->cells = cells;
    action->value = ++program.values;
    record_access(new_node(stream), slot, cells, true);
    program.written[slot] |= cells;
    for (int cell = 0; cell < CELLS; cell++)
        if (cells >> cell & 1)
            program.value[slot][cell] = action->value;
}

static void copy(int to, int from, int stream, unsigned cells)
{
    settle(stream, from, cells, false);
    settle(stream, to, cells, true);
    struct action *action = act(COPY, stream);
    action->slot = to;
    action->from = from;
    action->cells = cells;
    int node = new_node(stream);
    record_access(node, from, cells, false);
    record_access(node, to, cells, true);
    program.written[to] |= cells;
    for (int cell = 0; cell < CELLS; cell++)
        if (cells >> cell & 1)
            program.value[to][cell] = program.value[from][cell];
}

static void read_slot(int slot, int stream, unsigned cells)
{
    bool is_now = below(5) == 0;

    if (program.results == RESULTS)
        return;
    if (is_now)
        stream = program.device[stream]; /* its default stream */
    settle(stream, slot, cells, false);
    struct action *action = act(is_now ? READ_NOW : READ, stream);
    action->slot = slot;
    action->cells = cells;
    action->result = program.results++;
    record_access(new_node(stream), slot, cells, false);
    if (is_now)
        host_waits(stream);
    for (int cell = 0; cell < CELLS; cell++)
        if (cells >> cell & 1)
            program.right[action->result][cell] = program.value[slot][cell];
}

static void generate_one(void)
{
    int slot = (int)below(SLOTS), from = (int)below(SLOTS), stream = any_stream();
    unsigned cells = 1 + below(3), what = below(20);

    if (program.generation[slot] == 0) {
        allocate(slot);
        set(slot, stream, 3);
    } else if (what < 2) {
        free_slot(slot);
    } else if (what < 8) {
        set(slot, stream, cells);
    } else if (what < 13 && from != slot && program.generation[from] &&
               (program.written[from] & cells) == cells) {
        copy(slot, from, stream, cells);
    } else if (what < 18 && (program.written[slot] & cells) == cells) {
        read_slot(slot, stream, cells);
    } else if (what == 18) {
        put_wait(stream, any_stream());
    }
}

/* Nothing is pending at the end, so that the last frees are no part of the test. */
static void finish(void)
{
    for (int device = 0; device < program.devices; device++) {
        act(SYNC_CONTEXT, device);
        host_waits_for_device(device);
    }
    for (int slot = 0; slot < SLOTS; slot++)
        if (program.generation[slot])
            free_slot(slot);
    for (int device = 0; device < program.devices; device++)
        act(SYNC_CONTEXT, device);
}

static bool is_about_memory(const struct access *access)
{
    enum kind kind = program.actions[access->action].kind;

    return kind == ALLOC || kind == FREE;
}

/* A wait with another purpose may replace a wait that was left out. */
static void find_bugs(void)
{
    for (int i = 0; i < program.access_count; i++)
        for (int k = 0; k < i; k++) {
            const struct access *now = &program.accesses[i], *then = &program.accesses[k];
            if (now->generation != then->generation || !(now->cells & then->cells) ||
                now->node == then->node || (!now->is_write && !then->is_write) ||
                has(&program.before[now->node], then->node))
                continue;
            program.is_bad = true;
            program.is_wild |= is_about_memory(now) || is_about_memory(then);
        }
}

static void generate(uint64_t seed, bool wants_bug)
{
    memset(&program, 0, sizeof program);
    random_state = seed;
    program.devices = below(4) == 0 ? 2 : 1;
    program.streams = 3 + (int)below(STREAMS - 2);
    program.last_host = -1;
    for (int stream = 0; stream < program.streams; stream++) {
        program.last[stream] = -1;
        program.is_blocking[stream] = is_legacy(stream) || below(2) == 0;
        program.device[stream] =
            is_legacy(stream) ? stream : (int)below((unsigned)program.devices);
    }
    program.bug_in = wants_bug ? 1 + (int)below(8) : 0;
    for (unsigned steps = 8 + below(40); steps > 0 && !program.is_short; steps--)
        generate_one();
    finish();
    find_bugs();
}

/* --- possible results of a program with a bug --- */

/* Return whether `reader` may see the value of `writer` in the cells, or whether there is
 * a write between. */
static bool may_see(const struct access *reader, const struct access *writer,
                    unsigned cell)
{
    const struct set *before = &program.before[reader->node];

    if (!writer->is_write || writer->generation != reader->generation ||
        writer->node == reader->node || !(writer->cells >> cell & 1) ||
        has(&program.before[writer->node], reader->node))
        return false;
    for (int i = 0; i < program.access_count; i++) {
        const struct access *other = &program.accesses[i];
        if (other->is_write && other->generation == writer->generation &&
            other->cells >> cell & 1 && has(&program.before[other->node], writer->node) &&
            has(before, other->node))
            return false;
    }
    return true;
}

/* The values that each write leaves: a copy leaves every value that it may have read. */
static uint64_t written_values[ACTIONS * 2][CELLS];

static uint64_t seen_by(const struct access *reader, unsigned cell)
{
    uint64_t seen = 0;

    for (int i = 0; i < program.access_count; i++)
        if (may_see(reader, &program.accesses[i], cell))
            seen |= written_values[i][cell];
    return seen;
}

static uint64_t value_after(const struct access *access, unsigned cell)
{
    const struct action *action = &program.actions[access->action];

    if (action->kind == SET)
        return (uint64_t)1 << action->value;
    return action->kind == COPY ? seen_by(access - 1, cell) : ANYTHING;
}

static void find_allowed(void)
{
    bool changed = true;

    memset(written_values, 0, sizeof written_values);
    while (changed) {
        changed = false;
        for (int i = 0; i < program.access_count; i++)
            for (unsigned cell = 0; cell < CELLS; cell++) {
                const struct access *access = &program.accesses[i];
                if (!access->is_write || !(access->cells >> cell & 1))
                    continue;
                uint64_t now = value_after(access, cell);
                changed |= now != written_values[i][cell];
                written_values[i][cell] = now;
            }
    }
    for (int i = 0; i < program.access_count; i++) {
        const struct action *action = &program.actions[program.accesses[i].action];
        for (unsigned cell = 0; cell < CELLS; cell++)
            if ((action->kind == READ || action->kind == READ_NOW) &&
                action->cells >> cell & 1)
                program.allowed[action->result][cell] =
                    seen_by(&program.accesses[i], cell);
    }
}

/* Return whether some read has more than one possible answer. */
static bool can_show(void)
{
    for (int result = 0; result < program.results; result++)
        for (int cell = 0; cell < CELLS; cell++) {
            uint64_t allowed = program.allowed[result][cell];
            if (allowed & (allowed - 1))
                return true;
        }
    return false;
}

#endif
