/* Compile code that was written for Numba's own nrt_external.h, and run it on Tarn's
 * library. */
#include "numba/core/runtime/nrt_external.h"
#include "test.h"
#include "nrt_layout.h"
#include <stdlib.h>

static const size_t theirs[NRT_LAYOUT_COUNT] = NRT_LAYOUT;

TEST(the_two_headers_lay_out_the_same)
{
    for (int i = 0; i < NRT_LAYOUT_COUNT; i++)
        CHECK_EQUAL(theirs[i], nrt_layout_ours[i]);
}

static int freed;

static void free_and_count(void *data)
{
    freed++;
    free(data);
}

TEST(their_table_is_tarns)
{
    /* Numba's was included first, so this is its type */
    const NRT_api_functions *nrt = NRT_get_api();
    NRT_MemInfo *mi = nrt->manage_memory(malloc(10), free_and_count);

    nrt->acquire(mi);
    nrt->release(mi);
    CHECK_EQUAL(0, freed);
    nrt->release(mi);
    CHECK_EQUAL(1, freed);
    mi = nrt->allocate(10);
    memset(nrt->get_data(mi), 1, 10);
    nrt->release(mi);
}
