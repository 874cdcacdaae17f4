/* Check the facts of facts.c on Tarn's core: in its usual state, and in debug modes. */
#include "test.h"
#include "facts.h"

static void read_stats(uint64_t out[4])
{
    tarn_runtime_stats stats = {.size = sizeof stats};

    tarn_runtime_stats_read(tarn_runtime_default(), &stats);
    out[0] = stats.alloc;
    out[1] = stats.free;
    out[2] = stats.mi_alloc;
    out[3] = stats.mi_free;
}

static const struct nrt_core core = {
    NRT_MemInfo_alloc,
    NRT_MemInfo_alloc_safe,
    NRT_MemInfo_alloc_aligned,
    NRT_MemInfo_alloc_safe_aligned,
    NRT_MemInfo_alloc_safe_aligned_external,
    NRT_MemInfo_alloc_dtor,
    NRT_MemInfo_alloc_dtor_safe,
    NRT_MemInfo_call_dtor,
    NRT_MemInfo_new_varsize,
    NRT_MemInfo_new_varsize_dtor,
    NRT_MemInfo_varsize_alloc,
    NRT_MemInfo_varsize_realloc,
    NRT_MemInfo_varsize_free,
    NRT_MemInfo_data,
    NRT_MemInfo_release,
    NRT_Allocate,
    NRT_Free,
    NRT_get_api,
    NRT_MemSys_shutdown,
    read_stats,
};

/* Misuse is part of some facts, and is not printed. */
static void ignore(void *data, const char *message)
{
    (void)data;
    (void)message;
}

static void ask_all(unsigned modes)
{
    CHECK_OK(tarn_runtime_set_modes(tarn_runtime_default(), modes));
    tarn_nrt_set_misuse_handler(ignore, NULL);
    for (size_t i = 0; i < nrt_facts(); i++) {
        const char *seen = nrt_fact_ask(i, &core);
        if (seen)
            fail_msg("modes %u: %s: not so: %s", modes, nrt_fact_name(i), seen);
    }
    NRT_MemSys_init();
    tarn_nrt_set_misuse_handler(NULL, NULL);
    CHECK_OK(tarn_runtime_set_modes(tarn_runtime_default(), 0));
}

/* Slabs by name: under a sanitizer blocks are unpooled otherwise, and some facts free
 * twice. */
TEST(core_has_all_facts)
{
    ask_all(TARN_NRT_SLABS);
}

TEST(core_has_all_facts_with_poison)
{
    ask_all(TARN_NRT_SLABS | TARN_NRT_POISON);
}

TEST(core_has_all_facts_with_guards)
{
    ask_all(TARN_NRT_SLABS | TARN_NRT_GUARD | TARN_NRT_SITES);
}

TEST(core_has_all_facts_with_quarantine)
{
    ask_all(TARN_NRT_QUARANTINE);
}

TEST(core_has_all_facts_with_everything)
{
    ask_all(TARN_NRT_POISON | TARN_NRT_GUARD | TARN_NRT_QUARANTINE | TARN_NRT_SITES |
            TARN_NRT_UNPOOLED);
}
