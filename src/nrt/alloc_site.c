/* alloc_site.c -- allocation sites of live blocks: a table of sites, each with two
 * counters.
 *
 * A site is a return address and the current label, in one instance. A block that is
 * allocated while TARN_NRT_SITES is on keeps the number of its site in 16 bits of its
 * header. All instances share one table, which never shrinks and is read without a lock.
 * A site that does not fit into the table is not counted, and its blocks are unknown (0).
 */
#include "nrt/alloc_site.h"
#include <stdlib.h>

enum { SITES = 65536, PROBES = 64 };

struct site {
    atomic_bool ready; /* the next three are set, and do not change */
    uint8_t runtime;
    const void *caller;
    const char *label;
    atomic_llong blocks, bytes; /* live now */
};

static struct {
    pthread_mutex_t lock;         /* for new sites */
    _Atomic(struct site *) table; /* SITES of them; made at the first use, never freed */
} sites = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local const char *thread_label;

const char *tarn_nrt_set_label(const char *label)
{
    const char *before = thread_label;

    thread_label = label;
    return before;
}

void tarn__alloc_site_lock(void)
{
    pthread_mutex_lock(&sites.lock);
}

void tarn__alloc_site_unlock(void)
{
    pthread_mutex_unlock(&sites.lock);
}

/* Any number from 1 to SITES - 1. */
static unsigned hash(unsigned runtime, const void *caller, const char *label)
{
    uint64_t mixed = (uintptr_t)caller * UINT64_C(0x9e3779b97f4a7c15);

    mixed ^= ((uintptr_t)label + runtime) * UINT64_C(0xc2b2ae3d27d4eb4f);
    mixed ^= mixed >> 29;
    return (unsigned)((mixed * UINT64_C(0x9e3779b97f4a7c15) >> 48) % (SITES - 1)) + 1;
}

static bool is_place(const struct site *site, unsigned runtime, const void *caller,
                     const char *label)
{
    return site->runtime == runtime && site->caller == caller && site->label == label;
}

static unsigned step(unsigned number)
{
    return number + 1 < SITES ? number + 1 : 1;
}

/* The number of a site in the table; 0: it is not there. `*free_out`: a place for it, or
 * 0. */
static unsigned find(struct site *table, unsigned runtime, const void *caller,
                     const char *label, unsigned *free_out)
{
    unsigned number = hash(runtime, caller, label);

    *free_out = 0;
    for (int i = 0; i < PROBES; i++, number = step(number)) {
        if (!atomic_load_explicit(&table[number].ready, memory_order_acquire)) {
            *free_out = number;
            return 0;
        }
        if (is_place(&table[number], runtime, caller, label))
            return number;
    }
    return 0;
}

static struct site *table_made(void)
{
    struct site *table = atomic_load_explicit(&sites.table, memory_order_acquire);

    if (table)
        return table;
    tarn__alloc_site_lock();
    table = atomic_load(&sites.table);
    if (!table) {
        table = calloc(SITES, sizeof *table);
        atomic_store_explicit(&sites.table, table, memory_order_release);
    }
    tarn__alloc_site_unlock();
    return table;
}

/* A site that was not found: look again under the lock, and insert it. */
static unsigned insert(struct site *table, unsigned runtime, const void *caller,
                       const char *label)
{
    unsigned place;

    tarn__alloc_site_lock();
    unsigned number = find(table, runtime, caller, label, &place);
    if (!number && place) {
        number = place;
        table[number].runtime = (uint8_t)runtime;
        table[number].caller = caller;
        table[number].label = label;
        atomic_store_explicit(&table[number].ready, true, memory_order_release);
    }
    tarn__alloc_site_unlock();
    return number;
}

unsigned tarn__alloc_site_enter(const tarn_runtime *runtime, const void *caller,
                                const char *label, size_t bytes)
{
    struct site *table = table_made();
    unsigned place;

    if (!table)
        return 0;
    label = label ? label : thread_label;
    unsigned number = find(table, runtime->index, caller, label, &place);
    if (!number && place)
        number = insert(table, runtime->index, caller, label);
    if (number) {
        atomic_fetch_add_explicit(&table[number].blocks, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&table[number].bytes, (long long)bytes,
                                  memory_order_relaxed);
    }
    return number;
}

void tarn__alloc_site_leave(unsigned number, size_t bytes)
{
    struct site *site = &atomic_load(&sites.table)[number];

    atomic_fetch_sub_explicit(&site->blocks, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&site->bytes, (long long)bytes, memory_order_relaxed);
}

void tarn__alloc_site_resize(unsigned number, size_t before, size_t after)
{
    struct site *site = &atomic_load(&sites.table)[number];

    atomic_fetch_add_explicit(&site->bytes, (long long)after - (long long)before,
                              memory_order_relaxed);
}

bool tarn__alloc_site_read(const tarn_runtime *runtime, unsigned number,
                           tarn_nrt_site *out)
{
    struct site *table = atomic_load_explicit(&sites.table, memory_order_acquire);

    if (!table || number >= SITES ||
        !atomic_load_explicit(&table[number].ready, memory_order_acquire) ||
        table[number].runtime != runtime->index)
        return false;
    *out = (tarn_nrt_site){.address = table[number].caller,
                           .label = table[number].label,
                           .blocks = atomic_load(&table[number].blocks),
                           .bytes = atomic_load(&table[number].bytes)};
    return true;
}

unsigned tarn__alloc_site_count(void)
{
    return SITES;
}
