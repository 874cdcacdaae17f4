/* memory.c -- facts about cuMemAlloc, cuMemFree, pitched memory and its attributes. */
#include "facts.h"

#include <stdlib.h>

static void allocating(void)
{
    CUdeviceptr out = 7;

    fact_result("alloc.null", cuMemAlloc(NULL, 256));
    fact_output("alloc.bytes_0", cuMemAlloc(&out, 0), out == 7);
    out = 7;
    fact_output("alloc.bytes_huge", cuMemAlloc(&out, (size_t)1 << 50), out == 7);
    out = 7;
    fact_output("alloc.bytes_max", cuMemAlloc(&out, SIZE_MAX), out == 7);
    out = 7;
    fact_result("alloc.byte_1", cuMemAlloc(&out, 1));
    fact_bool("alloc.aligned_to_256", out % 256 == 0);
    fact_bool("alloc.aligned_to_512", out % 512 == 0);
    fact_result("free", cuMemFree(out));
}

/* Small blocks share a page, large ones do not; no two may overlap. */
static void blocks(void)
{
    enum { N = 64 };
    CUdeviceptr p[N];
    bool aligned = true, apart = true;
    CUdeviceptr big = block(3 * MIB), next = block(3 * MIB);

    for (int i = 0; i < N; i++)
        p[i] = block(1 + 7 * (size_t)i);
    for (int i = 0; i < N; i++) {
        aligned = aligned && p[i] % 512 == 0;
        for (int k = 0; k < i; k++)
            apart = apart && (p[i] >= p[k] + 512 || p[k] >= p[i] + 512);
    }
    fact_bool("blocks.all_aligned_to_512", aligned);
    fact_bool("blocks.all_512_apart", apart);
    fact_bool("blocks.3MiB_aligned_to_2MiB",
              big % (2 * MIB) == 0 && next % (2 * MIB) == 0);
    for (int i = 0; i < N; i++)
        cuMemFree(p[i]);
    cuMemFree(big);
    cuMemFree(next);
}

/* The counts of cuMemGetInfo. */
static void info(void)
{
    size_t before = 0, during = 0, total = 0, again = 0;

    fact_result("info", cuMemGetInfo(&before, &total));
    CUdeviceptr pointer = block(256 * MIB);
    cuMemGetInfo(&during, &again);
    cuMemFree(pointer);
    fact_bool("info.total_is_steady", total == again);
    fact("info.free_falls_by_MiB", "%lld",
         (long long)(before / MIB) - (long long)(during / MIB));
    fact_result("info.null", cuMemGetInfo(NULL, NULL));
    fact_result("info.null_total", cuMemGetInfo(&before, NULL));
    fact_result("info.null_free", cuMemGetInfo(NULL, &total));
}

static void freeing(void)
{
    static char mine[64];
    char *heap = malloc(4096);
    CUdeviceptr pointer = block(4096);

    fact_result("free.null", cuMemFree(0));
    fact_result("free.interior", cuMemFree(pointer + 256));
    fact_result("free.one_past_the_end", cuMemFree(pointer + 4096));
    fact_result("free.garbage", cuMemFree(0x1234500));
    fact_result("free.static_memory", cuMemFree((CUdeviceptr)(uintptr_t)mine));
    fact_result("free.heap", cuMemFree((CUdeviceptr)(uintptr_t)heap));
    fact_result("free.after_all_that", cuMemFree(pointer));
    fact_result("free.twice", cuMemFree(pointer));
    free(heap);
}

static CUresult free_it(void *pointer)
{
    return cuMemFree(*(CUdeviceptr *)pointer);
}

static void freeing_elsewhere(void)
{
    CUdeviceptr pointer = block(4096), second = block(4096);

    fact_result("free.in_another_thread", in_thread(free_it, &pointer));
    cuCtxSetCurrent(NULL);
    fact_result("free.without_context", cuMemFree(second));
    cuCtxSetCurrent(context);
    fact_result("free.afterwards", cuMemFree(second));
}

/* The driver reuses a freed pointer for the next block of the same size. */
static void coming_back(void)
{
    CUdeviceptr a = block(64 * MIB);

    cuMemFree(a);
    CUdeviceptr b = block(64 * MIB);
    fact_bool("same_address_again", a == b);
    cuMemFree(b);
}

static void contents(void)
{
    CUdeviceptr a = block_of(4096, 1), b = block_of(4096, 2);

    fact_bool("contents.first", all_are(a, 4096, 1));
    fact_bool("contents.second", all_are(b, 4096, 2));
    fact_result("memset_after_free", (cuMemFree(a), cuMemsetD8(a, 3, 4096)));
    fact_result("copy_after_free", cuMemcpy(b, a, 4096));
    cuMemFree(b);
}

static void pitch_fact(const char *name, size_t width, size_t height,
                       unsigned int element)
{
    CUdeviceptr out = 7;
    size_t pitch = 7;
    CUresult result = cuMemAllocPitch(&out, &pitch, width, height, element);

    if (result == CUDA_SUCCESS)
        fact(name, "SUCCESS, pitch %zu", pitch);
    else
        fact_output(name, result, out == 7 && pitch == 7);
    if (result == CUDA_SUCCESS)
        cuMemFree(out);
}

static void pitched(void)
{
    CUdeviceptr out = 7;
    size_t pitch = 7;

    pitch_fact("pitch.width_1", 1, 4, 4);
    pitch_fact("pitch.width_512", 512, 4, 4);
    pitch_fact("pitch.width_513", 513, 4, 4);
    pitch_fact("pitch.width_1000_element_8", 1000, 4, 8);
    pitch_fact("pitch.width_1000_element_16", 1000, 4, 16);
    pitch_fact("pitch.element_1", 100, 4, 1);
    pitch_fact("pitch.element_3", 100, 4, 3);
    pitch_fact("pitch.element_0", 100, 4, 0);
    pitch_fact("pitch.element_32", 100, 4, 32);
    pitch_fact("pitch.width_0", 0, 4, 4);
    pitch_fact("pitch.height_0", 100, 0, 4);
    pitch_fact("pitch.huge", (size_t)1 << 40, (size_t)1 << 40, 4);
    fact_result("pitch.null_pointer", cuMemAllocPitch(NULL, &pitch, 100, 4, 4));
    fact_result("pitch.null_pitch", cuMemAllocPitch(&out, NULL, 100, 4, 4));
}

static const struct part parts[] = {
    {"allocating", allocating, TOGETHER},
    {"blocks", blocks, TOGETHER},
    {"info", info, TOGETHER},
    {"freeing", freeing, TOGETHER},
    {"coming_back", coming_back, TOGETHER},
    {"pitched", pitched, TOGETHER},
    {"freeing_elsewhere", freeing_elsewhere, RISKY},
    {"contents", contents, RISKY},
    END_OF_PARTS,
};
const struct theme theme_memory = {"memory", parts, true};
