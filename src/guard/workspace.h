/* workspace.h -- what a guard has on a device: streams, events, pinned memory. */
#ifndef TARN_GUARD_WORKSPACE_H
#define TARN_GUARD_WORKSPACE_H

#include "guard/guard.h"

enum {
    /* Most bytes of a freed block that a check copies: half from its begin, half from
     * its end. */
    TARN__WORKSPACE_WINDOW = 64 << 10,
    /* Most bytes of a batch of slots, which is copied as a whole. */
    TARN__WORKSPACE_BATCH = 512 << 10
};

/* What a buffer has space for. */
enum tarn__workspace_kind {
    TARN__WORKSPACE_FOR_ZONES,
    TARN__WORKSPACE_FOR_WINDOW, /* the red zones, and TARN__WORKSPACE_WINDOW bytes */
    TARN__WORKSPACE_FOR_BATCH,  /* TARN__WORKSPACE_BATCH bytes */
    TARN__WORKSPACE_KINDS
};

/* Pinned memory for the bytes of one check. */
struct tarn__workspace_buffer {
    struct tarn__workspace_buffer *next;
    unsigned char *bytes;
    enum tarn__workspace_kind kind;
};

/* A scope of a device together with the guard's things there. */
struct tarn__workspace_use {
    struct tarn__scope scope; /* relaxed */
    struct tarn__workspace *workspace;
    int device;
};

/* Enter a scope of `device`. Creates the workspace. Fails with a message. */
tarn_status tarn__workspace_enter(struct tarn__guard *guard, int device,
                                  struct tarn__workspace_use *out);
void tarn__workspace_leave(struct tarn__workspace_use *use);

/* Return the guard's own stream, as a handle and as a registered stream. */
CUstream_ tarn__workspace_stream(const struct tarn__workspace_use *use);
tarn_stream tarn__workspace_registered(const struct tarn__workspace_use *use);
/* Return the stream that waits for no other one. */
CUstream_ tarn__workspace_fill_stream(const struct tarn__workspace_use *use);

/* Take an event; NULL: there is none. It returns with tarn__workspace_put_event(), when
 * nothing queries it any more. */
CUevent_ tarn__workspace_take_event(struct tarn__guard *guard,
                                    struct tarn__workspace_use *use);
void tarn__workspace_put_event(struct tarn__guard *guard, struct tarn__workspace_use *use,
                               CUevent_ event);

/* Take a buffer; NULL: there is none. */
struct tarn__workspace_buffer *tarn__workspace_take_buffer(
    struct tarn__guard *guard, struct tarn__workspace_use *use,
    enum tarn__workspace_kind kind);
void tarn__workspace_put_buffer(struct tarn__guard *guard,
                                struct tarn__workspace_use *use,
                                struct tarn__workspace_buffer *buffer);

/* Return true if memory is mapped. A suspended pool has unmapped its memory. */
bool tarn__workspace_is_mapped(const struct tarn__workspace_use *use,
                               tarn_device_ptr address);

/* Return true if the guard has a workspace on a device. */
bool tarn__workspace_is_used(struct tarn__guard *guard, int device);

/* End all workspaces of a guard that no thread uses any more. Waits for their work. */
void tarn__workspace_end_all(struct tarn__guard *guard);

#endif
