/* pointer.c -- counted pointers and views: create, count, end.
 *
 * The count is a MemInfo of a runtime instance that belongs to pointers alone. A view is
 * a pointer of its own, whose end releases the first owner. So a chain of views is never
 * longer than one, even for views of views.
 */
#include "pointer/pointer.h"
#include "pointer/deferred_frees.h"
#include "driver/driver.h"
#include "base/error.h"
#include "base/options.h"
#include "base/size.h"
#include "base/blocking_hook.h"
#include <pthread.h>
#include <stdlib.h>

/* Created at the first pointer; stays until the process ends. */
static struct {
    pthread_once_t once;
    tarn_runtime *runtime; /* NULL: it could not be created */
} pointers = {.once = PTHREAD_ONCE_INIT};

static void make_runtime(void)
{
    tarn_runtime_create("pointers", &pointers.runtime);
}

/* The runtime instance that counts pointers; NULL with an error message. */
static tarn_runtime *pointers_runtime(void)
{
    pthread_once(&pointers.once, make_runtime);
    if (!pointers.runtime)
        tarn_error_set(TARN_OUT_OF_MEMORY,
                       "pointer: could not create the runtime that counts references");
    return pointers.runtime;
}

/* The destructor of every pointer's MemInfo. */
static void end_pointer(void *data, size_t size, void *info)
{
    tarn_pointer *pointer = info;

    (void)data;
    (void)size;
    if (pointer->base) {
        tarn_pointer_release(pointer->base);
        free(pointer);
        return;
    }
    if (pointer->finalizer || pointer->owner_release)
        tarn__blocking_hook_call(); /* the finalizer is the user's code */
    if (pointer->finalizer)
        pointer->finalizer(pointer->finalizer_data, pointer->address, pointer->bytes);
    tarn__deferred_frees_return(pointer);
}

tarn_status tarn__pointer_blank(tarn_pointer_kind kind, int device, size_t bytes,
                                tarn_pointer **out)
{
    tarn_runtime *runtime = pointers_runtime();
    tarn_pointer *pointer;

    if (!runtime)
        return TARN_OUT_OF_MEMORY;
    /* Not calloc(): in glibc it bypasses the thread's own cache and costs four times
     * malloc(). */
    if (!(pointer = malloc(sizeof *pointer)))
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pointer: no host memory for the record of %zu bytes",
                              bytes);
    *pointer = (tarn_pointer){.kind = kind, .device = device, .bytes = bytes};
    tarn_status status = tarn_meminfo_create(runtime, NULL, bytes, end_pointer, pointer,
                                             &pointer->meminfo);
    if (status != TARN_OK) {
        free(pointer);
        return status;
    }
    atomic_init(&pointer->stream, TARN_STREAM_NONE);
    *out = pointer;
    return TARN_OK;
}

void tarn__pointer_place(tarn_pointer *pointer, tarn_device_ptr address, void *host,
                         tarn__return_memory *return_memory)
{
    pointer->address = address;
    pointer->host = host;
    pointer->return_memory = return_memory;
    pointer->context_generation =
        return_memory ? tarn__context_generation(pointer->device) : 0;
}

static tarn_status check_options(const tarn_pointer_options *options)
{
    size_t end;
    tarn_status status =
        tarn__options_check("pointer", options, sizeof *options, sizeof *options);

    if (status != TARN_OK)
        return status;
    if ((unsigned)options->kind > TARN_POINTER_MANAGED)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "pointer: unknown kind %d",
                              (int)options->kind);
    if (options->bytes && !options->address && !options->host)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pointer: %zu bytes, but address and host are NULL",
                              options->bytes);
    if (!tarn__size_add((size_t)options->address, options->bytes, &end) ||
        !tarn__size_add((uintptr_t)options->host, options->bytes, &end))
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "pointer: %zu bytes at 0x%llx (host %p) wrap around the address space",
            options->bytes, options->address, options->host);
    return TARN_OK;
}

tarn_status tarn_pointer_create(const tarn_pointer_options *options, tarn_pointer **out)
{
    tarn_pointer *pointer;

    if (!options || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "pointer: create: %s is NULL",
                              options ? "out" : "options");
    tarn_status status = check_options(options);
    if (status == TARN_OK)
        status =
            tarn__pointer_blank(options->kind, options->device, options->bytes, &pointer);
    if (status != TARN_OK)
        return status;
    tarn__pointer_place(pointer, options->address, options->host, NULL);
    pointer->finalizer = options->finalizer;
    pointer->finalizer_data = options->finalizer_data;
    pointer->owner = options->owner;
    pointer->owner_release = options->owner_release;
    *out = pointer;
    return TARN_OK;
}

tarn_status tarn__pointer_check_alive(const char *component, const tarn_pointer *pointer)
{
    if (tarn_pointer_use_count(pointer) > 0)
        return TARN_OK;
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "%s: %zu bytes at 0x%llx have no references left", component,
                          pointer->bytes, pointer->address);
}

/* Differences instead of sums, so that nothing can wrap. */
static tarn_status check_bounds(const tarn_pointer *pointer, size_t offset, size_t bytes)
{
    if (bytes && !pointer->bytes)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pointer: non-empty slice into empty slice, %zu bytes at "
                              "%zu",
                              bytes, offset);
    if (offset > pointer->bytes || bytes > pointer->bytes - offset)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pointer: a view of %zu bytes at offset %zu exceeds the "
                              "pointer, which has %zu bytes",
                              bytes, offset, pointer->bytes);
    return TARN_OK;
}

tarn_status tarn_pointer_view(tarn_pointer *pointer, size_t offset, size_t bytes,
                              tarn_pointer **out)
{
    tarn_pointer *view;

    if (!pointer || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "pointer: view: %s is NULL",
                              pointer ? "out" : "pointer");
    tarn_status status = check_bounds(pointer, offset, bytes);
    if (status == TARN_OK)
        status = tarn__pointer_check_alive("pointer", pointer);
    if (status == TARN_OK)
        status = tarn__pointer_blank(pointer->kind, pointer->device, bytes, &view);
    if (status != TARN_OK)
        return status;
    tarn__pointer_place(view, pointer->address ? pointer->address + offset : 0,
                        pointer->host ? (char *)pointer->host + offset : NULL, NULL);
    view->base = tarn_pointer_retain(pointer->base ? pointer->base : pointer);
    *out = view;
    return TARN_OK;
}

tarn_pointer *tarn_pointer_retain(tarn_pointer *pointer)
{
    if (pointer)
        tarn_meminfo_acquire(pointer->meminfo);
    return pointer;
}

void tarn__pointer_release_plain(tarn_pointer *pointer)
{
    tarn_meminfo_release(pointer->meminfo);
}

void tarn_pointer_release(tarn_pointer *pointer)
{
    if (!pointer)
        return;
    tarn__release release = atomic_load_explicit(&pointer->release, memory_order_acquire);
    if (release)
        release(pointer);
    else
        tarn_meminfo_release(pointer->meminfo);
}

tarn_status tarn_pointer_release_checked(tarn_pointer *pointer)
{
    struct tarn__deferred_frees_record record;

    tarn__deferred_frees_record_begin(&record);
    tarn_pointer_release(pointer);
    return tarn__deferred_frees_record_end(&record);
}

void tarn__pointer_drop(tarn_pointer *pointer)
{
    struct tarn__kept_error why = tarn__error_keep();

    tarn_pointer_release(pointer);
    tarn__error_restore(&why);
}

tarn_device_ptr tarn_pointer_address(const tarn_pointer *pointer)
{
    return pointer->address;
}

void *tarn_pointer_host(const tarn_pointer *pointer)
{
    return pointer->host;
}

size_t tarn_pointer_bytes(const tarn_pointer *pointer)
{
    return pointer->bytes;
}

size_t tarn_pointer_use_count(const tarn_pointer *pointer)
{
    return tarn_meminfo_count(pointer->meminfo);
}

int tarn_pointer_device(const tarn_pointer *pointer)
{
    return pointer->device;
}

tarn_pointer_kind tarn_pointer_get_kind(const tarn_pointer *pointer)
{
    return pointer->kind;
}

void tarn_pointer_counts(tarn_runtime_counts *out)
{
    if (pointers_runtime())
        tarn_runtime_counts_read(pointers.runtime, out);
    else
        *out = (tarn_runtime_counts){0, 0};
}
