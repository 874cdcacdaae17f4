/* mempool.c -- facts about stream-ordered memory: pools, attributes, reuse, access,
 * export. */
#include "facts.h"

static CUmemoryPool default_pool(void)
{
    CUmemoryPool pool = NULL;

    cuDeviceGetDefaultMemPool(&pool, device);
    return pool;
}

static CUmemPoolProps pool_props(void)
{
    return (CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
}

static CUmemoryPool new_pool(void)
{
    CUmemPoolProps props = pool_props();
    CUmemoryPool pool = NULL;

    cuMemPoolCreate(&pool, &props);
    return pool;
}

static uint64_t get(CUmemoryPool pool, int attribute)
{
    uint64_t value = 77;

    cuMemPoolGetAttribute(pool, attribute, &value);
    return value;
}

static CUresult set(CUmemoryPool pool, int attribute, uint64_t value)
{
    return cuMemPoolSetAttribute(pool, attribute, &value);
}

static const char *const attribute_names[] = {"none",
                                              "REUSE_FOLLOW_EVENT_DEPENDENCIES",
                                              "REUSE_ALLOW_OPPORTUNISTIC",
                                              "REUSE_ALLOW_INTERNAL_DEPENDENCIES",
                                              "RELEASE_THRESHOLD",
                                              "RESERVED_MEM_CURRENT",
                                              "RESERVED_MEM_HIGH",
                                              "USED_MEM_CURRENT",
                                              "USED_MEM_HIGH"};

static void default_pools(void)
{
    CUmemoryPool a = NULL, b = (CUmemoryPool)(uintptr_t)77;

    fact_result("default.null", cuDeviceGetDefaultMemPool(NULL, device));
    fact_output("default.bad_device", cuDeviceGetDefaultMemPool(&b, 99), b == (void *)77);
    fact_result("default", cuDeviceGetDefaultMemPool(&a, device));
    cuDeviceGetDefaultMemPool(&b, device);
    fact_bool("default.same_again", a == b);
    fact_result("current", cuDeviceGetMemPool(&b, device));
    fact_bool("current.is_the_default", a == b);
    fact_result("default.destroy", cuMemPoolDestroy(a));
    for (int i = 1; i < 9; i++) {
        uint64_t value = 0;
        CUresult result = cuMemPoolGetAttribute(a, i, &value);
        fact(named("default.%s", attribute_names[i]), "%s, %llu", result_name(result),
             i < 4 ? (unsigned long long)(unsigned)value : (unsigned long long)value);
    }
}

static void attributes(void)
{
    CUmemoryPool pool = new_pool();
    uint64_t value = 77;

    for (int i = 1; i < 4; i++) {
        int yes = 77;
        cuMemPoolGetAttribute(pool, i, &yes);
        fact(named("attribute.%s", attribute_names[i]), "%d", yes);
        fact_result(named("attribute.%s.set_0", attribute_names[i]), set(pool, i, 0));
        cuMemPoolGetAttribute(pool, i, &yes);
        fact(named("attribute.%s.then", attribute_names[i]), "%d", yes);
        fact_result(named("attribute.%s.set_2", attribute_names[i]), set(pool, i, 2));
        cuMemPoolGetAttribute(pool, i, &yes);
        fact(named("attribute.%s.after_2", attribute_names[i]), "%d", yes);
    }
    fact_result("attribute.RELEASE_THRESHOLD.set_max", set(pool, 4, UINT64_MAX));
    fact_bool("attribute.RELEASE_THRESHOLD.is_max", get(pool, 4) == UINT64_MAX);
    fact_result("attribute.RELEASE_THRESHOLD.set_odd", set(pool, 4, 12345));
    fact("attribute.RELEASE_THRESHOLD.then", "%llu", (unsigned long long)get(pool, 4));
    for (int i = 5; i < 9; i++) {
        fact_result(named("attribute.%s.set_0", attribute_names[i]), set(pool, i, 0));
        fact_result(named("attribute.%s.set_1", attribute_names[i]), set(pool, i, 1));
    }
    fact_result("attribute.number_0.get", cuMemPoolGetAttribute(pool, 0, &value));
    fact_result("attribute.number_0.set", set(pool, 0, 1));
    fact_output("attribute.number_99.get", cuMemPoolGetAttribute(pool, 99, &value),
                value == 77);
    fact_result("attribute.number_99.set", set(pool, 99, 1));
    fact_result("attribute.get_null", cuMemPoolGetAttribute(pool, 4, NULL));
    fact_result("attribute.set_null", cuMemPoolSetAttribute(pool, 4, NULL));
    fact_result("attribute.null_pool", cuMemPoolGetAttribute(NULL, 4, &value));
    cuMemPoolDestroy(pool);
}

static void create_fact(const char *name, CUmemPoolProps props)
{
    CUmemoryPool out = (CUmemoryPool)(uintptr_t)77;
    CUresult result = cuMemPoolCreate(&out, &props);

    fact_output(name, result, out == (void *)77);
    if (result == CUDA_SUCCESS)
        fact_result(named("%s.destroy", name), cuMemPoolDestroy(out));
}

static void creating(void)
{
    CUmemPoolProps props = pool_props();
    CUmemoryPool out = NULL;

    create_fact("create", props);
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    create_fact("create.posix_handles", props);
    props.handleTypes = 2;
    create_fact("create.win32_handles", props);
    props.handleTypes = 0x40;
    create_fact("create.bad_handles", props);
    props = pool_props(), props.location.type = 0;
    create_fact("create.location_type_0", props);
    props = pool_props(), props.location.type = 77;
    create_fact("create.location_type_77", props);
    props = pool_props(), props.location.id = 99;
    create_fact("create.location_id_99", props);
    props = pool_props(), props.location.id = -1;
    create_fact("create.location_id_-1", props);
    props = pool_props(), props.allocType = 0;
    create_fact("create.type_0", props);
    props = pool_props(), props.allocType = 77;
    create_fact("create.type_77", props);
    props = pool_props(), props.maxSize = 64 * MIB;
    create_fact("create.max_64MiB", props);
    props = pool_props(), props.reserved[53] = 1;
    create_fact("create.reserved_not_0", props);
    props = pool_props();
    fact_result("create.null", cuMemPoolCreate(NULL, &props));
    fact_result("create.null_props", cuMemPoolCreate(&out, NULL));
    fact_result("destroy.null", cuMemPoolDestroy(NULL));
}

static void capped(void)
{
    CUmemPoolProps props = pool_props();
    CUmemoryPool pool = NULL;
    CUdeviceptr a = 7, b = 7;

    props.maxSize = 64 * MIB;
    cuMemPoolCreate(&pool, &props);
    fact_result("capped.32MiB", cuMemAllocFromPoolAsync(&a, 32 * MIB, pool, NULL));
    fact_output("capped.64MiB_more", cuMemAllocFromPoolAsync(&b, 64 * MIB, pool, NULL),
                b == 7);
    cuMemFreeAsync(a, NULL);
    cuStreamSynchronize(NULL);
    cuMemPoolDestroy(pool);
}

static void allocating(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUmemoryPool pool = new_pool();
    CUdeviceptr out = 7, plain = block(4096);

    fact_result("alloc.null", cuMemAllocAsync(NULL, 256, stream));
    fact_output("alloc.bytes_0", cuMemAllocAsync(&out, 0, stream), out == 7);
    out = 7;
    fact_output("alloc.huge", cuMemAllocAsync(&out, (size_t)1 << 50, stream), out == 7);
    out = 7;
    fact_result("alloc", cuMemAllocAsync(&out, 1, stream));
    fact_bool("alloc.aligned_to_512", out % 512 == 0);
    fact_result("free.interior", cuMemFreeAsync(out + 1, stream));
    fact_result("free", cuMemFreeAsync(out, stream));
    fact_result("free.twice", cuMemFreeAsync(out, stream));
    fact_result("free.null", cuMemFreeAsync(0, stream));
    fact_result("free.garbage", cuMemFreeAsync(0x1234500, stream));
    fact_result("free.plain_memory", cuMemFreeAsync(plain, stream));
    cuStreamSynchronize(stream);
    fact_result("free.plain_memory_then_cuMemFree", cuMemFree(plain));
    cuMemAllocAsync(&out, 4096, stream);
    fact_result("free.by_cuMemFree", cuMemFree(out));
    fact_result("free.by_cuMemFree_twice", cuMemFree(out));
    out = 7;
    fact_output("alloc.from_null_pool", cuMemAllocFromPoolAsync(&out, 256, NULL, stream),
                out == 7);
    fact_result("alloc.from_pool", cuMemAllocFromPoolAsync(&out, 4096, pool, stream));
    fact_result("alloc.from_pool.free", cuMemFreeAsync(out, stream));
    fact_result("alloc.legacy_stream", cuMemAllocAsync(&out, 4096, NULL));
    fact_result("alloc.legacy_stream.free_on_another", cuMemFreeAsync(out, stream));
    fact_result("alloc.per_thread_stream",
                cuMemAllocAsync(&out, 4096, CU_STREAM_PER_THREAD));
    cuMemFreeAsync(out, CU_STREAM_PER_THREAD);
    cuCtxSynchronize();
    cuMemPoolDestroy(pool);
    cuStreamDestroy(stream);
}

static void counting(void)
{
    CUmemoryPool pool = new_pool();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = 0, b = 0;

    cuMemAllocFromPoolAsync(&a, 1000, pool, stream);
    fact("count.used_by_1000", "%llu", (unsigned long long)get(pool, 7));
    fact("count.reserved_MiB", "%llu", (unsigned long long)(get(pool, 5) / MIB));
    cuMemAllocFromPoolAsync(&b, 4 * MIB, pool, stream);
    fact("count.used_by_both", "%llu", (unsigned long long)get(pool, 7));
    fact("count.reserved_MiB_by_both", "%llu", (unsigned long long)(get(pool, 5) / MIB));
    cuMemFreeAsync(b, stream);
    fact("count.used_after_free", "%llu", (unsigned long long)get(pool, 7));
    fact("count.used_high", "%llu", (unsigned long long)get(pool, 8));
    set(pool, 8, 0);
    fact("count.used_high_reset", "%llu", (unsigned long long)get(pool, 8));
    cuMemFreeAsync(a, stream);
    fact("count.used_at_the_end", "%llu", (unsigned long long)get(pool, 7));
    fact("count.reserved_before_a_wait_MiB", "%llu",
         (unsigned long long)(get(pool, 5) / MIB));
    cuStreamSynchronize(stream);
    fact("count.reserved_after_a_wait_MiB", "%llu",
         (unsigned long long)(get(pool, 5) / MIB));
    fact("count.reserved_high_MiB", "%llu", (unsigned long long)(get(pool, 6) / MIB));
    set(pool, 6, 0);
    fact("count.reserved_high_reset_MiB", "%llu",
         (unsigned long long)(get(pool, 6) / MIB));
    cuMemAllocFromPoolAsync(&a, 100 * MIB, pool, stream);
    fact("count.reserved_by_100MiB", "%llu", (unsigned long long)(get(pool, 5) / MIB));
    cuMemFreeAsync(a, stream);
    cuStreamSynchronize(stream);
    cuMemPoolDestroy(pool);
    cuStreamDestroy(stream);
}

/* The memory that a pool keeps: by its threshold at a wait, by cuMemPoolTrimTo, at once.
 */
static void keeping(void)
{
    CUmemoryPool pool = new_pool();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = 0, b = 0;

    set(pool, 4, UINT64_MAX);
    cuMemAllocFromPoolAsync(&a, 64 * MIB, pool, stream);
    cuMemFreeAsync(a, stream);
    cuStreamSynchronize(stream);
    fact("keep.by_threshold_MiB", "%llu", (unsigned long long)(get(pool, 5) / MIB));
    fact_result("keep.trim_to_32MiB", cuMemPoolTrimTo(pool, 32 * MIB));
    fact("keep.trimmed_to_32MiB", "%llu", (unsigned long long)(get(pool, 5) / MIB));
    fact_result("keep.trim_to_0", cuMemPoolTrimTo(pool, 0));
    fact("keep.trimmed_to_0_MiB", "%llu", (unsigned long long)(get(pool, 5) / MIB));
    cuMemAllocFromPoolAsync(&a, 64 * MIB, pool, stream);
    cuStreamSynchronize(stream);
    cuMemPoolTrimTo(pool, 0);
    fact("keep.trimmed_while_in_use_MiB", "%llu",
         (unsigned long long)(get(pool, 5) / MIB));
    cuMemFreeAsync(a, stream);
    set(pool, 4, 0);
    cuMemAllocFromPoolAsync(&b, 4 * MIB, pool, stream);
    cuStreamSynchronize(stream);
    fact("keep.threshold_0_one_left_MiB", "%llu",
         (unsigned long long)(get(pool, 5) / MIB));
    cuMemFreeAsync(b, stream);
    cuStreamSynchronize(stream);
    fact("keep.threshold_0_none_left_MiB", "%llu",
         (unsigned long long)(get(pool, 5) / MIB));
    fact_result("keep.trim_null", cuMemPoolTrimTo(NULL, 0));
    cuMemPoolDestroy(pool);
    cuStreamDestroy(stream);
}

/* The calls that apply the threshold. */
static void released_by(const char *name, CUresult (*wait)(CUstream, CUevent))
{
    CUmemoryPool pool = new_pool();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    CUdeviceptr a = 0;

    cuMemAllocFromPoolAsync(&a, 64 * MIB, pool, stream);
    cuMemFreeAsync(a, stream);
    cuEventRecord(event, stream);
    wait(stream, event);
    fact(named("released_by.%s_MiB", name), "%llu",
         (unsigned long long)(get(pool, 5) / MIB));
    cuMemPoolDestroy(pool);
    cuEventDestroy(event);
    cuStreamDestroy(stream);
}

static CUresult by_stream(CUstream stream, CUevent event)
{
    (void)event;
    return cuStreamSynchronize(stream);
}

static CUresult by_event(CUstream stream, CUevent event)
{
    (void)stream;
    return cuEventSynchronize(event);
}

static CUresult by_context(CUstream stream, CUevent event)
{
    (void)stream, (void)event;
    return cuCtxSynchronize();
}

static CUresult by_query(CUstream stream, CUevent event)
{
    CUresult result;

    (void)event;
    do
        result = cuStreamQuery(stream);
    while (result == CUDA_ERROR_NOT_READY);
    return result;
}

static void releasing(void)
{
    released_by("cuStreamSynchronize", by_stream);
    released_by("cuEventSynchronize", by_event);
    released_by("cuCtxSynchronize", by_context);
    released_by("cuStreamQuery", by_query);
}

/* Return whether the next allocation reuses the freed memory. `how` prepares the second
 * stream. */
enum reuse { SAME_STREAM, WAITED_EVENT, NO_RELATION_DONE, NO_RELATION_PENDING };

static void reuse_fact(const char *name, enum reuse how, int attribute_off)
{
    CUmemoryPool pool = new_pool();
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    CUdeviceptr a = 0, b = 0;
    struct gate gate = {.open = true};

    set(pool, 4, UINT64_MAX);
    for (int i = 1; i < 4; i++)
        if (attribute_off & (1 << i))
            set(pool, i, 0);
    cuMemAllocFromPoolAsync(&a, 4 * MIB, pool, first);
    if (how == WAITED_EVENT || how == NO_RELATION_PENDING)
        gate_close(&gate, first);
    cuMemFreeAsync(a, first);
    cuEventRecord(event, first);
    if (how == WAITED_EVENT)
        cuStreamWaitEvent(second, event, 0);
    if (how == NO_RELATION_DONE)
        cuStreamSynchronize(first);
    CUresult result =
        cuMemAllocFromPoolAsync(&b, 4 * MIB, pool, how == SAME_STREAM ? first : second);
    fact(name, "%s, %s", result_name(result),
         a == b ? "the same memory" : "other memory");
    gate_open(&gate);
    cuMemFreeAsync(b, second);
    cuCtxSynchronize();
    cuMemPoolDestroy(pool);
    cuEventDestroy(event);
    cuStreamDestroy(first);
    cuStreamDestroy(second);
}

static void reusing(void)
{
    reuse_fact("reuse.same_stream", SAME_STREAM, 0);
    reuse_fact("reuse.same_stream_all_off", SAME_STREAM, 14);
    reuse_fact("reuse.after_event_wait", WAITED_EVENT, 0);
    reuse_fact("reuse.after_event_wait_follow_off", WAITED_EVENT, 2 | 8);
    reuse_fact("reuse.other_stream_done", NO_RELATION_DONE, 0);
    reuse_fact("reuse.other_stream_done_opportunistic_off", NO_RELATION_DONE, 4 | 8);
    reuse_fact("reuse.other_stream_done_all_off", NO_RELATION_DONE, 14);
    reuse_fact("reuse.other_stream_pending_internal_off", NO_RELATION_PENDING, 8);
    reuse_fact("reuse.other_stream_pending_all_off", NO_RELATION_PENDING, 14);
    reuse_fact("reuse.other_stream_pending", NO_RELATION_PENDING, 0);
}

/* Memory may be used on the stream of its allocation before that stream reaches it. */
static void ordered(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = 0, keep = block_of(4096, 0);
    struct gate gate;

    gate_close(&gate, stream);
    fact_result("ordered.alloc_behind_a_gate", cuMemAllocAsync(&a, 4096, stream));
    cuMemsetD8Async(a, 5, 4096, stream);
    cuMemcpyDtoDAsync(keep, a, 4096, stream);
    fact_result("ordered.free_behind_a_gate", cuMemFreeAsync(a, stream));
    gate_open(&gate);
    fact("ordered.bytes", "%d", peek(keep));
    cuMemFree(keep);
    cuStreamDestroy(stream);
}

static void access_fact(const char *name, CUmemoryPool pool, CUmemLocation location)
{
    int flags = 77;
    CUresult result = cuMemPoolGetAccess(&flags, pool, &location);

    fact(name, "%s, %d", result_name(result), flags);
}

static void accessing(void)
{
    CUmemoryPool pool = new_pool();
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemAccessDesc access = vmm_access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

    access_fact("access.own_device", pool, here);
    access_fact("access.host", pool, (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0});
    access_fact("access.bad_device", pool,
                (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 99});
    access_fact("access.bad_type", pool, (CUmemLocation){77, 0});
    fact_result("access.null", cuMemPoolGetAccess(NULL, pool, &here));
    fact_result("access.set_own_readwrite", cuMemPoolSetAccess(pool, &access, 1));
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    fact_result("access.set_own_read", cuMemPoolSetAccess(pool, &access, 1));
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    fact_result("access.set_own_none", cuMemPoolSetAccess(pool, &access, 1));
    access.flags = 2;
    fact_result("access.set_own_flags_2", cuMemPoolSetAccess(pool, &access, 1));
    access = vmm_access(3), access.location.id = 99;
    fact_result("access.set_bad_device", cuMemPoolSetAccess(pool, &access, 1));
    access = vmm_access(3), access.location.type = CU_MEM_LOCATION_TYPE_HOST;
    fact_result("access.set_host", cuMemPoolSetAccess(pool, &access, 1));
    fact_result("access.set_count_0", cuMemPoolSetAccess(pool, &access, 0));
    fact_result("access.set_null", cuMemPoolSetAccess(pool, NULL, 1));
    cuMemPoolDestroy(pool);
}

static void current_pool(void)
{
    CUmemoryPool mine = new_pool(), now = NULL;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = 0;

    fact_result("set_current", cuDeviceSetMemPool(device, mine));
    cuDeviceGetMemPool(&now, device);
    fact_bool("set_current.is_mine", now == mine);
    cuMemAllocAsync(&a, 4096, stream);
    fact("set_current.used", "%llu", (unsigned long long)get(mine, 7));
    cuMemFreeAsync(a, stream);
    cuStreamSynchronize(stream);
    fact_result("set_current.bad_device", cuDeviceSetMemPool(99, mine));
    fact_result("set_current.null", cuDeviceSetMemPool(device, NULL));
    fact_result("set_current.destroy", cuMemPoolDestroy(mine));
    cuDeviceGetMemPool(&now, device);
    fact_bool("set_current.default_again", now == default_pool());
    cuStreamDestroy(stream);
}

/* A pool may be destroyed before its memory: it ends when the last block is freed. */
static void destroyed_in_use(void)
{
    CUmemoryPool pool = new_pool();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = 0;

    cuMemAllocFromPoolAsync(&a, 4096, pool, stream);
    fact_result("destroyed_in_use", cuMemPoolDestroy(pool));
    fact_result("destroyed_in_use.memset", cuMemsetD8Async(a, 5, 4096, stream));
    cuStreamSynchronize(stream);
    fact("destroyed_in_use.byte", "%d", peek(a));
    fact_result("destroyed_in_use.free", cuMemFreeAsync(a, stream));
    fact_result("destroyed_in_use.synchronize", cuStreamSynchronize(stream));
    cuStreamDestroy(stream);
}

static void exporting(void)
{
    CUmemoryPool pool = new_pool();
    CUmemPoolPtrExportData data;
    CUdeviceptr a = 0, plain = block(4096);
    int fd = -77;

    cuMemAllocFromPoolAsync(&a, 4096, pool, NULL);
    cuStreamSynchronize(NULL);
    fact_output("export.pool_without_handles",
                cuMemPoolExportToShareableHandle(&fd, pool, 1, 0), fd == -77);
    fact_result("export.pointer_without_handles", cuMemPoolExportPointer(&data, a));
    fact_result("export.pointer_plain_memory", cuMemPoolExportPointer(&data, plain));
    fact_result("export.pointer_null", cuMemPoolExportPointer(&data, 0));
    fact_output("export.default_pool",
                cuMemPoolExportToShareableHandle(&fd, default_pool(), 1, 0), fd == -77);
    cuMemFreeAsync(a, NULL);
    cuStreamSynchronize(NULL);
    cuMemPoolDestroy(pool);

    CUmemPoolProps props = pool_props();
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    cuMemPoolCreate(&pool, &props);
    cuMemAllocFromPoolAsync(&a, 4096, pool, NULL);
    cuStreamSynchronize(NULL);
    fact_result("export.pointer_before_its_pool", cuMemPoolExportPointer(&data, a));
    fact_output("export.pool_handle_type_0",
                cuMemPoolExportToShareableHandle(&fd, pool, 0, 0), fd == -77);
    fact_output("export.pool_flags_1", cuMemPoolExportToShareableHandle(&fd, pool, 1, 1),
                fd == -77);
    fact_result("export.pool_null", cuMemPoolExportToShareableHandle(NULL, pool, 1, 0));
    fact_result("export.pool", cuMemPoolExportToShareableHandle(&fd, pool, 1, 0));
    fact_bool("export.pool.fd", fd >= 0);
    fact_result("export.pointer_after_its_pool", cuMemPoolExportPointer(&data, a));
    cuMemFreeAsync(a, NULL);
    cuStreamSynchronize(NULL);
    cuMemPoolDestroy(pool);
    cuMemFree(plain);
}

static void import_garbage(void)
{
    CUmemoryPool out = (CUmemoryPool)(uintptr_t)77;

    fact_output("import.bad_fd",
                cuMemPoolImportFromShareableHandle(&out, (void *)(uintptr_t)999, 1, 0),
                out == (void *)77);
    fact_output("import.fd_of_stdout",
                cuMemPoolImportFromShareableHandle(&out, (void *)(uintptr_t)1, 1, 0),
                out == (void *)77);
}

static void destroy_twice(void)
{
    CUmemoryPool pool = new_pool();

    cuMemPoolDestroy(pool);
    fact_result("destroy_twice", cuMemPoolDestroy(pool));
}

static void wrong_handle(void)
{
    uint64_t value = 0;

    fact_result("wrong_handle",
                cuMemPoolGetAttribute((CUmemoryPool)(uintptr_t)0x1234560, 4, &value));
}

static const struct part parts[] = {
    {"default_pools", default_pools, TOGETHER},
    {"attributes", attributes, TOGETHER},
    {"creating", creating, TOGETHER},
    {"capped", capped, TOGETHER},
    {"allocating", allocating, TOGETHER},
    {"counting", counting, TOGETHER},
    {"keeping", keeping, TOGETHER},
    {"releasing", releasing, TOGETHER},
    {"reusing", reusing, TOGETHER},
    {"ordered", ordered, TOGETHER},
    {"accessing", accessing, TOGETHER},
    {"current_pool", current_pool, TOGETHER},
    {"destroyed_in_use", destroyed_in_use, TOGETHER},
    {"exporting", exporting, TOGETHER},
    {"import_garbage", import_garbage, RISKY},
    {"destroy_twice", destroy_twice, RISKY},
    {"wrong_handle", wrong_handle, RISKY},
    END_OF_PARTS,
};
const struct theme theme_mempool = {"mempool", parts, false};
