/* context.c -- facts about primary contexts, created ones, and each thread's stack of
 * them. */
#include "facts.h"

#include <stdint.h>

static const char *compare_context(CUcontext got, CUcontext expected)
{
    return !got ? "NULL" : got == expected ? "same" : "another";
}

static void no_context(void)
{
    CUcontext out = (CUcontext)(uintptr_t)7;
    CUdevice where = -7;
    CUdeviceptr pointer = 7;
    CUstream stream = (CUstream)(uintptr_t)7;
    CUevent event = (CUevent)(uintptr_t)7;
    void *host = &out;
    size_t a = 7, b = 7;
    unsigned int flags = 7;
    int number = 7;

    CUresult result = cuCtxGetCurrent(&out);
    fact("none.cuCtxGetCurrent", "%s, %s", result_name(result),
         compare_context(out, NULL));
    fact_output("none.cuCtxGetDevice", cuCtxGetDevice(&where), where == -7);
    fact_output("none.cuCtxGetFlags", cuCtxGetFlags(&flags), flags == 7);
    fact_result("none.cuCtxSynchronize", cuCtxSynchronize());
    fact_result("none.cuCtxPopCurrent", cuCtxPopCurrent(&out));
    fact_result("none.cuCtxPopCurrent_null", cuCtxPopCurrent(NULL));
    fact_result("none.cuCtxSetCurrent_null", cuCtxSetCurrent(NULL));
    fact_output("none.cuMemAlloc", cuMemAlloc(&pointer, 256), pointer == 7);
    fact_output("none.cuMemAllocManaged", cuMemAllocManaged(&pointer, 256, 1),
                pointer == 7);
    fact_output("none.cuMemHostAlloc", cuMemHostAlloc(&host, 256, 0), host == &out);
    fact_output("none.cuMemGetInfo", cuMemGetInfo(&a, &b), a == 7 && b == 7);
    fact_output("none.cuStreamCreate", cuStreamCreate(&stream, 0), stream == (void *)7);
    fact_output("none.cuEventCreate", cuEventCreate(&event, 0), event == (void *)7);
    fact_result("none.cuStreamSynchronize_0", cuStreamSynchronize(NULL));
    fact_result("none.cuStreamSynchronize_legacy", cuStreamSynchronize(CU_STREAM_LEGACY));
    fact_result("none.cuStreamQuery_0", cuStreamQuery(NULL));
    fact_result("none.cuMemFree_0", cuMemFree(0));
    fact_result("none.cuMemFree_garbage", cuMemFree(0x1234500));
    fact_result("none.cuMemcpy_nothing", cuMemcpy(0, 0, 0));
    fact_result("none.cuCtxGetStreamPriorityRange",
                cuCtxGetStreamPriorityRange(&number, &number));
    fact_result("none.cuMemAllocAsync_0", cuMemAllocAsync(&pointer, 256, NULL));
    fact_result("none.cuPointerGetAttribute",
                cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      (CUdeviceptr)(uintptr_t)&number));
}

/* Calls that need no context. */
static void without(void)
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemAccessDesc access = vmm_access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr pointer = 0;
    CUmemoryPool pool = NULL;
    size_t granularity = 0;
    static char page[8192];
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    fact_result("without.cuMemGetAllocationGranularity",
                cuMemGetAllocationGranularity(&granularity, &prop, 0));
    fact_result("without.cuMemCreate", cuMemCreate(&handle, 2 * MIB, &prop, 0));
    fact_result("without.cuMemAddressReserve",
                cuMemAddressReserve(&pointer, 2 * MIB, 0, 0, 0));
    fact_result("without.cuMemMap", cuMemMap(pointer, 2 * MIB, 0, handle, 0));
    fact_result("without.cuMemSetAccess", cuMemSetAccess(pointer, 2 * MIB, &access, 1));
    fact_result("without.cuMemUnmap", cuMemUnmap(pointer, 2 * MIB));
    fact_result("without.cuMemRelease", cuMemRelease(handle));
    fact_result("without.cuMemAddressFree", cuMemAddressFree(pointer, 2 * MIB));
    fact_result("without.cuDeviceGetDefaultMemPool", cuDeviceGetDefaultMemPool(&pool, 0));
    fact_result("without.cuMemHostRegister", cuMemHostRegister(page, sizeof page, 0));
    fact_result("without.cuThreadExchangeStreamCaptureMode",
                cuThreadExchangeStreamCaptureMode(&mode));
}

static void state_fact(const char *name)
{
    unsigned int flags = 77;
    int active = 77;
    CUresult result = cuDevicePrimaryCtxGetState(device, &flags, &active);

    fact(name, "%s, flags %u, active %d", result_name(result), flags, active);
}

static void primary(void)
{
    CUcontext a = NULL, b = NULL, current = NULL;

    state_fact("primary.state_at_first");
    fact_result("primary.release_unretained", cuDevicePrimaryCtxRelease(device));
    fact_result("primary.retain_null", cuDevicePrimaryCtxRetain(NULL, device));
    fact_result("primary.retain_bad_device", cuDevicePrimaryCtxRetain(&a, 99));
    state_fact("primary.state_after_bad_retains");
    fact_result("primary.retain", cuDevicePrimaryCtxRetain(&a, device));
    state_fact("primary.state_retained");
    cuCtxGetCurrent(&current);
    fact_bool("primary.retained_is_current", current == a);
    fact_result("primary.retain_again", cuDevicePrimaryCtxRetain(&b, device));
    fact("primary.handle_again", "%s", compare_context(b, a));
    fact_result("primary.release", cuDevicePrimaryCtxRelease(device));
    state_fact("primary.state_one_left");
    fact_result("primary.release_last", cuDevicePrimaryCtxRelease(device));
    state_fact("primary.state_none_left");
    fact_result("primary.release_too_often", cuDevicePrimaryCtxRelease(device));
    fact_result("primary.release_bad_device", cuDevicePrimaryCtxRelease(99));
    cuDevicePrimaryCtxRetain(&b, device);
    fact("primary.handle_of_the_next", "%s", compare_context(b, a));
    cuDevicePrimaryCtxRelease(device);
}

static void primary_flags(void)
{
    fact_result("primary_flags.set_blocking_sync", cuDevicePrimaryCtxSetFlags(device, 4));
    state_fact("primary_flags.state_inactive");
    fact_result("primary_flags.set_bad", cuDevicePrimaryCtxSetFlags(device, 0x1000));
    fact_result("primary_flags.set_two_schedules", cuDevicePrimaryCtxSetFlags(device, 3));
    fact_result("primary_flags.bad_device", cuDevicePrimaryCtxSetFlags(99, 0));
    cuDevicePrimaryCtxRetain(&context, device);
    state_fact("primary_flags.state_active");
    fact_result("primary_flags.set_while_active", cuDevicePrimaryCtxSetFlags(device, 0));
    state_fact("primary_flags.state_after");
    fact_result("primary_flags.state_null_flags",
                cuDevicePrimaryCtxGetState(device, NULL, &(int){0}));
    fact_result("primary_flags.state_null_active",
                cuDevicePrimaryCtxGetState(device, &(unsigned int){0}, NULL));
    fact_result("primary_flags.state_bad_device",
                cuDevicePrimaryCtxGetState(99, &(unsigned int){0}, &(int){0}));
}

/* The stack: a pop restores the entry below, a set replaces the top. */
static void stack(void)
{
    CUcontext other = NULL, out = NULL;

    fact_result("stack.get_null", cuCtxGetCurrent(NULL));
    fact_result("stack.push_null", cuCtxPushCurrent(NULL));
    fact_result("stack.create", cuCtxCreate(&other, 0, device));
    cuCtxGetCurrent(&out);
    fact("stack.created_is_current", "%s", compare_context(out, other));
    fact_bool("stack.created_is_the_primary", other == context);
    CUresult popped = cuCtxPopCurrent(&out);
    fact("stack.pop", "%s, %s", result_name(popped), compare_context(out, other));
    cuCtxGetCurrent(&out);
    fact("stack.below", "%s", compare_context(out, context));
    cuCtxPushCurrent(other);
    fact_result("stack.push_twice", cuCtxPushCurrent(other));
    cuCtxPopCurrent(NULL);
    cuCtxGetCurrent(&out);
    fact("stack.after_two_pushes_and_a_pop", "%s", compare_context(out, other));
    fact_result("stack.set", cuCtxSetCurrent(context));
    cuCtxPopCurrent(&out);
    fact("stack.set_replaced_the_top", "%s", compare_context(out, context));
    cuCtxGetCurrent(&out);
    fact("stack.below_what_was_set", "%s", compare_context(out, context));
    cuCtxPushCurrent(other);
    fact_result("stack.set_null", cuCtxSetCurrent(NULL));
    cuCtxGetCurrent(&out);
    fact("stack.after_set_null", "%s", compare_context(out, context));
    fact_result("stack.pop_again", cuCtxPopCurrent(&out));
    fact("stack.what_was_popped", "%s", compare_context(out, context));
    out = (CUcontext)(uintptr_t)7;
    fact_output("stack.pop_empty", cuCtxPopCurrent(&out), out == (void *)7);
    cuCtxSetCurrent(context);
    fact_result("stack.destroy_not_current", cuCtxDestroy(other));
}

static void made(void)
{
    CUcontext a = (CUcontext)(uintptr_t)7, b = NULL, out = NULL;
    unsigned int flags = 0, api = 0;
    unsigned long long id_a = 0, id_b = 0;
    CUdevice where = -1;

    fact_result("made.null", cuCtxCreate(NULL, 0, device));
    fact_output("made.bad_device", cuCtxCreate(&a, 0, 99), a == (void *)7);
    fact_output("made.bad_flags", cuCtxCreate(&a, 0x1000, device), a == (void *)7);
    fact_result("made", cuCtxCreate(&a, 4, device));
    cuCtxGetFlags(&flags);
    fact("made.flags", "%u", flags);
    CUresult result = cuCtxGetDevice(&where);
    fact("made.device", "%s, %d", result_name(result), where);
    fact_result("made.api_version", cuCtxGetApiVersion(a, &api));
    cuCtxGetId(a, &id_a);
    cuCtxGetId(context, &id_b);
    fact_bool("made.id_as_primary", id_a == id_b);
    fact_result("made.second", cuCtxCreate(&b, 0, device));
    cuCtxGetId(b, &id_b);
    fact_bool("made.ids_rise", id_b > id_a);
    fact_result("made.destroy_current", cuCtxDestroy(b));
    cuCtxGetCurrent(&out);
    fact("made.current_after_destroy", "%s", compare_context(out, a));
    fact_result("made.destroy", cuCtxDestroy(a));
    cuCtxGetCurrent(&out);
    fact("made.current_after_both", "%s", compare_context(out, context));
    fact_result("made.destroy_null", cuCtxDestroy(NULL));
    fact_result("made.id_null_output", cuCtxGetId(context, NULL));
}

static void destroy_primary(void)
{
    fact_result("destroy_primary", cuCtxDestroy(context));
}

/* The H200 returns different errors in different runs. */
static void destroy_twice(void)
{
    CUcontext other = NULL;

    cuCtxCreate(&other, 0, device);
    cuCtxDestroy(other);
    fact("destroy_twice", "%s", cuCtxDestroy(other) != 0 ? "an error" : "SUCCESS");
}

static void set_garbage(void)
{
    fact_result("set_garbage", cuCtxSetCurrent((CUcontext)(uintptr_t)0x1234560));
}

static void set_destroyed(void)
{
    CUcontext other = NULL;

    cuCtxCreate(&other, 0, device);
    cuCtxDestroy(other);
    fact_result("set_destroyed", cuCtxSetCurrent(other));
}

static CUresult destroy_it(void *other)
{
    return cuCtxDestroy(other);
}

/* Current here, destroyed by another thread. */
static void destroyed_elsewhere(void)
{
    CUcontext other = NULL, out = NULL;
    CUdeviceptr pointer = 0;

    cuCtxCreate(&other, 0, device);
    fact_result("destroyed_elsewhere", in_thread(destroy_it, other));
    CUresult result = cuCtxGetCurrent(&out);
    fact("destroyed_elsewhere.current", "%s, %s", result_name(result),
         compare_context(out, other));
    fact_result("destroyed_elsewhere.alloc", cuMemAlloc(&pointer, 256));
    fact_result("destroyed_elsewhere.synchronize", cuCtxSynchronize());
    fact_result("destroyed_elsewhere.pop", cuCtxPopCurrent(&out));
}

/* The last reference is released while the context is current and has memory. */
static void released_current(void)
{
    CUdeviceptr pointer = block(256), next = 0;
    CUcontext out = NULL;

    fact_result("released_current", cuDevicePrimaryCtxRelease(device));
    CUresult result = cuCtxGetCurrent(&out);
    fact("released_current.current", "%s, %s", result_name(result),
         compare_context(out, context));
    fact_result("released_current.alloc", cuMemAlloc(&next, 256));
    fact_result("released_current.synchronize", cuCtxSynchronize());
    fact_result("released_current.free", cuMemFree(pointer));
    cuDevicePrimaryCtxRetain(&out, device);
    fact("released_current.handle_again", "%s", compare_context(out, context));
    fact_result("released_current.alloc_again", cuMemAlloc(&next, 256));
}

static void limits(void)
{
    int least = 7, greatest = 7;
    size_t limit = 7;

    fact_result("priorities", cuCtxGetStreamPriorityRange(&least, &greatest));
    fact("priorities.least", "%d", least);
    fact("priorities.greatest", "%d", greatest);
    fact_result("priorities.null", cuCtxGetStreamPriorityRange(NULL, NULL));
    fact_output("limit.bad", cuCtxGetLimit(&limit, 99), limit == 7);
    fact_result("limit.null", cuCtxGetLimit(NULL, 0));
    fact_result("limit.stack_size", cuCtxGetLimit(&limit, 0));
    fact("limit.stack_size.bytes", "%zu", limit);
    fact_result("limit.malloc_heap", cuCtxGetLimit(&limit, 2));
    fact("limit.malloc_heap.bytes", "%zu", limit);
    fact_result("device.null", cuCtxGetDevice(NULL));
    fact_result("flags.null", cuCtxGetFlags(NULL));
}

/* Memory of one context while another is current: one address space for all. */
static void across(void)
{
    CUdeviceptr pointer = block_of(256, 5);
    CUcontext other = NULL;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING), foreign;
    CUevent event = new_event();

    cuCtxCreate(&other, 0, device);
    foreign = new_stream(CU_STREAM_NON_BLOCKING);
    fact_result("across.memset", cuMemsetD8(pointer, 6, 256));
    fact_result("across.memset_own_stream", cuMemsetD8Async(pointer, 7, 256, foreign));
    fact_result("across.memset_foreign_stream", cuMemsetD8Async(pointer, 8, 256, stream));
    fact_result("across.synchronize_foreign_stream", cuStreamSynchronize(stream));
    fact_result("across.record_foreign_event", cuEventRecord(event, foreign));
    fact_result("across.record_event_of_stream", cuEventRecord(event, stream));
    fact_result("across.wait_foreign_event", cuStreamWaitEvent(foreign, event, 0));
    fact_result("across.free", cuMemFree(pointer));
    fact_result("across.destroy_foreign_stream", cuStreamDestroy(stream));
    fact_result("across.destroy_foreign_event", cuEventDestroy(event));
    cuCtxDestroy(other);
}

static const struct part parts[] = {
    {"limits", limits, TOGETHER},
    {"stack", stack, TOGETHER},
    {"made", made, TOGETHER},
    {"across", across, TOGETHER},
    {"no_context", no_context, INITED},
    {"without", without, INITED},
    {"primary", primary, INITED},
    {"primary_flags", primary_flags, INITED},
    {"destroy_primary", destroy_primary, RISKY},
    {"destroy_twice", destroy_twice, RISKY},
    {"set_garbage", set_garbage, RISKY},
    {"set_destroyed", set_destroyed, RISKY},
    {"destroyed_elsewhere", destroyed_elsewhere, RISKY},
    {"released_current", released_current, RISKY},
    END_OF_PARTS,
};
const struct theme theme_context = {"context", parts, false};
