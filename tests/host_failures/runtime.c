/* Test counted blocks, snapshots and call stacks with each host allocation failing. */
#include "scenario.h"
#include <tarn/guard.h>
#include <tarn/nrt.h>
#include <pthread.h>

static tarn_runtime *runtime;
static unsigned modes;

static tarn_status create(void)
{
    return tarn_runtime_create("test", &out.runtime);
}

static void end_created(void)
{
    CHECK_OK(tarn_runtime_release(out.runtime));
}

static void begin_runtime(void)
{
    CHECK_OK(tarn_runtime_create("test", &runtime));
    if (modes)
        CHECK_OK(tarn_runtime_set_modes(runtime, modes));
}

static void end_runtime(void)
{
    CHECK_OK(tarn_runtime_release(runtime));
}

static tarn_status make_blocks(void)
{
    static const size_t sizes[] = {0, 8, 100, 700, 5000, 70000};
    tarn_meminfo *blocks[12];
    tarn_status status = TARN_OK;
    int count = 0;

    for (; count < 12; count++) {
        tarn_meminfo_options options = {.size = sizeof options,
                                        .bytes = sizes[count % 6],
                                        .alignment = count < 6 ? 0 : 64};
        blocks[count] = NULL;
        status = tarn_meminfo_allocate(runtime, &options, &blocks[count]);
        if (status != TARN_OK)
            break;
        memset(tarn_meminfo_data(blocks[count]), 1, sizes[count % 6]);
    }
    while (count-- > 0)
        tarn_meminfo_release(blocks[count]);
    return status;
}

static tarn_status make_own(void)
{
    static char memory[16];
    tarn_meminfo *made = NULL;
    tarn_status status =
        tarn_meminfo_create(runtime, memory, sizeof memory, NULL, NULL, &made);

    CHECK((status == TARN_OK) == (made != NULL));
    if (made)
        tarn_meminfo_release(made);
    return status;
}

static tarn_status snapshot(void)
{
    return tarn_nrt_snapshot_take(runtime, &out.snapshot);
}

static void end_snapshot(void)
{
    tarn_nrt_snapshot_release(out.snapshot);
    end_runtime();
}

static tarn_status compare(void)
{
    tarn_nrt_snapshot *before = NULL, *after = NULL, *difference = NULL;
    tarn_status status = tarn_nrt_snapshot_take(runtime, &before);

    if (status == TARN_OK)
        status = tarn_nrt_snapshot_take(runtime, &after);
    if (status == TARN_OK)
        status = tarn_nrt_snapshot_difference(before, after, &difference);
    CHECK((status == TARN_OK) == (difference != NULL));
    tarn_nrt_snapshot_release(before);
    tarn_nrt_snapshot_release(after);
    tarn_nrt_snapshot_release(difference);
    return status;
}

/* By Numba's names, from the default runtime: NULL is all that they can say. */
static tarn_status call_by_names(void)
{
    void *raw = NRT_Allocate(100), *grown = raw ? NRT_Reallocate(raw, 5000) : NULL;
    NRT_MemInfo *varsize = NRT_MemInfo_new_varsize(100);
    void *data = varsize ? NRT_MemInfo_varsize_realloc(varsize, 90000) : NULL;
    NRT_MemInfo *safe = NRT_MemInfo_alloc_safe_aligned(300, 32);
    bool all = grown && data && safe;

    if (raw)
        NRT_Free(grown ? grown : raw);
    if (varsize)
        NRT_MemInfo_release(varsize);
    if (safe)
        NRT_MemInfo_release(safe);
    return null_is_no_memory(all ? raw : NULL);
}

static tarn_status enable_modes(void)
{
    unsigned before = tarn_runtime_modes(runtime);
    tarn_status status = tarn_runtime_set_modes(runtime, before | TARN_NRT_SITES);

    if (status != TARN_OK)
        CHECK_EQUAL(before, tarn_runtime_modes(runtime));
    return status;
}

/* A new thread has no shard. */
static void *make_in_thread(void *data)
{
    *(tarn_status *)data = make_blocks();
    return NULL;
}

static tarn_status use_thread(void)
{
    tarn_status status = TARN_OK;
    pthread_t thread;

    CHECK_EQUAL(0, pthread_create(&thread, NULL, make_in_thread, &status));
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    return status == TARN_OK ? status : null_is_no_memory(NULL);
}

TEST(counted_blocks_are_made_or_not)
{
    static const struct scenario scenarios[] = {
        {"tarn_runtime_create", NULL, create, end_created},
        {"tarn_meminfo_allocate", begin_runtime, make_blocks, end_runtime},
        {"tarn_meminfo_create", begin_runtime, make_own, end_runtime},
        {"tarn_nrt_snapshot_take", begin_runtime, snapshot, end_snapshot},
        {"tarn_nrt_snapshot_difference", begin_runtime, compare, end_runtime},
        {"tarn_runtime_set_modes", begin_runtime, enable_modes, end_runtime},
        {"a thread", begin_runtime, use_thread, end_runtime},
        {"NRT_Allocate", NULL, call_by_names, NULL},
    };
    static const unsigned all[] = {0, TARN_NRT_SITES, TARN_NRT_GUARD | TARN_NRT_POISON,
                                   TARN_NRT_QUARANTINE};

    for (size_t mode = 0; mode < sizeof all / sizeof *all; mode++) {
        modes = all[mode];
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
            scenario_run(&scenarios[i], scenarios[i].call != enable_modes);
    }
}
