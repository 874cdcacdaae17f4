/* stream.h -- streams from arguments, and Stream objects. */
#ifndef TARN_PYTHON_STREAM_H
#define TARN_PYTHON_STREAM_H

#include "state.h"

/* The stream that an argument names: a Stream, an int (a CUstream handle), any object
 * with __cuda_stream__ (version 0), or a stream of a PyTorch or CuPy without that
 * protocol. NULL stands for an argument that was not given: the default stream. None is a
 * TypeError, as in RMM. 0, or -1 with an exception set. */
int tarn__stream_from(tarn__state *state, PyObject *object, tarn_stream *out);

/* The default stream, legacy included, or no stream: after copies on these RMM waits. */
static inline bool tarn__stream_is_default(tarn_stream stream)
{
    return (uintptr_t)tarn_stream_handle(stream) <= (uintptr_t)TARN_STREAM_LEGACY;
}

/* The Stream over a value from C code, without an owner. New reference. */
PyObject *tarn__stream_wrap(tarn__state *state, tarn_stream stream);

/* Announce that a Stream captures from now on, and that this has ended. Within another
 * announcement of the same Stream the second does nothing, nor does it once the Stream
 * was unregistered. 0, or -1 with an exception set. */
int tarn__stream_begin_announcement(PyObject *stream);
int tarn__stream_end_announcement(PyObject *stream);

#endif
