/* Test which driver calls end a capture, against the table that an H200 printed.
 *
 * Each call is made in three modes, on the capturing thread and on another, and for both
 * kinds of streams.
 */
#include "driver.h"
#include "output.h"
#include <pthread.h>

static CUcontext context;
static CUstream capturing, other;
static CUevent event;
static CUdeviceptr block; /* created before the capture, if the call needs one */

static CUresult own_id(void)
{
    return driver.cuStreamGetId(capturing, &(unsigned long long){0});
}

static CUresult other_id(void)
{
    return driver.cuStreamGetId(other, &(unsigned long long){0});
}

static CUresult is_capturing(void)
{
    return driver.cuStreamIsCapturing(capturing, &(int){0});
}

static CUresult record_own(void)
{
    return driver.cuEventRecord(event, capturing);
}

static CUresult record_other(void)
{
    return driver.cuEventRecord(event, other);
}

static CUresult record_legacy(void)
{
    return driver.cuEventRecord(event, NULL);
}

static CUresult record_context(void)
{
    return driver.cuCtxRecordEvent(context, event);
}

static CUresult query(void)
{
    return driver.cuEventQuery(event);
}

static CUresult synchronize_event(void)
{
    return driver.cuEventSynchronize(event);
}

static CUresult wait_other(void)
{
    return driver.cuStreamWaitEvent(other, event, 0);
}

static CUresult memory_info(void)
{
    return driver.cuMemGetInfo_v2(&(size_t){0}, &(size_t){0});
}

static CUresult allocate(void)
{
    return driver.cuMemAlloc_v2(&block, 1 << 20);
}

static CUresult free_block(void)
{
    CUresult result = driver.cuMemFree_v2(block);

    block = 0;
    return result;
}

static CUresult range(void)
{
    return driver.cuMemGetAddressRange_v2(&(CUdeviceptr){0}, &(size_t){0}, block);
}

static CUresult pinned(void)
{
    void *memory;
    CUresult result = driver.cuMemHostAlloc(&memory, 1 << 20, 0);

    return result ? result : driver.cuMemFreeHost(memory);
}

static CUresult synchronize_other(void)
{
    return driver.cuStreamSynchronize(other);
}

static CUresult query_other(void)
{
    return driver.cuStreamQuery(other);
}

static CUresult new_event(void)
{
    CUevent made;
    CUresult result = driver.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING);

    return result ? result : driver.cuEventDestroy_v2(made);
}

static CUresult async_pair(CUstream stream)
{
    CUdeviceptr memory;
    CUresult result = driver.cuMemAllocAsync(&memory, 1 << 20, stream);

    return result ? result : driver.cuMemFreeAsync(memory, stream);
}

static CUresult async_other(void)
{
    return async_pair(other);
}

static CUresult async_own(void)
{
    return async_pair(capturing);
}

static CUresult info(void)
{
    uint64_t id;

    return driver.cuStreamGetCaptureInfo_v3(capturing, &(int){0}, &id, NULL, NULL, NULL,
                                            NULL);
}

static const CUmemAllocationProp physical = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
};
enum { PIECE = 2 << 20 };

static CUresult create(void)
{
    CUmemGenericAllocationHandle handle;
    CUresult result = driver.cuMemCreate(&handle, PIECE, &physical, 0);

    return result ? result : driver.cuMemRelease(handle);
}

static CUresult map(void)
{
    const CUmemAccessDesc access = {physical.location,
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = 0;
    CUresult result = driver.cuMemAddressReserve(&address, PIECE, 0, 0, 0);

    result = result ? result : driver.cuMemCreate(&handle, PIECE, &physical, 0);
    result = result ? result : driver.cuMemMap(address, PIECE, 0, handle, 0);
    result = result ? result : driver.cuMemRelease(handle);
    result = result ? result : driver.cuMemSetAccess(address, PIECE, &access, 1);
    result = result ? result : driver.cuMemUnmap(address, PIECE);
    return result ? result : driver.cuMemAddressFree(address, PIECE);
}

static CUresult synchronize_context(void)
{
    return driver.cuCtxSynchronize();
}

static CUresult allocate_and_free(void)
{
    CUdeviceptr memory;
    CUresult result = driver.cuMemAlloc_v2(&memory, 1 << 20);

    return result ? result : driver.cuMemFree_v2(memory);
}

static CUresult relaxed(CUresult (*call)(void))
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    driver.cuThreadExchangeStreamCaptureMode(&mode);
    CUresult result = call();
    driver.cuThreadExchangeStreamCaptureMode(&mode);
    return result;
}

static CUresult relaxed_synchronize(void)
{
    return relaxed(synchronize_context);
}

static CUresult relaxed_record_context(void)
{
    return relaxed(record_context);
}

static CUresult relaxed_record_legacy(void)
{
    return relaxed(record_legacy);
}

static CUresult relaxed_query(void)
{
    return relaxed(query);
}

static CUresult relaxed_allocate(void)
{
    return relaxed(allocate_and_free);
}

static const struct row {
    const char *name;
    CUresult (*call)(void);
} rows[] = {
    {"cuStreamGetId(capturing)", own_id},
    {"cuStreamGetId(other)", other_id},
    {"cuStreamIsCapturing", is_capturing},
    {"cuEventRecord(capturing)", record_own},
    {"cuEventRecord(other)", record_other},
    {"cuEventQuery", query},
    {"cuStreamWaitEvent(other)", wait_other},
    {"cuCtxRecordEvent", record_context},
    {"cuMemGetInfo", memory_info},
    {"cuMemAlloc", allocate},
    {"cuMemFree", free_block},
    {"cuMemCreate+Release", create},
    {"cuMemGetAddressRange", range},
    {"cuMemHostAlloc+Free", pinned},
    {"cuCtxSynchronize", synchronize_context},
    {"cuStreamSynchronize(other)", synchronize_other},
    {"cuStreamQuery(other)", query_other},
    {"cuEventSynchronize(done event)", synchronize_event},
    {"cuEventRecord(legacy stream)", record_legacy},
    {"reserve+create+map+access+unmap", map},
    {"cuEventCreate+Destroy", new_event},
    {"cuMemAllocAsync+FreeAsync(other)", async_other},
    {"cuMemAllocAsync+FreeAsync(capturing)", async_own},
    {"cuStreamGetCaptureInfo", info},
    {"relaxed thread mode: cuCtxSynchronize", relaxed_synchronize},
    {"relaxed thread mode: cuCtxRecordEvent", relaxed_record_context},
    {"relaxed thread mode: record(legacy)", relaxed_record_legacy},
    {"relaxed thread mode: cuEventQuery", relaxed_query},
    {"relaxed thread mode: cuMemAlloc+Free", relaxed_allocate},
};
enum { ROWS = sizeof rows / sizeof *rows };

struct visit {
    CUresult (*call)(void);
    CUresult result;
};

static void *call_there(void *data)
{
    struct visit *visit = data;

    driver.cuCtxSetCurrent(context);
    visit->result = visit->call();
    return NULL;
}

static CUresult call_in_a_thread(CUresult (*call)(void))
{
    struct visit visit = {call, CUDA_SUCCESS};
    pthread_t thread;

    CHECK_EQUAL(0, pthread_create(&thread, NULL, call_there, &visit));
    pthread_join(thread, NULL);
    return visit.result;
}

/* Make one call during one capture. */
static void cell(const struct row *row, int mode, bool elsewhere)
{
    static const char *const modes[] = {"global", "thread-local", "relaxed"};
    CUgraph graph = NULL;

    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuEventRecord(event, other));
    if (row->call == free_block || row->call == range)
        CU(cuMemAlloc_v2(&block, 1 << 20));
    CU(cuStreamBeginCapture_v2(capturing, mode));
    CUresult result = elsewhere ? call_in_a_thread(row->call) : row->call();
    CUresult end = driver.cuStreamEndCapture(capturing, &graph);
    print_output(" | %s%s %d%s", modes[mode], elsewhere ? "/other thread" : "", result,
                 end ? " kills" : "");
    if (block)
        CU(cuMemFree_v2(block));
    block = 0;
    if (graph)
        CU(cuGraphDestroy(graph));
    CU(cuStreamSynchronize(other));
    CU(cuEventDestroy_v2(event));
}

static void print_table(unsigned flags)
{
    CU(cuStreamCreate(&capturing, flags));
    print_output("capturing stream is %s\n", flags ? "non-blocking" : "blocking");
    for (size_t i = 0; i < ROWS; i++) {
        print_output("%-38s", rows[i].name);
        for (int cells = 0; cells < 6; cells++)
            cell(&rows[i], cells / 2, cells % 2);
        print_output("\n");
    }
    CU(cuStreamDestroy_v2(capturing));
}

TEST(capture_is_invalidated_by_the_same_calls_as_on_an_h200)
{
    context = use_device(0);
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    print_table(CU_STREAM_NON_BLOCKING);
    print_table(0);
    CU(cuStreamDestroy_v2(other));
    check_output("h200_capture.txt");
}
