/* copy.c -- facts about copies and fills: arguments, bytes, accesses past an end. */
#include "facts.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 65536 };

/* --- sources and destinations --- */

static void directions(void)
{
    unsigned char *host = malloc(BYTES), *other = malloc(BYTES), *pin = pinned(BYTES);
    CUdeviceptr a = block_of(BYTES, 1), b = block_of(BYTES, 2);

    memset(host, 3, BYTES);
    memset(other, 0, BYTES);
    fact_result("htod", cuMemcpyHtoD(a, host, BYTES));
    cuCtxSynchronize();
    fact_bool("htod.bytes", all_are(a, BYTES, 3));
    fact_result("dtod", cuMemcpyDtoD(b, a, BYTES));
    cuCtxSynchronize();
    fact_bool("dtod.bytes", all_are(b, BYTES, 3));
    fact_result("dtoh", cuMemcpyDtoH(other, b, BYTES));
    fact_bool("dtoh.bytes", memcmp(host, other, BYTES) == 0);
    memset(pin, 4, BYTES);
    fact_result("htod.pinned", cuMemcpyHtoD(a + 1, pin, 77));
    cuCtxSynchronize();
    fact("htod.edges", "%d %d %d %d", peek(a), peek(a + 1), peek(a + 77), peek(a + 78));
    fact_result("any", cuMemcpy(b, (CUdeviceptr)(uintptr_t)pin, BYTES));
    cuCtxSynchronize();
    fact_bool("any.bytes", all_are(b, BYTES, 4));
    fact_result("any.heap", cuMemcpy(b, (CUdeviceptr)(uintptr_t)host, BYTES));
    cuCtxSynchronize();
    fact("any.heap.byte", "%d", peek(b + 9));
    fact_result("any.host_to_host", cuMemcpy((CUdeviceptr)(uintptr_t)other,
                                             (CUdeviceptr)(uintptr_t)pin, BYTES));
    cuCtxSynchronize();
    fact("any.host_to_host.byte", "%d", other[BYTES - 1]);
    fact_result("htod.device_as_source", cuMemcpyHtoD(b, (void *)(uintptr_t)a, 64));
    fact_result("dtoh.device_as_target", cuMemcpyDtoH((void *)(uintptr_t)b, a, 64));
    fact_result("dtod.pinned_as_source",
                cuMemcpyDtoD(b, (CUdeviceptr)(uintptr_t)pin, 64));
    fact_result("dtod.heap_as_source", cuMemcpyDtoD(b, (CUdeviceptr)(uintptr_t)host, 64));
    cuCtxSynchronize();
    cuMemFree(a);
    cuMemFree(b);
    cuMemFreeHost(pin);
    free(host);
    free(other);
}

static void overlapping(void)
{
    CUdeviceptr a = block(256);
    unsigned char host[256];

    for (int i = 0; i < 256; i++)
        host[i] = (unsigned char)i;
    cuMemcpyHtoD(a, host, 256);
    fact_result("overlap.onto_itself", cuMemcpyDtoD(a, a, 256));
    cuCtxSynchronize();
    fact("overlap.onto_itself.bytes", "%d %d", peek(a), peek(a + 255));
    cuMemFree(a);
}

static void nothing(void)
{
    CUdeviceptr a = block_of(256, 1);
    unsigned char host[64] = {0};

    fact_result("bytes_0.htod", cuMemcpyHtoD(a, host, 0));
    fact_result("bytes_0.dtoh", cuMemcpyDtoH(host, a, 0));
    fact_result("bytes_0.null_pointers", cuMemcpy(0, 0, 0));
    fact_result("bytes_0.garbage", cuMemcpyDtoD(0x1234500, 0x5432100, 0));
    fact_result("bytes_0.async", cuMemcpyAsync(a, a, 0, NULL));
    fact_result("bytes_0.memset", cuMemsetD8(a, 5, 0));
    fact_result("bytes_0.memset_null", cuMemsetD8(0, 5, 0));
    fact("bytes_0.after", "%d", peek(a));
    cuMemFree(a);
}

static void bad_pointers(void)
{
    CUdeviceptr a = block_of(256, 1);
    unsigned char host[64] = {9};

    fact_result("bad.htod_null_target", cuMemcpyHtoD(0, host, 64));
    fact_result("bad.htod_null_source", cuMemcpyHtoD(a, NULL, 64));
    fact_result("bad.htod_garbage_target", cuMemcpyHtoD(0x1234500, host, 64));
    fact_result("bad.dtoh_null_target", cuMemcpyDtoH(NULL, a, 64));
    fact_output("bad.dtoh_null_source", cuMemcpyDtoH(host, 0, 64), host[0] == 9);
    fact_output("bad.dtoh_garbage_source", cuMemcpyDtoH(host, 0x1234500, 64),
                host[0] == 9);
    fact_result("bad.dtod_null_target", cuMemcpyDtoD(0, a, 64));
    fact_result("bad.dtod_null_source", cuMemcpyDtoD(a, 0, 64));
    fact_result("bad.any_null_source", cuMemcpy(a, 0, 64));
    fact_result("bad.async_null_source", cuMemcpyDtoDAsync(a, 0, 64, NULL));
    fact_result("bad.still_well", cuCtxSynchronize());
    cuMemFree(a);
}

/* --- past the end of a block (each in a process: it may ruin the context) --- */

static void past_htod(void)
{
    static unsigned char host[8 << 20];
    CUdeviceptr a = block(BYTES);

    fact_result("past_htod", cuMemcpyHtoD(a, host, sizeof host));
    fact_result("past_htod.then", cuCtxSynchronize());
}

static void past_dtoh(void)
{
    static unsigned char host[8 << 20];
    CUdeviceptr a = block(BYTES);

    fact_result("past_dtoh", cuMemcpyDtoH(host, a, sizeof host));
    fact_result("past_dtoh.then", cuCtxSynchronize());
}

static void past_dtod(void)
{
    CUdeviceptr a = block(8 * MIB), b = block(BYTES);

    fact_result("past_dtod", cuMemcpyDtoD(a, b, 8 * MIB));
    fact_result("past_dtod.async", cuMemcpyDtoDAsync(a, b, 8 * MIB, NULL));
    fact_result("past_dtod.then", cuCtxSynchronize());
}

static void past_memset(void)
{
    CUdeviceptr a = block(BYTES);

    fact_result("past_memset", cuMemsetD8(a, 1, 8 * MIB));
    fact_result("past_memset.async", cuMemsetD32Async(a, 1, 2 * MIB, NULL));
    fact_result("past_memset.then", cuCtxSynchronize());
}

/* --- fills --- */

static void fills(void)
{
    CUdeviceptr a = block_of(256, 0);

    fact_result("memset_8", cuMemsetD8(a, 0x11, 3));
    fact_result("memset_16", cuMemsetD16(a + 4, 0x2233, 2));
    fact_result("memset_32", cuMemsetD32(a + 8, 0x44556677, 1));
    cuCtxSynchronize();
    fact("memset.bytes", "%02x %02x%02x %02x%02x%02x%02x %02x%02x%02x%02x %02x",
         peek(a + 2), peek(a + 3), peek(a + 4), peek(a + 5), peek(a + 6), peek(a + 7),
         peek(a + 8), peek(a + 9), peek(a + 10), peek(a + 11), peek(a + 12),
         peek(a + 13));
    fact_result("memset_16.unaligned", cuMemsetD16(a + 1, 1, 1));
    fact_result("memset_32.unaligned_1", cuMemsetD32(a + 1, 1, 1));
    fact_result("memset_32.unaligned_2", cuMemsetD32(a + 2, 1, 1));
    fact_result("memset_16_async.unaligned", cuMemsetD16Async(a + 1, 1, 1, NULL));
    fact_result("memset_32_async.unaligned", cuMemsetD32Async(a + 1, 1, 1, NULL));
    fact_result("memset.null", cuMemsetD8(0, 1, 16));
    fact_result("memset.garbage", cuMemsetD8(0x1234500, 1, 16));
    fact_result("memset.then", cuCtxSynchronize());
    cuMemFree(a);
}

static void fill_kinds(void)
{
    CUdeviceptr managed = 0;
    unsigned char *pin = pinned(256);
    static unsigned char mine[256];

    cuMemAllocManaged(&managed, 256, 1);
    fact_result("memset.managed", cuMemsetD8(managed, 5, 256));
    fact_result("memset.pinned", cuMemsetD8((CUdeviceptr)(uintptr_t)pin, 6, 256));
    fact_result("memset.pageable", cuMemsetD8((CUdeviceptr)(uintptr_t)mine, 7, 256));
    cuCtxSynchronize();
    fact("memset.kinds", "%d %d %d", peek(managed), pin[255], mine[255]);
    cuMemFree(managed);
    cuMemFreeHost(pin);
}

static void fills_2d(void)
{
    CUdeviceptr a = block_of(4096, 0);

    fact_result("memset_2d", cuMemsetD2D8(a, 64, 7, 10, 3));
    cuCtxSynchronize();
    fact("memset_2d.bytes", "%d %d %d %d %d %d", peek(a + 9), peek(a + 10), peek(a + 64),
         peek(a + 137), peek(a + 138), peek(a + 192));
    fact_result("memset_2d.pitch_below_width", cuMemsetD2D8(a, 8, 7, 10, 3));
    fact_result("memset_2d.width_0", cuMemsetD2D8(a, 64, 7, 0, 3));
    fact_result("memset_2d.height_0", cuMemsetD2D8(a, 64, 7, 10, 0));
    fact_result("memset_2d.pitch_0_one_row", cuMemsetD2D8(a, 0, 7, 10, 1));
    fact_result("memset_2d_32", cuMemsetD2D32(a, 64, 0x01010101, 2, 2));
    fact_result("memset_2d_32.pitch_62", cuMemsetD2D32(a, 62, 0x01010101, 2, 2));
    fact_result("memset_2d_32.unaligned", cuMemsetD2D32(a + 2, 64, 0x01010101, 2, 2));
    fact_result("memset_2d.then", cuCtxSynchronize());
    cuMemFree(a);
}

/* --- copies in two and three dimensions --- */

static CUDA_MEMCPY2D square(CUdeviceptr to, const unsigned char *from)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = from,
                           .srcPitch = 16,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .dstPitch = 32,
                           .WidthInBytes = 8,
                           .Height = 4};
}

static void copies_2d(void)
{
    unsigned char host[64];
    CUdeviceptr a = block_of(4096, 99);

    for (int i = 0; i < 64; i++)
        host[i] = (unsigned char)i;
    CUDA_MEMCPY2D copy = square(a, host);
    fact_result("copy_2d", cuMemcpy2D(&copy));
    cuCtxSynchronize();
    fact("copy_2d.bytes", "%d %d %d %d %d", peek(a + 7), peek(a + 8), peek(a + 32),
         peek(a + 96 + 7), peek(a + 128));
    copy.srcXInBytes = 1, copy.srcY = 1, copy.dstXInBytes = 2, copy.dstY = 2,
    copy.Height = 1;
    fact_result("copy_2d.offsets", cuMemcpy2D(&copy));
    cuCtxSynchronize();
    fact("copy_2d.offsets.bytes", "%d %d", peek(a + 66), peek(a + 73));
    copy = square(a, host), copy.srcPitch = 4;
    fact_result("copy_2d.source_pitch_below_width", cuMemcpy2D(&copy));
    copy = square(a, host), copy.dstPitch = 4;
    fact_result("copy_2d.target_pitch_below_width", cuMemcpy2D(&copy));
    copy = square(a, host), copy.srcPitch = 0, copy.dstPitch = 0;
    fact_result("copy_2d.pitch_0", cuMemcpy2D(&copy));
    copy = square(a, host), copy.WidthInBytes = 0;
    fact_result("copy_2d.width_0", cuMemcpy2D(&copy));
    copy = square(a, host), copy.Height = 0;
    fact_result("copy_2d.height_0", cuMemcpy2D(&copy));
    copy = square(a, host), copy.srcMemoryType = 77;
    fact_result("copy_2d.bad_kind", cuMemcpy2D(&copy));
    copy = square(a, host), copy.srcHost = NULL;
    fact_result("copy_2d.null_source", cuMemcpy2D(&copy));
    copy = square(a, host), copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
    copy.srcDevice = (CUdeviceptr)(uintptr_t)host,
    copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    fact_result("copy_2d.unified", cuMemcpy2D(&copy));
    fact_result("copy_2d.null", cuMemcpy2D(NULL));
    fact_result("copy_2d.then", cuCtxSynchronize());
    cuMemFree(a);
}

static void copies_3d(void)
{
    unsigned char host[64];
    CUdeviceptr a = block_of(4096, 99);

    for (int i = 0; i < 64; i++)
        host[i] = (unsigned char)i;
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = 8,
                          .srcHeight = 4,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = a,
                          .dstPitch = 16,
                          .dstHeight = 8,
                          .WidthInBytes = 4,
                          .Height = 2,
                          .Depth = 2};
    fact_result("copy_3d", cuMemcpy3D(&copy));
    cuCtxSynchronize();
    fact("copy_3d.bytes", "%d %d %d %d %d", peek(a + 3), peek(a + 4), peek(a + 16 + 3),
         peek(a + 128 + 3), peek(a + 128 + 32));
    copy.Depth = 0;
    fact_result("copy_3d.depth_0", cuMemcpy3D(&copy));
    copy.Depth = 2, copy.dstHeight = 1;
    fact_result("copy_3d.target_height_below_height", cuMemcpy3D(&copy));
    fact_result("copy_3d.null", cuMemcpy3D(NULL));
    fact_result("copy_3d.then", cuCtxSynchronize());
    cuMemFree(a);
}

static const struct part parts[] = {
    {"directions", directions, TOGETHER}, {"overlapping", overlapping, TOGETHER},
    {"nothing", nothing, TOGETHER},       {"fills", fills, TOGETHER},
    {"fills_2d", fills_2d, TOGETHER},     {"copies_2d", copies_2d, TOGETHER},
    {"copies_3d", copies_3d, TOGETHER},   {"bad_pointers", bad_pointers, ALONE},
    {"fill_kinds", fill_kinds, RISKY},    {"past_htod", past_htod, RISKY},
    {"past_dtoh", past_dtoh, RISKY},      {"past_dtod", past_dtod, RISKY},
    {"past_memset", past_memset, RISKY},  END_OF_PARTS,
};
const struct theme theme_copy = {"copy", parts, false};
