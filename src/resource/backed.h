/* backed.h -- resources whose blocks are allocations of the driver: the common part of
 * cuda, async, managed and pinned. A kind specifies the driver calls.
 */
#ifndef TARN_RESOURCE_BACKED_H
#define TARN_RESOURCE_BACKED_H

#include "driver/driver.h"
#include "resource/internal.h"
#include "resource/table.h"

struct tarn__backed;

/* The driver calls of one kind of memory. They run inside a scope of the device; on
 * failure nothing is left over. */
struct tarn__backed_kind {
    const char *component;     /* name of the resource, for messages */
    const char *allocate_call; /* the driver's names, for messages */
    const char *free_call;
    bool by_stream;      /* the stream matters, so it is checked */
    bool has_no_info;    /* the free memory is unknown */
    bool survives_reset; /* the memory belongs to the device, not to the context */
    CUresult_ (*allocate)(struct tarn__backed *self, const struct tarn__calls *calls,
                          size_t bytes, tarn_stream stream, CUdeviceptr_ *out);
    CUresult_ (*free)(const struct tarn__calls *calls, CUdeviceptr_ base,
                      tarn_stream stream);
};

/* The first member of such a resource. */
struct tarn__backed {
    const struct tarn__backed_kind *kind;
    int device;
    struct tarn__table table; /* live blocks */
};

void tarn__backed_init(struct tarn__backed *self, const struct tarn__backed_kind *kind,
                       int device);

/* Create a resource that is only a `struct tarn__backed`, and whose frees wait. */
tarn_status tarn__backed_create(const struct tarn__backed_kind *kind, int device,
                                tarn_resource **out);

/* Return the resource of `device`; `make` creates it if there is none. `places` has one
 * entry for each device. */
tarn_status tarn__backed_share(const struct tarn__backed_kind *kind,
                               tarn_resource *places[TARN__DEVICES_MAX], int device,
                               tarn_status (*make)(int device, tarn_resource **out),
                               tarn_resource **out);

/* Enter a scope of the resource's device in which no call invalidates a capture. Fails
 * once no driver call may be started. */
tarn_status tarn__backed_enter(const struct tarn__backed *self, struct tarn__scope *out);

/* Operations for the tables of the kinds. */
tarn_status tarn__backed_allocate(void *self, size_t bytes, size_t alignment,
                                  tarn_stream stream, tarn_device_ptr *out);
tarn_status tarn__backed_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                    size_t alignment, tarn_stream stream);
void tarn__backed_destroy(void *self); /* for tarn__backed_create() */
tarn_status tarn__backed_memory_info(void *self, tarn_stream stream, size_t *free_out,
                                     size_t *total_out);
tarn_status tarn__backed_requested_bytes(void *self, tarn_device_ptr block, size_t *out);
size_t tarn__backed_live_blocks(const void *self);

#endif
