/* backed.c -- resources whose blocks are allocations of the driver, recorded in a table.
 *
 * A free removes the record *before* it calls the driver. As soon as the driver has the
 * memory back, another thread may get the same address, and the table must not hold it
 * then. If the driver call fails, the record is entered again and the caller may retry.
 * Nothing is lost, and entering it again cannot fail.
 *
 * The driver guarantees 256 bytes of alignment. For more, a block is a part of a larger
 * allocation, and the record keeps where the allocation begins.
 *
 * The calls run in relaxed mode, so that no capture is invalidated when another thread
 * allocates meanwhile.
 *
 * Once exit has begun, and in a forked child, no driver call is made any more. A free
 * then does nothing, and does not touch the table: at the fork another thread may have
 * held its lock.
 */
#include "resource/backed.h"
#include "resource/block_generation.h"
#include "base/size.h"
#include "driver/stream.h"
#include <stdlib.h>

void tarn__backed_init(struct tarn__backed *self, const struct tarn__backed_kind *kind,
                       int device)
{
    self->kind = kind;
    self->device = device;
    tarn__table_init(&self->table);
}

static bool free_waits(const void *self)
{
    (void)self;
    return true;
}

tarn_status tarn__backed_create(const struct tarn__backed_kind *kind, int device,
                                tarn_resource **out)
{
    const tarn_resource_ops ops = {
        .size = sizeof ops,
        .name = kind->component,
        .allocate = tarn__backed_allocate,
        .deallocate = tarn__backed_deallocate,
        .destroy = tarn__backed_destroy,
        .memory_info = kind->has_no_info ? NULL : tarn__backed_memory_info,
        .deallocate_synchronizes = free_waits,
        .requested_bytes = tarn__backed_requested_bytes,
        .live_blocks = tarn__backed_live_blocks,
    };
    struct tarn__backed *self = malloc(sizeof *self);

    if (!self)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "%s: no host memory", kind->component);
    tarn__backed_init(self, kind, device);
    tarn_status status = tarn_resource_create(&ops, self, device, out);
    if (status != TARN_OK)
        tarn__backed_destroy(self);
    return status;
}

tarn_status tarn__backed_share(const struct tarn__backed_kind *kind,
                               tarn_resource *places[TARN__DEVICES_MAX], int device,
                               tarn_status (*make)(int device, tarn_resource **out),
                               tarn_resource **out)
{
    tarn_status status = tarn__device_check(kind->component, device);

    if (status != TARN_OK)
        return status;
    return tarn__resource_share(&places[device], device, make, out);
}

tarn_status tarn__backed_enter(const struct tarn__backed *self, struct tarn__scope *out)
{
    if (tarn__driver_gone())
        return tarn__device_gone(self->kind->component, self->device);
    return tarn__scope_enter_relaxed(self->device, out);
}

/* In a scope: request `bytes` from the driver. */
static tarn_status allocate_base(struct tarn__backed *self,
                                 const struct tarn__scope *scope, size_t bytes,
                                 tarn_stream stream, CUdeviceptr_ *out)
{
    const struct tarn__backed_kind *kind = self->kind;

    if (kind->by_stream) {
        tarn_status status =
            tarn__stream_check(kind->component, scope, stream, self->device);
        if (status != TARN_OK)
            return status;
    }
    CUresult_ result = kind->allocate(self, scope->calls, bytes, stream, out);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed(kind->component, kind->allocate_call, result,
                                   "%zu bytes on device %d", bytes, self->device);
    return TARN_OK;
}

/* Return true if the driver has no memory of the block any more. It has shut down, or the
 * context was reset between the check of its generation and the call. */
static bool is_gone_already(CUresult_ result)
{
    enum tarn__failure_kind kind = tarn__driver_classify(result);

    return kind == TARN__FAILURE_DRIVER_ENDED || kind == TARN__FAILURE_CONTEXT_RESET;
}

/* In a scope: return a block to the driver. */
static tarn_status free_record(const struct tarn__backed *self,
                               const struct tarn__scope *scope,
                               const struct tarn__record *record, tarn_stream stream)
{
    const struct tarn__backed_kind *kind = self->kind;

    if (!kind->survives_reset && record->context_generation != scope->context_generation)
        return TARN_OK; /* the reset was not known before, or came just now */
    if (kind->by_stream) {
        tarn_status status =
            tarn__stream_check(kind->component, scope, stream, self->device);
        if (status != TARN_OK)
            return status;
    }
    CUresult_ result = kind->free(scope->calls, record->base, stream);
    if (result != CUDA_SUCCESS_ && !is_gone_already(result))
        return tarn__driver_failed(kind->component, kind->free_call, result,
                                   "0x%llx with %zu bytes on device %d",
                                   (unsigned long long)record->base, record->bytes,
                                   self->device);
    return TARN_OK;
}

tarn_status tarn__backed_allocate(void *self, size_t bytes, size_t alignment,
                                  tarn_stream stream, tarn_device_ptr *out)
{
    struct tarn__backed *backed = self;
    struct tarn__scope scope;
    CUdeviceptr_ base = 0;
    /* tarn_resource_allocate() has rejected what exceeds the address space */
    size_t padded = bytes + (alignment - TARN_ALIGNMENT);

    struct tarn__record *record = tarn__table_record_new(bytes, alignment);
    if (!record)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "%s: no host memory to record a block of %zu bytes",
                              backed->kind->component, bytes);
    tarn_status status = tarn__backed_enter(backed, &scope);
    if (status == TARN_OK) {
        status = allocate_base(backed, &scope, padded, stream, &base);
        record->context_generation = scope.context_generation;
        tarn__scope_leave(&scope);
    }
    if (status != TARN_OK) {
        tarn__table_record_drop(record);
        return status;
    }
    record->base = base;
    record->block = (base + alignment - 1) & ~((uint64_t)alignment - 1);
    /* once it is in the table, another thread may drop it */
    tarn_device_ptr block = record->block;
    tarn__table_put(&backed->table, record);
    *out = block;
    return TARN_OK;
}

tarn_status tarn__backed_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                    size_t alignment, tarn_stream stream)
{
    struct tarn__backed *backed = self;
    struct tarn__record *record;
    struct tarn__scope scope;

    if (tarn__driver_gone())
        return TARN_OK;
    tarn_status status =
        tarn__table_take(&backed->table, backed->kind->component, block, bytes, alignment,
                         tarn__block_generation(), &record);
    if (status != TARN_OK)
        return status;
    if (!backed->kind->survives_reset &&
        !tarn__context_generation_is_current(backed->device,
                                             record->context_generation)) {
        tarn__table_record_drop(record); /* the reset freed it with its context */
        return TARN_OK;
    }
    status = tarn__backed_enter(backed, &scope);
    if (status == TARN_OK) {
        status = free_record(backed, &scope, record, stream);
        tarn__scope_leave(&scope);
    }
    if (status != TARN_OK) {
        tarn__table_put(&backed->table, record);
        return status;
    }
    tarn__table_record_drop(record);
    return TARN_OK;
}

void tarn__backed_destroy(void *self)
{
    struct tarn__backed *backed = self;

    tarn__table_free(&backed->table);
    free(backed);
}

tarn_status tarn__backed_memory_info(void *self, tarn_stream stream, size_t *free_out,
                                     size_t *total_out)
{
    struct tarn__backed *backed = self;
    struct tarn__scope scope;
    tarn_status status = tarn__backed_enter(backed, &scope);

    (void)stream;
    if (status != TARN_OK)
        return status;
    CUresult_ result = scope.calls->mem_get_info(free_out, total_out);
    if (result != CUDA_SUCCESS_)
        status = tarn__driver_failed(backed->kind->component, "cuMemGetInfo", result,
                                     "device %d", backed->device);
    tarn__scope_leave(&scope);
    return status;
}

tarn_status tarn__backed_requested_bytes(void *self, tarn_device_ptr block, size_t *out)
{
    struct tarn__backed *backed = self;

    if (tarn__driver_gone())
        return tarn__device_gone(backed->kind->component, backed->device);
    return tarn__table_bytes(&backed->table, backed->kind->component, block, out);
}

/* After driver shutdown no block can be returned, and none has to be. */
size_t tarn__backed_live_blocks(const void *self)
{
    const struct tarn__backed *backed = self;

    return tarn__driver_gone() ? 0 : tarn__table_count(&backed->table);
}
