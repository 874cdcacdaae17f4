/* host.c -- facts about pinned memory: allocated by the driver, and registered memory of
 * the program. */
#include "facts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static void flags_fact(const char *name, void *pointer)
{
    unsigned int flags = 77;
    CUresult result = cuMemHostGetFlags(&flags, pointer);

    if (result == CUDA_SUCCESS)
        fact(name, "SUCCESS, flags %u", flags);
    else
        fact_output(name, result, flags == 77);
}

/* The device pointer of host memory, printed as a distance from the host pointer. */
static void device_pointer_fact(const char *name, void *pointer, unsigned int flags)
{
    CUdeviceptr out = 7;
    CUresult result = cuMemHostGetDevicePointer(&out, pointer, flags);

    if (result == CUDA_SUCCESS)
        fact(name, "SUCCESS, %lld away",
             (long long)(out - (CUdeviceptr)(uintptr_t)pointer));
    else
        fact_output(name, result, out == 7);
}

static void allocating(void)
{
    void *kept = &kept, *out = kept;

    fact_result("alloc.null", cuMemHostAlloc(NULL, PAGE, 0));
    fact_output("alloc.bytes_0", cuMemHostAlloc(&out, 0, 0), out == kept);
    out = kept;
    fact_output("alloc.flags_8", cuMemHostAlloc(&out, PAGE, 8), out == kept);
    out = kept;
    fact_output("alloc.flags_0x80", cuMemHostAlloc(&out, PAGE, 0x80), out == kept);
    out = kept;
    fact_output("alloc.bytes_huge", cuMemHostAlloc(&out, (size_t)1 << 60, 0),
                out == kept);
    for (unsigned int flags = 0; flags < 8; flags++) {
        fact_result(named("alloc.flags_%u", flags), cuMemHostAlloc(&out, PAGE, flags));
        flags_fact(named("flags.of_flags_%u", flags), out);
        fact_result(named("free.of_flags_%u", flags), cuMemFreeHost(out));
    }
    out = kept;
    fact_result("allochost", cuMemAllocHost(&out, 100));
    fact_bool("allochost.page_aligned", (uintptr_t)out % PAGE == 0);
    flags_fact("flags.of_allochost", out);
    cuMemFreeHost(out);
    out = kept;
    fact_output("allochost.bytes_0", cuMemAllocHost(&out, 0), out == kept);
    fact_result("allochost.null", cuMemAllocHost(NULL, 100));
}

static void asking(void)
{
    char *mine = malloc(PAGE), *out = pinned(PAGE);
    CUdeviceptr pointer = block(PAGE);

    fact_bool("alloc.page_aligned", (uintptr_t)out % PAGE == 0);
    flags_fact("flags.of_interior", out + 100);
    flags_fact("flags.of_heap", mine);
    flags_fact("flags.of_null", NULL);
    flags_fact("flags.of_device_memory", (void *)(uintptr_t)pointer);
    fact_result("flags.null_output", cuMemHostGetFlags(NULL, out));
    device_pointer_fact("device_pointer", out, 0);
    device_pointer_fact("device_pointer.interior", out + 100, 0);
    device_pointer_fact("device_pointer.flags_1", out, 1);
    device_pointer_fact("device_pointer.heap", mine, 0);
    device_pointer_fact("device_pointer.null", NULL, 0);
    device_pointer_fact("device_pointer.device_memory", (void *)(uintptr_t)pointer, 0);
    fact_result("device_pointer.null_output", cuMemHostGetDevicePointer(NULL, out, 0));
    cuMemFreeHost(out);
    flags_fact("flags.of_freed", out);
    device_pointer_fact("device_pointer.freed", out, 0);
    cuMemFree(pointer);
    free(mine);
}

static void freeing(void)
{
    char *mine = malloc(PAGE), *out = pinned(2 * PAGE);
    CUdeviceptr pointer = block(PAGE);

    fact_result("free.null", cuMemFreeHost(NULL));
    fact_result("free.heap", cuMemFreeHost(mine));
    fact_result("free.interior", cuMemFreeHost(out + PAGE));
    fact_result("free.device_memory", cuMemFreeHost((void *)(uintptr_t)pointer));
    fact_result("free.by_cuMemFree", cuMemFree((CUdeviceptr)(uintptr_t)out));
    fact_result("free.by_unregister", cuMemHostUnregister(out));
    fact_result("free", cuMemFreeHost(out));
    fact_result("free.twice", cuMemFreeHost(out));
    cuMemFree(pointer);
    free(mine);
}

static void freeing_without_context(void)
{
    char *out = pinned(PAGE);

    cuCtxSetCurrent(NULL);
    fact_result("free.without_context", cuMemFreeHost(out));
    fact_result("free.without_context.twice", cuMemFreeHost(out));
    fact_result("free.without_context.null", cuMemFreeHost(NULL));
    cuCtxSetCurrent(context);
}

static char *pages(size_t count)
{
    char *memory = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memset(memory, 0, count * PAGE);
    return memory;
}

static void register_fact(const char *name, void *pointer, size_t bytes,
                          unsigned int flags)
{
    CUresult result = cuMemHostRegister(pointer, bytes, flags);

    fact_result(name, result);
    if (result == CUDA_SUCCESS)
        flags_fact(named("%s.flags", name), pointer);
    if (result == CUDA_SUCCESS)
        cuMemHostUnregister(pointer);
}

static void registering(void)
{
    char *p = pages(16), *out = pinned(PAGE);
    CUdeviceptr pointer = block(PAGE);

    fact_result("register.null", cuMemHostRegister(NULL, PAGE, 0));
    fact_result("register.bytes_0", cuMemHostRegister(p, 0, 0));
    register_fact("register.flags_0", p, PAGE, 0);
    register_fact("register.flags_1", p, PAGE, 1);
    register_fact("register.flags_2", p, PAGE, 2);
    register_fact("register.flags_3", p, PAGE, 3);
    register_fact("register.flags_8", p, PAGE, 8);
    register_fact("register.flags_0x80", p, PAGE, 0x80);
    register_fact("register.unaligned", p + 100, 50, 0);
    register_fact("register.across_pages", p + 100, 3 * PAGE, 0);
    register_fact("register.pinned_memory", out, PAGE, 0);
    register_fact("register.device_memory", (void *)(uintptr_t)pointer, PAGE, 0);
    register_fact("register.garbage", (void *)(uintptr_t)0x100000, PAGE, 0);
    munmap(p + 8 * PAGE, PAGE);
    register_fact("register.with_a_hole", p + 7 * PAGE, 3 * PAGE, 0);
    mprotect(p + 4 * PAGE, PAGE, PROT_READ);
    register_fact("register.read_only_page", p + 4 * PAGE, PAGE, 0);
    cuMemFree(pointer);
    cuMemFreeHost(out);
}

/* Register pages 4 to 7, and check which other ranges may be registered meanwhile. */
static void overlapping(void)
{
    char *p = pages(16);

    fact_result("overlap.base", cuMemHostRegister(p + 4 * PAGE, 4 * PAGE, 0));
    register_fact("overlap.same", p + 4 * PAGE, 4 * PAGE, 0);
    register_fact("overlap.inside", p + 5 * PAGE, PAGE, 0);
    register_fact("overlap.head", p + 2 * PAGE, 3 * PAGE, 0);
    register_fact("overlap.tail", p + 7 * PAGE, 3 * PAGE, 0);
    register_fact("overlap.around", p + 2 * PAGE, 8 * PAGE, 0);
    register_fact("overlap.next_to_it", p + 8 * PAGE, PAGE, 0);
    register_fact("overlap.before_it", p + 3 * PAGE, PAGE, 0);
    fact_result("overlap.unregister_interior", cuMemHostUnregister(p + 5 * PAGE));
    fact_result("overlap.free_registered", cuMemFreeHost(p + 4 * PAGE));
    flags_fact("overlap.flags_of_interior", p + 5 * PAGE);
    flags_fact("overlap.flags_of_next", p + 8 * PAGE);
    device_pointer_fact("overlap.device_pointer", p + 4 * PAGE, 0);
    device_pointer_fact("overlap.device_pointer_of_interior", p + 5 * PAGE + 1, 0);
    device_pointer_fact("overlap.device_pointer_of_next", p + 8 * PAGE, 0);
    fact_result("overlap.unregister", cuMemHostUnregister(p + 4 * PAGE));
    fact_result("overlap.unregister_twice", cuMemHostUnregister(p + 4 * PAGE));
    fact_result("overlap.register_again", cuMemHostRegister(p + 4 * PAGE, 4 * PAGE, 0));
    cuMemHostUnregister(p + 4 * PAGE);
}

/* Two blocks in one page: check whether bytes or pages are registered. */
static void same_page(void)
{
    char *p = pages(1);

    fact_result("same_page.first", cuMemHostRegister(p, 100, 0));
    flags_fact("same_page.flags_inside", p + 99);
    flags_fact("same_page.flags_behind", p + 100);
    fact_result("same_page.second", cuMemHostRegister(p + 200, 100, 0));
    fact_result("same_page.unregister_second", cuMemHostUnregister(p + 200));
    fact_result("same_page.unregister_first", cuMemHostUnregister(p));
}

static void unregistering(void)
{
    char *p = pages(1);
    CUdeviceptr pointer = block(PAGE);

    fact_result("unregister.null", cuMemHostUnregister(NULL));
    fact_result("unregister.never_registered", cuMemHostUnregister(p));
    fact_result("unregister.device_memory",
                cuMemHostUnregister((void *)(uintptr_t)pointer));
    cuMemFree(pointer);
}

/* Registered memory is also the device's: the host and the device read each other's
 * writes. */
static void sharing(void)
{
    char *p = pages(1), *out = pinned(PAGE);

    cuMemHostRegister(p, PAGE, 0);
    fact_result("share.memset_registered",
                cuMemsetD8((CUdeviceptr)(uintptr_t)p, 5, PAGE));
    fact_result("share.memset_pinned", cuMemsetD8((CUdeviceptr)(uintptr_t)out, 6, PAGE));
    cuCtxSynchronize();
    fact("share.registered", "%d and %d", p[0], p[PAGE - 1]);
    fact("share.pinned", "%d and %d", out[0], out[PAGE - 1]);
    out[7] = 9;
    fact("share.read_by_the_device", "%d", peek((CUdeviceptr)(uintptr_t)out + 7));
    cuMemHostUnregister(p);
    cuMemFreeHost(out);
    fact("share.after_unregister", "%d", p[0]);
}

static const struct part parts[] = {
    {"allocating", allocating, TOGETHER},
    {"asking", asking, TOGETHER},
    {"registering", registering, TOGETHER},
    {"overlapping", overlapping, TOGETHER},
    {"same_page", same_page, TOGETHER},
    {"unregistering", unregistering, TOGETHER},
    {"sharing", sharing, TOGETHER},
    {"freeing", freeing, TOGETHER},
    {"freeing_without_context", freeing_without_context, TOGETHER},
    END_OF_PARTS,
};
const struct theme theme_host = {"host", parts, false};
