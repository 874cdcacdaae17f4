/* nrt_leaks.c -- list the blocks that were allocated between two times and are still
 * live, by site.
 *
 * A runtime instance of its own keeps the program's blocks separate from all others.
 */
#include <stdio.h>
#include <tarn/nrt.h>

/* Leak every third block. */
static void work(const NRT_api_functions *nrt, NRT_MemInfo **kept)
{
    for (size_t i = 0; i < 9; i++) {
        NRT_MemInfo *mi = nrt->allocate(100 * i);
        if (i % 3 == 2)
            *kept++ = mi;
        else
            nrt->release(mi);
    }
}

static tarn_status report(tarn_runtime *runtime)
{
    tarn_nrt_snapshot *before = NULL, *after = NULL, *between = NULL;
    NRT_MemInfo *kept[3];

    tarn_status status = tarn_nrt_snapshot_take(runtime, &before);
    tarn_nrt_set_label("nrt_leaks.c: work");
    work(tarn_runtime_api(runtime), kept);
    tarn_nrt_set_label(NULL);
    if (status == TARN_OK)
        status = tarn_nrt_snapshot_take(runtime, &after);
    if (status == TARN_OK)
        status = tarn_nrt_snapshot_difference(before, after, &between);
    if (status == TARN_OK)
        tarn_nrt_snapshot_print(between, stdout);
    for (int i = 0; i < 3; i++)
        tarn_meminfo_release(kept[i]);
    tarn_nrt_snapshot_release(before);
    tarn_nrt_snapshot_release(after);
    tarn_nrt_snapshot_release(between);
    return status;
}

int main(void)
{
    tarn_runtime *runtime;

    if (tarn_runtime_create("program", &runtime) != TARN_OK ||
        tarn_runtime_set_modes(runtime, TARN_NRT_SITES) != TARN_OK ||
        report(runtime) != TARN_OK || tarn_runtime_release(runtime) != TARN_OK) {
        fprintf(stderr, "nrt_leaks: %s\n", tarn_error_last()->message);
        return 1;
    }
    return 0;
}
