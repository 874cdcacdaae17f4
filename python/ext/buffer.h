/* buffer.h -- the object behind tarn.DeviceBuffer, shared by buffer.c and copies.c. */
#ifndef TARN_PYTHON_BUFFER_H
#define TARN_PYTHON_BUFFER_H

#include "state.h"

typedef struct tarn__buffer {
    PyObject ob_base;
    tarn_pointer *pointer;   /* the block, as long as its capacity; never NULL */
    size_t bytes;            /* what the user sees; <= capacity */
    tarn_resource *resource; /* retained, for blocks to come */
    PyObject *mr;            /* the object of `resource`; strong */
    tarn_stream stream;      /* on which the block goes back; see tarn__buffer_stream() */
    PyObject *stream_owner;  /* the object behind `stream`, so that it stays valid */
    int device;              /* for copies */
    tarn_stream *foreign;    /* the block is another library's: the stream that its end
                              * waits for, in the data of its finalizer. Else NULL */
} tarn__buffer;

/* The address of its bytes; 0 for none. */
static inline tarn_device_ptr tarn__buffer_address(const tarn__buffer *self)
{
    return tarn_pointer_address(self->pointer);
}

/* Create a buffer of `type` over a block, all of whose bytes it shows. Takes over the
 * references to `pointer`, `resource` and `mr`, also on failure. NULL with an exception
 * set. */
tarn__buffer *tarn__buffer_over(PyTypeObject *type, tarn_pointer *pointer, int device,
                                tarn_resource *resource, PyObject *mr, tarn_stream stream,
                                PyObject *owner);

/* The stream on which the block is freed: the one that was set. A registered stream that
 * was unregistered since is replaced by its plain handle. */
tarn_stream tarn__buffer_stream(tarn__buffer *self);

/* The buffer's block as it is now, and its stream. Both stay until the use ends, whatever
 * happens to the buffer meanwhile. Without a use, the block may belong to another owner
 * as soon as another thread, or any code that is called, resizes the buffer. */
struct tarn__block_use {
    tarn_pointer *pointer;
    PyObject *stream_owner;
};
void tarn__buffer_use(tarn__buffer *self, struct tarn__block_use *use);
/* End the use. The current exception stays set. */
void tarn__buffer_unuse(tarn__buffer *self, struct tarn__block_use *use);

/* A use beyond the call: others have the block until it ends. */
struct tarn__kept_buffer {
    tarn__buffer *buffer; /* strong */
    struct tarn__block_use use;
    bool other_stream; /* the block may be used on another stream than the buffer's */
};
/* Keep a buffer and its block. GIL held. */
void tarn__buffer_keep(tarn__buffer *self, bool other_stream,
                       struct tarn__kept_buffer *kept);
/* End the use, from any thread. Where the interpreter has ended, the objects end with the
 * process. The current exception stays set. */
void tarn__buffer_let_go(struct tarn__kept_buffer *kept);

/* Queue a copy of `bytes` (0: nothing) between two addresses on `stream`, and wait for it
 * if `wait` is set or if RMM would. The buffer's block is in use meanwhile; both
 * addresses have to be read right before. 0, or -1 with an exception set. */
int tarn__buffer_transfer(tarn__buffer *self, tarn_device_ptr to, tarn_device_ptr from,
                          size_t bytes, tarn_stream stream, bool wait);

/* For tables of methods with keyword arguments. */
#define TARN__WITH_KEYWORDS(function) (PyCFunction)(void (*)(void))(function)

#endif
