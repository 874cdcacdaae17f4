/* main.c -- functions that Numba compiled, in a program without Python.
 *
 *     python kernels.py .
 *     cc main.c kernels.o $(tarn nrt config --cflags --libs)
 *
 * A returned array has one reference, which the program owns. At the end the runtime's
 * counters show that none was lost.
 */
#include "kernels.h"
#include <stdio.h>
#include <stdlib.h>
#include <tarn/tarn.h>

/* End the program after a failed call, with the message of the exception. */
static void check(int32_t status, const tarn_aot_error *error)
{
    char words[200];

    if (status == TARN_AOT_OK)
        return;
    fprintf(stderr, "status %d: %s\n", (int)status,
            tarn_aot_error_message(error, words, sizeof words));
    exit(1);
}

static void print_array(const char *name, tarn_aot_array1 array)
{
    const double *data = array.data;

    printf("%s:", name);
    for (int64_t i = 0; i < array.items; i++)
        printf(" %g", data[i]);
    printf("\n");
}

/* Pass arrays into compiled code and get arrays from it, over memory of the program. */
static void run(double *data, int64_t items)
{
    tarn_aot_array1 lent = tarn_aot_array1_of(NULL, data, items);
    const tarn_aot_error *error = NULL;
    tarn_aot_array1 smoothed, sums;
    tarn_aot_array2 square;
    double result;

    check(norm(&result, &error, TARN_AOT_ARRAY1(lent)), error);
    printf("norm: %g\n", result);
    check(smooth(&smoothed, &error, TARN_AOT_ARRAY1(lent), 1), error);
    print_array("smooth", smoothed);
    check(grid(&square, &error, 3, 4), error);
    check(columns(&sums, &error, TARN_AOT_ARRAY2(square)), error);
    print_array("columns", sums);
    check(walk(&result, &error, 42, 3), error);
    printf("walk: %.6f\n", result);
    NRT_MemInfo_release(smoothed.meminfo);
    NRT_MemInfo_release(square.meminfo);
    NRT_MemInfo_release(sums.meminfo);
}

int main(void)
{
    double data[] = {3, 4, 0, 12, 0};
    tarn_aot_array1 nothing = tarn_aot_array1_of(NULL, data, 0);
    const tarn_aot_error *error = NULL;
    tarn_runtime_stats stats = {.size = sizeof stats};
    char words[200];
    double result;

    run(data, 5);
    int32_t status = norm(&result, &error, TARN_AOT_ARRAY1(nothing));
    printf("norm of nothing: status %d, %s\n", (int)status,
           tarn_aot_error_message(error, words, sizeof words));
    tarn_runtime_stats_read(tarn_runtime_default(), &stats);
    printf("MemInfos: %llu made, %llu gone\n", (unsigned long long)stats.mi_alloc,
           (unsigned long long)stats.mi_free);
    return stats.mi_alloc == stats.mi_free ? 0 : 1;
}
