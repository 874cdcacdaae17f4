/* ipc.c -- facts about memory, events, VMM handles and pools shared between processes.
 *
 * The parts with two processes fork before the driver is opened. One is the owner, one
 * the importer. They print in turn, synchronized by a socket, so their lines have one
 * order.
 */
#include "facts.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

/* --- rejected arguments within one process --- */

static void handle_fact(const char *name, CUdeviceptr pointer)
{
    CUipcMemHandle handle, kept;

    memset(&handle, 0x77, sizeof handle);
    kept = handle;
    CUresult result = cuIpcGetMemHandle(&handle, pointer);
    fact_output(name, result, memcmp(&handle, &kept, sizeof handle) == 0);
}

static void handles(void)
{
    CUdeviceptr plain = block(MIB), managed = 0, pooled = 0;
    struct range range = vmm_range(2 * MIB);
    void *pin = pinned(PAGE);
    static char mine[64];

    handle_fact("handle.device", plain);
    handle_fact("handle.interior", plain + PAGE);
    handle_fact("handle.one_past", plain + 8 * MIB);
    fact_result("handle.null_output", cuIpcGetMemHandle(NULL, plain));
    cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL);
    handle_fact("handle.managed", managed);
    cuMemAllocAsync(&pooled, MIB, NULL);
    cuStreamSynchronize(NULL);
    handle_fact("handle.pooled", pooled);
    handle_fact("handle.vmm", range.pointer);
    handle_fact("handle.pinned", (CUdeviceptr)(uintptr_t)pin);
    handle_fact("handle.pageable", (CUdeviceptr)(uintptr_t)mine);
    handle_fact("handle.null", 0);
    handle_fact("handle.garbage", 0x1234500);
    cuMemFree(plain);
    handle_fact("handle.freed", plain);
    cuMemFree(managed);
    cuMemFreeAsync(pooled, NULL);
    cuStreamSynchronize(NULL);
    cuMemFreeHost(pin);
    vmm_end(&range);
}

static void own_process(void)
{
    CUdeviceptr plain = block(MIB), out = 7;
    CUipcMemHandle a, b;

    cuIpcGetMemHandle(&a, plain);
    cuIpcGetMemHandle(&b, plain);
    fact_bool("handle.same_again", !memcmp(&a, &b, sizeof a));
    cuIpcGetMemHandle(&b, plain + PAGE);
    fact_bool("handle.same_of_interior", !memcmp(&a, &b, sizeof a));
    fact_output("open.own_process", cuIpcOpenMemHandle(&out, a, 1), out == 7);
    fact_output("open.flags_0", cuIpcOpenMemHandle(&out, a, 0), out == 7);
    fact_output("open.flags_2", cuIpcOpenMemHandle(&out, a, 2), out == 7);
    fact_result("open.null_output", cuIpcOpenMemHandle(NULL, a, 1));
    memset(&b, 0, sizeof b);
    fact_output("open.zeros", cuIpcOpenMemHandle(&out, b, 1), out == 7);
    fact_result("close.own_memory", cuIpcCloseMemHandle(plain));
    fact_result("close.null", cuIpcCloseMemHandle(0));
    fact_result("close.garbage", cuIpcCloseMemHandle(0x1234500));
    fact_result("close.own_memory_unharmed", cuMemsetD8(plain, 1, MIB));
    cuMemFree(plain);
}

static void open_ones(void)
{
    CUdeviceptr out = 7;
    CUipcMemHandle handle;

    memset(&handle, 0xff, sizeof handle);
    fact_output("open_ones", cuIpcOpenMemHandle(&out, handle, 1), out == 7);
}

static void own_events(void)
{
    CUevent plain = new_event(), shared = NULL, out = (CUevent)(uintptr_t)77;
    CUipcEventHandle handle;

    memset(&handle, 0x77, sizeof handle);
    fact_result("event.handle_of_a_plain_one", cuIpcGetEventHandle(&handle, plain));
    fact_result("event.handle_null", cuIpcGetEventHandle(&handle, NULL));
    cuEventCreate(&shared, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    fact_result("event.null_output", cuIpcGetEventHandle(NULL, shared));
    fact_result("event.handle", cuIpcGetEventHandle(&handle, shared));
    fact_output("event.open_own_process", cuIpcOpenEventHandle(&out, handle),
                out == (void *)77);
    fact_result("event.open_null_output", cuIpcOpenEventHandle(NULL, handle));
    out = (CUevent)(uintptr_t)77;
    memset(&handle, 0, sizeof handle);
    fact_output("event.open_zeros", cuIpcOpenEventHandle(&out, handle),
                out == (void *)77);
    cuEventDestroy(plain);
    cuEventDestroy(shared);
}

/* --- two processes --- */

static int line; /* this process's end of the socket */

static void send_data(const void *data, size_t bytes)
{
    if (write(line, data, bytes) != (ssize_t)bytes)
        _exit(3);
}

static void receive_data(void *data, size_t bytes)
{
    if (recv(line, data, bytes, MSG_WAITALL) != (ssize_t)bytes)
        _exit(4); /* the other one died: its lines are missing */
}

/* The two meet: neither continues before both have reached this point. */
static void notify_peer(void)
{
    send_data("x", 1);
}

static void wait_for_peer(void)
{
    char mark;

    receive_data(&mark, 1);
}

static void send_fd(int fd)
{
    char mark = 'f';
    struct iovec part = {&mark, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } extra = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &extra,
                             .msg_controllen = sizeof extra};

    memcpy(CMSG_DATA(&extra.header), &fd, sizeof fd);
    if (sendmsg(line, &message, 0) != 1)
        _exit(3);
}

static int receive_fd(void)
{
    char mark;
    int fd = -1;
    struct iovec part = {&mark, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } extra;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &extra,
                             .msg_controllen = sizeof extra};

    if (recvmsg(line, &message, 0) != 1)
        _exit(4);
    if (CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* Run `owner` here and `opener` in a child. */
static void two(void (*first)(void), void (*second)(void))
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        _exit(5);
    signal(SIGPIPE, SIG_IGN);
    pid_t child = fork();
    line = ends[child == 0];
    close(ends[child != 0]);
    if (child == 0) {
        alarm(40);
        ready();
        second();
        _exit(0);
    }
    ready();
    first();
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0)
        fact("opener", "%s", WIFSIGNALED(status) ? "dies" : "stops");
}

/* The owner's block: 5 in its first page, 7 after it. */
static CUdeviceptr striped(size_t bytes)
{
    CUdeviceptr pointer = block_of(bytes, 7);

    cuMemsetD8(pointer, 5, PAGE);
    cuCtxSynchronize();
    return pointer;
}

static void send_handle(CUdeviceptr pointer)
{
    CUipcMemHandle handle;

    memset(&handle, 0, sizeof handle);
    cuIpcGetMemHandle(&handle, pointer);
    send_data(&handle, sizeof handle);
}

static void memory_owner(void)
{
    CUdeviceptr a = striped(4 * MIB);

    send_handle(a);
    send_handle(a + PAGE);
    wait_for_peer(); /* the other has written 9 */
    fact("memory.owner_sees", "%d", peek(a));
    fact_result("memory.owner_frees_while_open", cuMemFree(a));
    notify_peer();
    wait_for_peer();
}

static void pointer_facts(CUdeviceptr pointer)
{
    int type = 0, ordinal = -7;
    CUdeviceptr start = 0, base = 0;
    size_t bytes = 0;
    int capable = 77;

    cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
    cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer);
    cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer);
    fact("memory.attributes", "type %d, ordinal %d, range from %s", type, ordinal,
         start == pointer ? "the start" : "elsewhere");
    CUresult result = cuPointerGetAttribute(
        &capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, pointer);
    fact("memory.ipc_capable", "%s, %d", result_name(result), capable);
    result = cuMemGetAddressRange(&base, &bytes, pointer + 5);
    fact("memory.range", "%s, %+lld, %zu bytes", result_name(result),
         (long long)(base - pointer), bytes);
    handle_fact("memory.handle_of_opened", pointer);
}

static void memory_opener(void)
{
    CUipcMemHandle start, interior;
    CUdeviceptr a = 0, b = 0, c = 0;

    receive_data(&start, sizeof start);
    receive_data(&interior, sizeof interior);
    fact_result("memory.open_flags_0", cuIpcOpenMemHandle(&b, start, 0));
    fact_result("memory.open", cuIpcOpenMemHandle(&a, start, 1));
    fact("memory.bytes", "%d %d", peek(a), peek(a + PAGE));
    pointer_facts(a);
    CUresult result = cuIpcOpenMemHandle(&b, start, 1);
    fact("memory.open_again", "%s, %s", result_name(result),
         b == a ? "same address" : "another address");
    result = cuIpcOpenMemHandle(&c, interior, 1);
    fact("memory.open_interior", "%s, %s", result_name(result),
         c == a          ? "the start"
         : c == a + PAGE ? "the interior"
                         : "elsewhere");
    if (result == CUDA_SUCCESS)
        fact_result("memory.close_interior", cuIpcCloseMemHandle(c));
    fact_result("memory.free_opened", cuMemFree(a));
    fact_result("memory.close_inside", cuIpcCloseMemHandle(a + PAGE));
    fact_result("memory.write", cuMemsetD8(a, 9, PAGE));
    cuCtxSynchronize();
    notify_peer();
    wait_for_peer(); /* the owner has freed it */
    fact("memory.after_owner_freed", "%d", peek(a));
    fact_result("memory.close", cuIpcCloseMemHandle(a));
    fact_result("memory.read_after_one_close", cuMemcpyDtoH(&(char){0}, a, 1));
    fact_result("memory.close_second", cuIpcCloseMemHandle(b));
    fact_result("memory.close_third", cuIpcCloseMemHandle(b));
    fact_result("memory.close_fourth", cuIpcCloseMemHandle(b));
    fact_result("memory.read_after_closes", cuMemcpyDtoH(&(char){0}, a, 1));
    a = 7;
    fact_output("memory.open_freed", cuIpcOpenMemHandle(&a, start, 1), a == 7);
    notify_peer();
}

/* Two small blocks of one page: each handle leads to its own bytes. */
static void small_owner(void)
{
    CUdeviceptr a = block_of(256, 1), b = block_of(256, 2);

    send_handle(a);
    send_handle(b);
    wait_for_peer();
    cuMemFree(a);
    cuMemFree(b);
}

static void small_opener(void)
{
    CUipcMemHandle first, second;
    CUdeviceptr a = 0, b = 0, base = 0;
    size_t bytes = 0;

    receive_data(&first, sizeof first);
    receive_data(&second, sizeof second);
    fact_result("small.open", cuIpcOpenMemHandle(&a, first, 1));
    fact_result("small.open_other", cuIpcOpenMemHandle(&b, second, 1));
    fact("small.bytes", "%d %d", peek(a), peek(b));
    cuMemGetAddressRange(&base, &bytes, a);
    fact("small.range", "%+lld, %zu bytes", (long long)(base - a), bytes);
    fact_result("small.close", cuIpcCloseMemHandle(a));
    fact("small.other_after_close", "%d", peek(b));
    fact_result("small.close_other", cuIpcCloseMemHandle(b));
    notify_peer();
}

/* The owner's process ends while the memory is open elsewhere. */
static void leaving_owner(void)
{
    send_handle(block_of(4 * MIB, 6));
    wait_for_peer();
    _exit(0);
}

static void leaving_opener(void)
{
    CUipcMemHandle handle;
    CUdeviceptr a = 0;
    char mark;

    receive_data(&handle, sizeof handle);
    cuIpcOpenMemHandle(&a, handle, 1);
    fact("leaving.before", "%d", peek(a));
    notify_peer();
    if (recv(line, &mark, 1, 0) != 0) /* until the owner's end is closed */
        _exit(4);
    usleep(100000); /* its driver may end later than its socket */
    fact("leaving.after", "%d", peek(a));
    fact_result("leaving.close", cuIpcCloseMemHandle(a));
    a = 7;
    fact_output("leaving.open", cuIpcOpenMemHandle(&a, handle, 1), a == 7);
}

static void leaving(void)
{
    two(leaving_opener, leaving_owner); /* the child owns: this process outlives it */
}

/* --- events --- */

static void event_owner(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUipcEventHandle handle;
    CUevent event = NULL;
    struct gate gate;

    cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    memset(&handle, 0, sizeof handle);
    cuIpcGetEventHandle(&handle, event);
    gate_close(&gate, stream);
    cuEventRecord(event, stream);
    send_data(&handle, sizeof handle);
    wait_for_peer();
    gate_open(&gate);
    notify_peer();
    wait_for_peer(); /* the other has recorded it behind its own gate */
    fact_result("events.owner_queries", cuEventQuery(event));
    notify_peer();
    wait_for_peer();
    fact_result("events.owner_queries_later", cuEventQuery(event));
    fact_result("events.owner_destroys", cuEventDestroy(event));
    notify_peer();
    wait_for_peer();
}

static void event_opener(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = block_of(256, 0);
    CUipcEventHandle handle;
    CUevent event = NULL, again = NULL;
    struct gate gate;

    receive_data(&handle, sizeof handle);
    fact_result("events.open", cuIpcOpenEventHandle(&event, handle));
    CUresult result = cuIpcOpenEventHandle(&again, handle);
    fact("events.open_again", "%s, %s", result_name(result),
         again == event ? "same" : "another");
    fact_result("events.handle_of_opened", cuIpcGetEventHandle(&handle, event));
    fact_result("events.query_pending", cuEventQuery(event));
    fact_result("events.wait", cuStreamWaitEvent(stream, event, 0));
    cuMemsetD8Async(a, 5, 256, stream);
    fact("events.held", "%d", peek(a));
    notify_peer();
    wait_for_peer();
    fact_result("events.synchronize", cuEventSynchronize(event));
    cuStreamSynchronize(stream);
    fact("events.passed", "%d", peek(a));
    gate_close(&gate, stream);
    fact_result("events.record", cuEventRecord(event, stream));
    notify_peer();
    wait_for_peer();
    gate_open(&gate);
    notify_peer();
    wait_for_peer(); /* the owner has destroyed it */
    fact_result("events.query_after_owner_destroyed", cuEventQuery(event));
    fact_result("events.destroy", cuEventDestroy(event));
    notify_peer();
}

/* --- VMM by descriptor --- */

static void vmm_owner(void)
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemAccessDesc access = vmm_access(3);
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;
    int fd = -1;

    prop.requestedHandleTypes = 1;
    cuMemAddressReserve(&at, 4 * MIB, 0, 0, 0);
    cuMemCreate(&handle, 4 * MIB, &prop, 0);
    cuMemMap(at, 4 * MIB, 0, handle, 0);
    cuMemSetAccess(at, 4 * MIB, &access, 1);
    cuMemsetD8(at, 5, 4 * MIB);
    cuCtxSynchronize();
    cuMemExportToShareableHandle(&fd, handle, 1, 0);
    send_fd(fd);
    close(fd);
    wait_for_peer();
    fact("vmm.owner_sees", "%d", peek(at));
    cuMemUnmap(at, 4 * MIB);
    fact_result("vmm.owner_releases", cuMemRelease(handle));
    notify_peer();
    wait_for_peer();
}

static void vmm_opener(void)
{
    CUmemAccessDesc access = vmm_access(3);
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = {0};
    CUdeviceptr at = 0;
    int fd = receive_fd();

    fact_result("vmm.import",
                cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd, 1));
    close(fd);
    cuMemGetAllocationPropertiesFromHandle(&prop, handle);
    fact("vmm.props", "type %d, handles %d, location %d %d", prop.type,
         prop.requestedHandleTypes, prop.location.type, prop.location.id);
    cuMemAddressReserve(&at, 4 * MIB, 0, 0, 0);
    fact_result("vmm.map", cuMemMap(at, 4 * MIB, 0, handle, 0));
    fact_result("vmm.access", cuMemSetAccess(at, 4 * MIB, &access, 1));
    fact("vmm.bytes", "%d %d", peek(at), peek(at + 4 * MIB - 1));
    cuMemsetD8(at, 9, 4 * MIB);
    cuCtxSynchronize();
    notify_peer();
    wait_for_peer(); /* the owner has released it */
    fact("vmm.after_owner_released", "%d", peek(at));
    fact_result("vmm.unmap", cuMemUnmap(at, 4 * MIB));
    fact_result("vmm.release", cuMemRelease(handle));
    notify_peer();
}

/* --- pools
 * -------------------------------------------------------------------------------------
 */

static void pool_owner(void)
{
    CUmemPoolProps props = {.allocType = 1, .handleTypes = 1, .location = {1, device}};
    CUmemPoolPtrExportData data;
    CUmemoryPool pool = NULL;
    CUdeviceptr a = 0;
    int fd = -1;

    memset(&data, 0, sizeof data);
    cuMemPoolCreate(&pool, &props);
    cuMemAllocFromPoolAsync(&a, MIB, pool, NULL);
    cuMemsetD8(a, 5, MIB);
    cuCtxSynchronize();
    fact_result("pool.export", cuMemPoolExportToShareableHandle(&fd, pool, 1, 0));
    fact_result("pool.export_pointer", cuMemPoolExportPointer(&data, a));
    fact_result("pool.export_interior",
                cuMemPoolExportPointer(&(CUmemPoolPtrExportData){{0}}, a + PAGE));
    send_fd(fd);
    send_data(&data, sizeof data);
    close(fd);
    wait_for_peer();
    fact("pool.owner_sees", "%d", peek(a));
    fact_result("pool.owner_frees", cuMemFreeAsync(a, NULL));
    cuStreamSynchronize(NULL);
    fact_result("pool.owner_destroys", cuMemPoolDestroy(pool));
}

static void pool_opener(void)
{
    CUmemPoolPtrExportData data;
    CUmemoryPool pool = NULL;
    CUdeviceptr a = 0, b = 7;
    uint64_t value = 0;
    int fd = receive_fd(), flags = 77;

    receive_data(&data, sizeof data);
    fact_result("pool.import",
                cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)fd, 1, 0));
    close(fd);
    fact_result("pool.import_pointer", cuMemPoolImportPointer(&a, pool, &data));
    fact("pool.bytes", "%d", peek(a));
    CUresult result = cuMemPoolImportPointer(&b, pool, &data);
    fact("pool.import_pointer_again", "%s, %s", result_name(result),
         b == a   ? "same address"
         : b == 7 ? "output kept"
                  : "another address");
    if (result == CUDA_SUCCESS && b != a)
        cuMemFreeAsync(b, NULL);
    fact_result("pool.alloc_from_imported", cuMemAllocFromPoolAsync(&b, 256, pool, NULL));
    fact_result("pool.attribute_of_imported", cuMemPoolGetAttribute(pool, 7, &value));
    result = cuMemPoolGetAccess(&flags, pool, &(CUmemLocation){1, device});
    fact("pool.access_of_imported", "%s, %d", result_name(result), flags);
    fact_result("pool.export_imported",
                cuMemPoolExportToShareableHandle(&fd, pool, 1, 0));
    fact_result("pool.trim_imported", cuMemPoolTrimTo(pool, 0));
    fact_result("pool.set_imported_current", cuDeviceSetMemPool(device, pool));
    handle_fact("pool.handle_of_imported_pointer", a);
    cuMemsetD8(a, 9, MIB);
    cuCtxSynchronize();
    fact_result("pool.free_imported_pointer", cuMemFreeAsync(a, NULL));
    fact_result("pool.free_imported_pointer_synchronize", cuStreamSynchronize(NULL));
    fact_result("pool.destroy_imported", cuMemPoolDestroy(pool));
    notify_peer();
}

/* How blocks of a pool are distinguished. The owner uses one address twice. The opener
 * still has the second block imported when the address is used a third time. */
static unsigned long long id_of(CUdeviceptr pointer)
{
    unsigned long long id = 0;

    cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer);
    return id;
}

static CUdeviceptr from_pool(CUmemoryPool pool, size_t bytes, unsigned char value)
{
    CUdeviceptr pointer = 0;

    cuMemAllocFromPoolAsync(&pointer, bytes, pool, NULL);
    cuMemsetD8(pointer, value, bytes);
    cuCtxSynchronize();
    return pointer;
}

static void send_pointer(CUdeviceptr pointer)
{
    CUmemPoolPtrExportData data;

    memset(&data, 0, sizeof data);
    cuMemPoolExportPointer(&data, pointer);
    send_data(&data, sizeof data);
}

static void places_owner(void)
{
    CUmemPoolProps props = {.allocType = 1, .handleTypes = 1, .location = {1, device}};
    CUmemoryPool pool = NULL, reported_pool = NULL;
    uint64_t threshold = UINT64_MAX;
    int fd = -1;

    cuMemPoolCreate(&pool, &props);
    cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
    CUdeviceptr a = from_pool(pool, MIB, 1);
    unsigned long long id = id_of(a);
    fact_bool("places.id_is_the_interiors", id_of(a + PAGE) == id);
    cuPointerGetAttribute(&reported_pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a + PAGE);
    fact_bool("places.pool_of_interior", reported_pool == pool);
    cuMemFreeAsync(a, NULL);
    cuCtxSynchronize();
    CUdeviceptr b = from_pool(pool, MIB, 2);
    fact_bool("places.same_place", a == b);
    fact_bool("places.another_id", id_of(b) != id);
    cuMemPoolExportToShareableHandle(&fd, pool, 1, 0);
    send_fd(fd);
    send_pointer(b);
    wait_for_peer();
    cuMemFreeAsync(b, NULL);
    cuCtxSynchronize();
    CUdeviceptr c = from_pool(pool, MIB / 2, 3);
    fact_bool("places.same_place_again", b == c);
    send_pointer(c);
    wait_for_peer();
    cuMemFreeAsync(c, NULL);
    cuCtxSynchronize();
    fact_result("places.owner_destroys", cuMemPoolDestroy(pool));
}

static void places_opener(void)
{
    CUmemPoolPtrExportData data;
    CUmemoryPool pool = NULL, again = NULL;
    CUdeviceptr b = 0, c = 7, base = 0;
    size_t bytes = 0;
    int fd = receive_fd();

    receive_data(&data, sizeof data);
    cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)fd, 1, 0);
    CUresult result =
        cuMemPoolImportFromShareableHandle(&again, (void *)(uintptr_t)fd, 1, 0);
    fact("places.import_again", "%s, %s", result_name(result),
         again == pool ? "the same handle" : "another handle");
    close(fd);
    cuMemPoolImportPointer(&b, pool, &data);
    result = cuMemGetAddressRange(&base, &bytes, b + PAGE);
    fact("places.range_of_imported", "%s, %+lld, %zu bytes", result_name(result),
         (long long)(base - b), bytes);
    fact_bool("places.imported_has_an_id", id_of(b) != 0);
    notify_peer();
    receive_data(&data, sizeof data); /* the owner has freed it, and reuses its address */
    fact("places.bytes_after_the_owner_freed", "%d", peek(b));
    result = cuMemPoolImportPointer(&c, pool, &data);
    fact("places.import_over_it", "%s, %s", result_name(result),
         c == b   ? "the same place"
         : c == 7 ? "output kept"
                  : "elsewhere");
    fact_result("places.free_by_cuMemFree", cuMemFree(b));
    result = cuMemPoolImportPointer(&c, pool, &data);
    fact("places.import_after_it", "%s, %d", result_name(result), peek(c));
    fact_result("places.free_at_last", cuMemFree(c));
    fact_result("places.destroy", cuMemPoolDestroy(pool));
    if (again == pool)
        fact_result("places.destroy_again", cuMemPoolDestroy(again));
    notify_peer();
}

/* --- all of it in two processes --- */

static void owner(void)
{
    memory_owner();
    small_owner();
    event_owner();
    vmm_owner();
    pool_owner();
}

static void opener(void)
{
    memory_opener();
    small_opener();
    event_opener();
    vmm_opener();
    pool_opener();
}

static void sharing(void)
{
    two(owner, opener);
}

static void places(void)
{
    two(places_owner, places_opener);
}

static const struct part parts[] = {
    {"handles", handles, TOGETHER},       {"own_process", own_process, TOGETHER},
    {"own_events", own_events, TOGETHER}, {"open_ones", open_ones, RISKY},
    {"leaving", leaving, CLOSED},         {"sharing", sharing, CLOSED},
    {"places", places, CLOSED},           END_OF_PARTS,
};
const struct theme theme_ipc = {"ipc", parts, false};
