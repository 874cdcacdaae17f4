/* facts.c -- facts about a core of the runtime; see facts.h. */
#include "facts.h"
#include <string.h>

#define HOLDS(condition)       \
    do {                       \
        if (!(condition))      \
            return #condition; \
    } while (0)

/* Far more than available, and yet no sum overflows. */
#define HUGE_SIZE ((size_t)1 << 61)

/* Fields that compiled code and debuggers read. */
static size_t word_at(const NRT_MemInfo *mi, size_t offset)
{
    size_t word;

    memcpy(&word, (const char *)mi + offset, sizeof word);
    return word;
}

static bool is_filled(const void *data, size_t size, unsigned char byte)
{
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *)data)[i] != byte)
            return false;
    return true;
}

/* Check that the four counters grew by these amounts. */
static bool grew(const struct nrt_core *core, const uint64_t before[4], uint64_t alloc,
                 uint64_t free, uint64_t mi_alloc, uint64_t mi_free)
{
    uint64_t after[4];

    core->stats(after);
    return after[0] - before[0] == alloc && after[1] - before[1] == free &&
           after[2] - before[2] == mi_alloc && after[3] - before[3] == mi_free;
}

static struct {
    int calls;
    void *data;
    size_t size;
    void *info;
    unsigned char first; /* of the data, at the call */
} seen;

static void note(void *data, size_t size, void *info)
{
    seen.calls++;
    seen.data = data;
    seen.size = size;
    seen.info = info;
    seen.first = data ? *(unsigned char *)data : 0;
}

static int elements_seen;

static void note_elements(void *data, size_t size, void *info)
{
    (void)data;
    (void)size;
    (void)info;
    elements_seen++;
}

/* --- facts of both cores ------------------------------------------------------------ */

static const char *a_block_has_one_reference_and_its_data(const struct nrt_core *core)
{
    NRT_MemInfo *mi = core->alloc(100);

    HOLDS(mi);
    HOLDS(word_at(mi, 0) == 1);
    HOLDS(word_at(mi, 24) == (size_t)core->data(mi));
    HOLDS(word_at(mi, 32) == 100);
    memset(core->data(mi), 1, 100);
    core->release(mi);
    return NULL;
}

static const char *a_block_is_one_of_each_counter(const struct nrt_core *core)
{
    uint64_t before[4];

    core->stats(before);
    NRT_MemInfo *mi = core->alloc(8);
    HOLDS(grew(core, before, 1, 0, 1, 0));
    core->release(mi);
    return NULL;
}

static const char *raw_memory_is_no_meminfo(const struct nrt_core *core)
{
    uint64_t before[4];

    core->stats(before);
    void *raw = core->allocate(1000);
    HOLDS(raw);
    memset(raw, 1, 1000);
    HOLDS(grew(core, before, 1, 0, 0, 0));
    core->free(raw);
    return NULL;
}

static const char *a_varsize_block_is_two(const struct nrt_core *core)
{
    uint64_t before[4];

    core->stats(before);
    NRT_MemInfo *mi = core->new_varsize(50);
    HOLDS(mi);
    HOLDS(grew(core, before, 2, 0, 1, 0));
    memset(core->data(mi), 7, 50);
    HOLDS(core->varsize_realloc(mi, 5000) == core->data(mi));
    HOLDS(is_filled(core->data(mi), 50, 7));
    core->release(mi);
    return NULL;
}

static const char *varsize_memory_is_exchanged_by_the_caller(const struct nrt_core *core)
{
    NRT_MemInfo *mi = core->new_varsize(50);
    void *old = core->data(mi);
    HOLDS(core->varsize_alloc(mi, 60) == core->data(mi));
    HOLDS(core->data(mi) != old);
    core->varsize_free(mi, old);
    core->varsize_free(mi, core->data(mi));
    HOLDS(core->data(mi) == NULL);
    HOLDS(core->varsize_alloc(mi, 70));
    core->release(mi);
    return NULL;
}

static const char *elements_are_destroyed_with_their_list(const struct nrt_core *core)
{
    NRT_MemInfo *mi = core->new_varsize_dtor(50, note_elements);

    elements_seen = 0;
    HOLDS(mi);
    core->release(mi);
    HOLDS(elements_seen == 1);
    return NULL;
}

static const char *a_destructor_gets_data_size_and_null(const struct nrt_core *core)
{
    NRT_MemInfo *mi = core->alloc_dtor(24, note);
    void *data = core->data(mi);

    memset(&seen, 0, sizeof seen);
    memset(data, 5, 24);
    core->release(mi);
    HOLDS(seen.calls == 1 && seen.data == data && seen.size == 24 && !seen.info);
    HOLDS(seen.first == 5);
    return NULL;
}

static const char *safe_blocks_begin_with_cb(const struct nrt_core *core)
{
    NRT_MemInfo *plain = core->alloc_safe(33),
                *aligned = core->alloc_safe_aligned(33, 64);

    memset(&seen, 0, sizeof seen);
    HOLDS(is_filled(core->data(plain), 33, 0xCB));
    HOLDS(is_filled(core->data(aligned), 33, 0xCB));
    HOLDS((uintptr_t)core->data(aligned) % 64 == 0);
    core->release(plain);
    core->release(aligned);
    NRT_MemInfo *with = core->alloc_dtor_safe(33, note);
    core->release(with);
    HOLDS(seen.calls == 1 && seen.first == 0xCB);
    return NULL;
}

static const char *data_are_aligned_as_requested(const struct nrt_core *core)
{
    static const unsigned alignments[] = {1, 2, 8, 16, 24, 32, 33, 64, 100, 128, 4096};

    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++)
        for (size_t size = 0; size < 3000; size += 331) {
            NRT_MemInfo *mi = core->alloc_aligned(size, alignments[i]);
            HOLDS(mi);
            HOLDS((uintptr_t)core->data(mi) % alignments[i] == 0);
            memset(core->data(mi), 1, size);
            core->release(mi);
        }
    return NULL;
}

static const char *compiled_code_counts_by_itself(const struct nrt_core *core)
{
    NRT_MemInfo *mi = core->alloc_dtor(8, note);
    size_t *count = (size_t *)(void *)mi;

    memset(&seen, 0, sizeof seen);
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
    core->release(mi);
    HOLDS(seen.calls == 0);
    HOLDS(__atomic_fetch_sub(count, 1, __ATOMIC_ACQ_REL) == 1);
    core->call_dtor(mi);
    HOLDS(seen.calls == 1);
    return NULL;
}

static int managed_seen;

static void note_managed(void *data)
{
    managed_seen += data == &managed_seen;
}

static const char *the_table_has_six_functions(const struct nrt_core *core)
{
    const NRT_api_functions *api = core->get_api();
    NRT_MemInfo *mi = api->manage_memory(&managed_seen, note_managed);

    managed_seen = 0;
    HOLDS(api->get_data(mi) == &managed_seen);
    api->acquire(mi);
    HOLDS(word_at(mi, 0) == 2);
    api->release(mi);
    HOLDS(managed_seen == 0);
    api->release(mi);
    HOLDS(managed_seen == 1);
    mi = api->allocate(16);
    HOLDS(mi && api->get_data(mi) == core->data(mi));
    core->release(mi);
    HOLDS(core->get_api() == api);
    return NULL;
}

static int given, taken; /* by the allocator below */

static void *give(size_t size, void *opaque)
{
    given += opaque == &given;
    return malloc(size);
}

static void take(void *ptr, void *opaque)
{
    taken += opaque == &given;
    free(ptr);
}

static const char *an_external_allocator_frees_its_block(const struct nrt_core *core)
{
    static NRT_ExternalAllocator allocator = {give, NULL, take, &given};
    const NRT_api_functions *api = core->get_api();

    given = taken = 0;
    NRT_MemInfo *mi = api->allocate_external(77, &allocator);
    HOLDS(mi && given == 1);
    HOLDS(word_at(mi, 40) == (size_t)&allocator);
    memset(api->get_data(mi), 1, 77);
    api->release(mi);
    HOLDS(taken == 1);
    mi = core->alloc_safe_aligned_external(77, 256, &allocator);
    HOLDS(mi && given == 2 && (uintptr_t)core->data(mi) % 256 == 0);
    HOLDS(is_filled(core->data(mi), 77, 0xCB));
    core->release(mi);
    HOLDS(taken == 2);
    return NULL;
}

static const char *too_much_is_null(const struct nrt_core *core)
{
    HOLDS(!core->alloc(HUGE_SIZE));
    HOLDS(!core->alloc_aligned(HUGE_SIZE, 32));
    HOLDS(!core->allocate(HUGE_SIZE));
    HOLDS(!core->new_varsize(HUGE_SIZE));
    return NULL;
}

/* --- defects of Numba's core -------------------------------------------------------- */

static const char *sizes_do_not_wrap(const struct nrt_core *core)
{
    HOLDS(!core->alloc(SIZE_MAX - 39));
    HOLDS(!core->alloc_dtor(SIZE_MAX, note));
    return NULL;
}

static const char *sizes_with_alignment_do_not_wrap(const struct nrt_core *core)
{
    HOLDS(!core->alloc_aligned(SIZE_MAX - 9, 32));
    HOLDS(!core->alloc_aligned(SIZE_MAX - 200, 4096));
    return NULL;
}

static const char *sizes_of_filled_blocks_do_not_wrap(const struct nrt_core *core)
{
    HOLDS(!core->alloc_safe(SIZE_MAX - 39));
    HOLDS(!core->alloc_safe_aligned(SIZE_MAX - 9, 32));
    return NULL;
}

static const char *alignment_zero_is_none(const struct nrt_core *core)
{
    NRT_MemInfo *mi = core->alloc_aligned(100, 0);
    HOLDS(mi);
    HOLDS((size_t)((char *)core->data(mi) - (char *)mi) < 4096);
    memset(core->data(mi), 1, 100);
    core->release(mi);
    return NULL;
}

static const char *a_failed_realloc_keeps_the_data(const struct nrt_core *core)
{
    NRT_MemInfo *mi = core->new_varsize(50);
    void *old = core->data(mi);

    memset(old, 3, 50);
    HOLDS(!core->varsize_realloc(mi, HUGE_SIZE));
    HOLDS(core->data(mi) == old);
    HOLDS(is_filled(old, 50, 3));
    core->release(mi);
    return NULL;
}

static const char *a_failed_varsize_alloc_keeps_the_data(const struct nrt_core *core)
{
    NRT_MemInfo *mi = core->new_varsize(50);
    void *old = core->data(mi);
    HOLDS(!core->varsize_alloc(mi, HUGE_SIZE));
    HOLDS(core->data(mi) == old);
    core->release(mi);
    return NULL;
}

static const char *a_safe_block_has_no_parent(const struct nrt_core *core)
{
    NRT_MemInfo *mi = core->alloc_safe_aligned(1234, 32);

    HOLDS(word_at(mi, 16) == 0);
    core->release(mi);
    return NULL;
}

static const char *releasing_nothing_is_nothing(const struct nrt_core *core)
{
    core->release(NULL);
    core->call_dtor(NULL);
    return NULL;
}

static const char *failed_allocations_are_not_counted(const struct nrt_core *core)
{
    HOLDS(!core->allocate(HUGE_SIZE));
    HOLDS(!core->alloc(HUGE_SIZE));
    HOLDS(!core->alloc_aligned(HUGE_SIZE, 16));
    return NULL;
}

static const char *freeing_nothing_is_not_counted(const struct nrt_core *core)
{
    core->free(NULL);
    return NULL;
}

static const char *a_second_release_changes_nothing(const struct nrt_core *core)
{
    NRT_MemInfo *mi = core->alloc(64);
    core->release(mi);
    core->release(mi);
    NRT_MemInfo *one = core->alloc(64), *other = core->alloc(64);
    HOLDS(one != other);
    core->release(one);
    core->release(other);
    return NULL;
}

static const char *a_second_destruction_changes_nothing(const struct nrt_core *core)
{
    memset(&seen, 0, sizeof seen);
    NRT_MemInfo *mi = core->alloc_dtor(64, note);
    *(size_t *)(void *)mi = 0;
    core->call_dtor(mi);
    core->call_dtor(mi);
    HOLDS(seen.calls == 1);
    return NULL;
}

/* The same for memory that no code writes after its release, so that the result does not
 * depend on the allocator. */
static char static_memory[1000];

static void *give_static(size_t size, void *opaque)
{
    (void)opaque;
    given++;
    return size <= sizeof static_memory - 64
               ? static_memory + 64 - (uintptr_t)static_memory % 64
               : NULL;
}

static void keep(void *ptr, void *opaque)
{
    (void)ptr;
    (void)opaque;
    taken++;
}

static NRT_ExternalAllocator keeper = {give_static, NULL, keep, NULL};

static const char *a_release_too_many_is_no_reference_less(const struct nrt_core *core)
{
    NRT_MemInfo *mi = core->alloc_safe_aligned_external(64, 16, &keeper);

    HOLDS(mi);
    core->release(mi);
    core->release(mi);
    HOLDS(word_at(mi, 0) == 0);
    return NULL;
}

static const char *memory_is_freed_once(const struct nrt_core *core)
{
    NRT_MemInfo *mi = core->alloc_safe_aligned_external(64, 16, &keeper);

    taken = 0;
    HOLDS(mi);
    *(size_t *)(void *)mi = 0;
    core->call_dtor(mi);
    core->call_dtor(mi);
    HOLDS(taken == 1);
    return NULL;
}

static const char *a_second_free_changes_nothing(const struct nrt_core *core)
{
    void *raw = core->allocate(64);

    core->free(raw);
    core->free(raw);
    return NULL;
}

/* Last: nothing after it observes a destructor. */
static const char *a_shutdown_leaks_no_varsize_memory(const struct nrt_core *core)
{
    NRT_MemInfo *mi = core->new_varsize_dtor(50, note_elements);

    elements_seen = 0;
    core->shutdown();
    core->release(mi);
    HOLDS(elements_seen == 0);
    return NULL;
}

/* --- all facts ---------------------------------------------------------------------- */

static const struct {
    enum nrt_fact_kind kind;
    const char *name;
    const char *(*ask)(const struct nrt_core *core);
    int blocks, meminfos; /* temporary ones; UNKNOWN: they are not counted */
} facts[] = {
#define UNKNOWN (-1)
#define FACT(kind, name, blocks, meminfos) \
    {NRT_FACT_##kind, #name, name, blocks, meminfos}
    FACT(HOLDS, a_block_has_one_reference_and_its_data, 1, 1),
    FACT(HOLDS, a_block_is_one_of_each_counter, 1, 1),
    FACT(HOLDS, raw_memory_is_no_meminfo, 1, 0),
    FACT(HOLDS, a_varsize_block_is_two, 2, 1),
    FACT(HOLDS, varsize_memory_is_exchanged_by_the_caller, 4, 1),
    FACT(HOLDS, elements_are_destroyed_with_their_list, 2, 1),
    FACT(HOLDS, a_destructor_gets_data_size_and_null, 1, 1),
    FACT(HOLDS, safe_blocks_begin_with_cb, 3, 3),
    FACT(HOLDS, data_are_aligned_as_requested, 110, 110),
    FACT(HOLDS, compiled_code_counts_by_itself, 1, 1),
    FACT(HOLDS, the_table_has_six_functions, 2, 2),
    FACT(HOLDS, an_external_allocator_frees_its_block, 2, 2),
    FACT(HOLDS, too_much_is_null, UNKNOWN, UNKNOWN),
    FACT(DEFECT, sizes_do_not_wrap, 0, 0),
    FACT(DEFECT, sizes_with_alignment_do_not_wrap, 0, 0),
    FACT(DEFECT, sizes_of_filled_blocks_do_not_wrap, 0, 0),
    FACT(DEFECT, alignment_zero_is_none, 1, 1),
    FACT(DEFECT, a_failed_realloc_keeps_the_data, 2, 1),
    FACT(DEFECT, a_failed_varsize_alloc_keeps_the_data, 2, 1),
    FACT(DEFECT, a_safe_block_has_no_parent, 1, 1),
    FACT(DEFECT, releasing_nothing_is_nothing, 0, 0),
    FACT(DEFECT, failed_allocations_are_not_counted, 0, 0),
    FACT(DEFECT, freeing_nothing_is_not_counted, 0, 0),
    FACT(BY_LUCK, a_second_release_changes_nothing, 3, 3),
    FACT(DEFECT, a_second_destruction_changes_nothing, 1, 1),
    FACT(DEFECT, a_release_too_many_is_no_reference_less, 1, 1),
    FACT(DEFECT, memory_is_freed_once, 1, 1),
    FACT(DEFECT, a_second_free_changes_nothing, 1, 0),
    FACT(DEFECT, a_shutdown_leaks_no_varsize_memory, 2, 1),
};

size_t nrt_facts(void)
{
    return sizeof facts / sizeof *facts;
}

const char *nrt_fact_name(size_t index)
{
    return facts[index].name;
}

enum nrt_fact_kind nrt_fact_kind(size_t index)
{
    return facts[index].kind;
}

const char *nrt_fact_ask(size_t index, const struct nrt_core *core)
{
    int blocks = facts[index].blocks, meminfos = facts[index].meminfos;
    uint64_t before[4];

    core->stats(before);
    const char *failure = facts[index].ask(core);
    if (failure || blocks == UNKNOWN)
        return failure;
    return grew(core, before, (uint64_t)blocks, (uint64_t)blocks, (uint64_t)meminfos,
                (uint64_t)meminfos)
               ? NULL
               : "the counters did not grow by what came and went";
}
