/* lookups.c -- measure driver calls that look an address up, by the size of the physical
 * handles.
 *
 *     bench-lookups [GIB]
 *
 * One block of 8 GiB, or as many as the argument says, has handles of 2 to 256 MiB. The last
 * row is memory of cuMemAlloc. Each figure is the median of 300 calls at random addresses, in
 * ns, up to the return of the call. The calls are a query of the address
 * (cuPointerGetAttribute), and fills and copies of 4 KiB and of 32 MiB. In the second half of
 * the columns the program writes 2 MiB of other memory before each call. On the simulator the
 * figures tell nothing.
 */
#include "bench.h"
#include <stdlib.h>
#include <string.h>

enum { CALLS = 300, BATCH = 8, MEMORY_TYPE = 2 };
#define MIB ((size_t)1 << 20)

static struct {
    int (*get_attribute)(void *out, int attribute, tarn_device_ptr address);
    int (*copy)(tarn_device_ptr to, tarn_device_ptr from, size_t bytes, tarn_stream);
    int (*synchronize)(tarn_stream stream);
} driver;

static void find_functions(void)
{
    void *found = bench_driver_function("cuPointerGetAttribute", 4000);

    memcpy(&driver.get_attribute, &found, sizeof found);
    found = bench_driver_function("cuMemcpyDtoDAsync", 3020);
    memcpy(&driver.copy, &found, sizeof found);
    found = bench_driver_function("cuStreamSynchronize", 2000);
    memcpy(&driver.synchronize, &found, sizeof found);
}

/* --- the calls --- */

struct memory {
    tarn_device_ptr block;
    size_t bytes;
    uint64_t drawn;
};

/* Return an address with `bytes` behind it. */
static tarn_device_ptr draw(struct memory *memory, size_t bytes)
{
    memory->drawn = memory->drawn * 6364136223846793005u + 1442695040888963407u;
    uint64_t places = (memory->bytes - bytes) / 512;
    return memory->block + (memory->drawn >> 20) % places * 512;
}

static void query(struct memory *memory, size_t bytes)
{
    unsigned type;

    bench_must_cuda(driver.get_attribute(&type, MEMORY_TYPE, draw(memory, bytes)),
                    "cuPointerGetAttribute");
}

static void fill(struct memory *memory, size_t bytes)
{
    bench_fill(draw(memory, bytes), bytes, TARN_STREAM_LEGACY);
}

static void copy(struct memory *memory, size_t bytes)
{
    bench_must_cuda(
        driver.copy(draw(memory, bytes), draw(memory, bytes), bytes, TARN_STREAM_LEGACY),
        "cuMemcpyDtoDAsync");
}

static const struct {
    const char *name;
    void (*call)(struct memory *memory, size_t bytes);
    size_t bytes;
} cases[] = {
    {"query", query, 512},   {"fill 4K", fill, 4096},      {"fill 32M", fill, 32 * MIB},
    {"copy 4K", copy, 4096}, {"copy 32M", copy, 32 * MIB},
};

enum { CASES = sizeof cases / sizeof *cases };

/* --- the table --- */

static double median_of(struct memory *memory, size_t which, bool is_cold)
{
    double ns[CALLS];

    for (int i = 0; i < CALLS; i++) {
        if (i % BATCH == 0)
            bench_must_cuda(driver.synchronize(TARN_STREAM_LEGACY),
                            "cuStreamSynchronize");
        if (is_cold)
            bench_write_other(2 * MIB);
        uint64_t began = bench_now_ns();
        cases[which].call(memory, cases[which].bytes);
        ns[i] = (double)(bench_now_ns() - began);
    }
    return bench_median(ns, CALLS);
}

static void print_row(const char *name, const char *spec, size_t bytes)
{
    tarn_resource *resource = bench_resource(spec, 0);
    struct memory memory = {.bytes = bytes, .drawn = 1};

    bench_must(
        tarn_resource_allocate(resource, bytes, 0, TARN_STREAM_LEGACY, &memory.block),
        "allocate");
    printf("%-12s", name);
    for (int cold = 0; cold < 2; cold++)
        for (size_t i = 0; i < CASES; i++)
            printf("%9.0f", median_of(&memory, i, cold));
    puts("");
    bench_must_cuda(driver.synchronize(TARN_STREAM_LEGACY), "cuStreamSynchronize");
    bench_must(
        tarn_resource_deallocate(resource, memory.block, bytes, 0, TARN_STREAM_LEGACY),
        "free");
    tarn_resource_release(resource);
}

int main(int argc, char **argv)
{
    size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 8) << 30;

    if (bytes < 64 * MIB)
        bench_die("usage: bench-lookups [GIB]");
    bench_make_current();
    find_functions();
    printf("%-12s", "handles");
    for (int cold = 0; cold < 2; cold++)
        for (size_t i = 0; i < CASES; i++)
            printf("%9s", cases[i].name);
    puts("");
    for (int mib = 2; mib <= 256; mib *= 2) {
        char name[32], spec[64];
        snprintf(name, sizeof name, "%d MiB", mib);
        snprintf(spec, sizeof spec, "pool:growth=%dMiB", mib);
        print_row(name, spec, bytes);
    }
    print_row("cuMemAlloc", "cuda", bytes);
    return 0;
}
