/* managed.c -- facts about managed memory: its owner, advice, prefetching. */
#include "facts.h"

enum { BYTES = 4 << 20 };

static void allocating(void)
{
    CUdeviceptr out = 7;

    fact_result("alloc.null", cuMemAllocManaged(NULL, BYTES, CU_MEM_ATTACH_GLOBAL));
    fact_output("alloc.bytes_0", cuMemAllocManaged(&out, 0, CU_MEM_ATTACH_GLOBAL),
                out == 7);
    for (unsigned int flags = 0; flags < 6; flags++) {
        out = 7;
        CUresult result = cuMemAllocManaged(&out, BYTES, flags);
        fact_output(named("alloc.flags_%u", flags), result, out == 7);
        if (result == CUDA_SUCCESS)
            fact_result(named("free.flags_%u", flags), cuMemFree(out));
    }
    out = 7;
    fact_output("alloc.flags_0x100", cuMemAllocManaged(&out, BYTES, 0x100), out == 7);
    cuMemAllocManaged(&out, 100, CU_MEM_ATTACH_GLOBAL);
    fact_bool("alloc.aligned_to_512", out % 512 == 0);
    fact_result("free.interior", cuMemFree(out + 8));
    fact_result("free.by_cuMemFreeHost", cuMemFreeHost((void *)(uintptr_t)out));
    fact_result("free", cuMemFree(out));
    fact_result("free.twice", cuMemFree(out));
}

static void sharing(void)
{
    CUdeviceptr out = 0;

    cuMemAllocManaged(&out, BYTES, CU_MEM_ATTACH_GLOBAL);
    volatile unsigned char *host = (unsigned char *)(uintptr_t)out;
    if (!out)
        return;
    host[5] = 17;
    fact("share.written_by_the_host", "%d", peek(out + 5));
    cuMemsetD8(out, 3, BYTES);
    cuCtxSynchronize();
    fact("share.written_by_the_device", "%d and %d", host[0], host[BYTES - 1]);
    CUdeviceptr copy = block(BYTES);
    fact_result("share.copy", cuMemcpy(copy, out, BYTES));
    cuCtxSynchronize();
    fact_bool("share.copied", all_are(copy, BYTES, 3));
    cuMemFree(copy);
    cuMemFree(out);
}

static void attribute(const char *name, int which, CUdeviceptr pointer)
{
    int value = 77;
    CUresult result = cuMemRangeGetAttribute(&value, sizeof value, which, pointer, BYTES);

    fact(name, "%s, %d", result_name(result), value);
}

static void four_attributes(const char *when, CUdeviceptr pointer)
{
    attribute(named("advise.%s.read_mostly", when), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
              pointer);
    attribute(named("advise.%s.preferred_location", when),
              CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, pointer);
    attribute(named("advise.%s.accessed_by", when), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
              pointer);
    attribute(named("advise.%s.last_prefetch", when),
              CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, pointer);
}

static void advising(void)
{
    static const char *const names[] = {
        "none",           "set_read_mostly", "unset_read_mostly",
        "set_preferred",  "unset_preferred", "set_accessed",
        "unset_accessed", "number_7"};
    CUdeviceptr out = 0, plain = block(BYTES);

    cuMemAllocManaged(&out, BYTES, CU_MEM_ATTACH_GLOBAL);
    four_attributes("at_first", out);
    for (int advice = 1; advice < 8; advice++) {
        fact_result(named("advise.%s", names[advice]),
                    cuMemAdvise(out, BYTES, advice, device));
        if (advice == 1 || advice == 3 || advice == 5 || advice == 6)
            four_attributes(named("after_%s", names[advice]), out);
    }
    fact_result("advise.number_0", cuMemAdvise(out, BYTES, 0, device));
    fact_result(
        "advise.preferred_cpu",
        cuMemAdvise(out, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    attribute("advise.preferred_cpu.after", CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
              out);
    fact_result("advise.accessed_by_cpu",
                cuMemAdvise(out, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
    fact_result("advise.bad_device",
                cuMemAdvise(out, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 99));
    fact_result("advise.bytes_0", cuMemAdvise(out, 0, 1, device));
    fact_result("advise.past_the_end", cuMemAdvise(out, 64 * (size_t)BYTES, 1, device));
    fact_result("advise.interior", cuMemAdvise(out + 100, 100, 1, device));
    fact_result("advise.device_memory", cuMemAdvise(plain, BYTES, 1, device));
    fact_result("advise.garbage", cuMemAdvise(0x1234000, BYTES, 1, device));
    cuMemFree(out);
    cuMemFree(plain);
}

static void prefetching(void)
{
    CUdeviceptr out = 0, plain = block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, device}, nowhere = {77, 0};

    cuMemAllocManaged(&out, BYTES, CU_MEM_ATTACH_GLOBAL);
    fact_result("prefetch.device", cuMemPrefetchAsync(out, BYTES, device, stream));
    cuStreamSynchronize(stream);
    attribute("prefetch.device.after", CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
              out);
    fact_result("prefetch.cpu", cuMemPrefetchAsync(out, BYTES, CU_DEVICE_CPU, stream));
    cuStreamSynchronize(stream);
    attribute("prefetch.cpu.after", CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, out);
    fact_result("prefetch.location", cuMemPrefetchAsync_v2(out, BYTES, here, 0, stream));
    fact_result("prefetch.bad_location",
                cuMemPrefetchAsync_v2(out, BYTES, nowhere, 0, stream));
    fact_result("prefetch.bad_flags", cuMemPrefetchAsync_v2(out, BYTES, here, 1, stream));
    fact_result("prefetch.legacy_stream", cuMemPrefetchAsync(out, BYTES, device, NULL));
    fact_result("prefetch.interior", cuMemPrefetchAsync(out + 100, 100, device, stream));
    fact_result("prefetch.bytes_0", cuMemPrefetchAsync(out, 0, device, stream));
    fact_result("prefetch.past_the_end",
                cuMemPrefetchAsync(out, 64 * (size_t)BYTES, device, stream));
    fact_result("prefetch.bad_device", cuMemPrefetchAsync(out, BYTES, 99, stream));
    fact_result("prefetch.device_memory",
                cuMemPrefetchAsync(plain, BYTES, device, stream));
    fact_result("prefetch.garbage", cuMemPrefetchAsync(0x1234000, BYTES, device, stream));
    fact_result("prefetch.null", cuMemPrefetchAsync(0, BYTES, device, stream));
    cuStreamSynchronize(stream);
    cuMemFree(out);
    cuMemFree(plain);
    cuStreamDestroy(stream);
}

static void asking(void)
{
    CUdeviceptr out = 0, plain = block(BYTES);
    int value = 77;

    cuMemAllocManaged(&out, BYTES, CU_MEM_ATTACH_GLOBAL);
    fact_result("attribute.null", cuMemRangeGetAttribute(NULL, 4, 1, out, BYTES));
    fact_output("attribute.size_3", cuMemRangeGetAttribute(&value, 3, 1, out, BYTES),
                value == 77);
    fact_output("attribute.number_0", cuMemRangeGetAttribute(&value, 4, 0, out, BYTES),
                value == 77);
    fact_output("attribute.number_99", cuMemRangeGetAttribute(&value, 4, 99, out, BYTES),
                value == 77);
    fact_output("attribute.bytes_0", cuMemRangeGetAttribute(&value, 4, 1, out, 0),
                value == 77);
    fact_output("attribute.device_memory",
                cuMemRangeGetAttribute(&value, 4, 1, plain, BYTES), value == 77);
    cuMemFree(out);
    cuMemFree(plain);
}

static void attach_fact(const char *name, CUdeviceptr pointer, size_t bytes,
                        unsigned int flags)
{
    CUstream stream = new_stream(CU_STREAM_DEFAULT);

    fact_result(name, cuStreamAttachMemAsync(stream, pointer, bytes, flags));
    cuStreamSynchronize(stream);
    cuStreamDestroy(stream);
}

static void attaching(void)
{
    CUdeviceptr out = 0, plain = block(BYTES);

    cuMemAllocManaged(&out, BYTES, CU_MEM_ATTACH_GLOBAL);
    attach_fact("attach.single", out, 0, CU_MEM_ATTACH_SINGLE);
    attach_fact("attach.host", out, 0, CU_MEM_ATTACH_HOST);
    attach_fact("attach.global", out, 0, CU_MEM_ATTACH_GLOBAL);
    attach_fact("attach.whole_length", out, BYTES, CU_MEM_ATTACH_GLOBAL);
    attach_fact("attach.part_of_it", out, BYTES / 2, CU_MEM_ATTACH_GLOBAL);
    attach_fact("attach.flags_0", out, 0, 0);
    attach_fact("attach.flags_8", out, 0, 8);
    attach_fact("attach.device_memory", plain, 0, CU_MEM_ATTACH_GLOBAL);
    fact_result("attach.legacy_stream_single",
                cuStreamAttachMemAsync(NULL, out, 0, CU_MEM_ATTACH_SINGLE));
    cuMemFree(out);
    cuMemFree(plain);
}

static const struct part parts[] = {
    {"allocating", allocating, TOGETHER},
    {"sharing", sharing, TOGETHER},
    {"advising", advising, TOGETHER},
    {"asking", asking, TOGETHER},
    {"prefetching", prefetching, RISKY},
    {"attaching", attaching, RISKY},
    END_OF_PARTS,
};
const struct theme theme_managed = {"managed", parts, false};
