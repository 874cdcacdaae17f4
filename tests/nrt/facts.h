/* facts.h -- facts about a core of the runtime, checked through a table of its functions.
 *
 * The same facts are checked on Tarn's core (facts_test.c) and on Numba's own
 * (on_numba.py, through `_nrt_python.c_helpers`). All hold on Tarn's.
 */
#ifndef TARN_TESTS_NRT_FACTS_H
#define TARN_TESTS_NRT_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tarn/nrt_external.h>

typedef void nrt_dtor(void *data, size_t size, void *info);

/* In the order of FUNCTIONS in on_numba.py. A NULL is an unavailable function, and facts
 * that need it report that. */
struct nrt_core {
    NRT_MemInfo *(*alloc)(size_t size);
    NRT_MemInfo *(*alloc_safe)(size_t size);
    NRT_MemInfo *(*alloc_aligned)(size_t size, unsigned align);
    NRT_MemInfo *(*alloc_safe_aligned)(size_t size, unsigned align);
    NRT_MemInfo *(*alloc_safe_aligned_external)(size_t size, unsigned align,
                                                NRT_ExternalAllocator *allocator);
    NRT_MemInfo *(*alloc_dtor)(size_t size, nrt_dtor *dtor);
    NRT_MemInfo *(*alloc_dtor_safe)(size_t size, nrt_dtor *dtor);
    void (*call_dtor)(NRT_MemInfo *mi);
    NRT_MemInfo *(*new_varsize)(size_t size);
    NRT_MemInfo *(*new_varsize_dtor)(size_t size, nrt_dtor *dtor);
    void *(*varsize_alloc)(NRT_MemInfo *mi, size_t size);
    void *(*varsize_realloc)(NRT_MemInfo *mi, size_t size);
    void (*varsize_free)(NRT_MemInfo *mi, void *ptr);
    void *(*data)(NRT_MemInfo *mi);
    void (*release)(NRT_MemInfo *mi);
    void *(*allocate)(size_t size);
    void (*free)(void *ptr);
    const NRT_api_functions *(*get_api)(void);
    void (*shutdown)(void);
    /* alloc, free, mi_alloc, mi_free */
    void (*stats)(uint64_t out[4]);
};

/* The result of a fact on Numba's own core. */
enum nrt_fact_kind {
    NRT_FACT_HOLDS = 0,
    NRT_FACT_DEFECT = 1, /* it fails, by a wrong answer or by a crash */
    /* Either result: it depends on the allocator's writes into freed memory, which differ
     * between processes. */
    NRT_FACT_BY_LUCK = 2
};

size_t nrt_facts(void);
const char *nrt_fact_name(size_t index);
enum nrt_fact_kind nrt_fact_kind(size_t index);
/* NULL: it holds; else the observed result. */
const char *nrt_fact_ask(size_t index, const struct nrt_core *core);

#endif
