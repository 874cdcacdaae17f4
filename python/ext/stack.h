/* stack.h -- Python's frames as frames of the table of stacks. */
#ifndef TARN_PYTHON_STACK_H
#define TARN_PYTHON_STACK_H

#include "state.h"

/* A line of the program. */
struct tarn__stack_place {
    uint32_t frame;     /* its number in the table; 0: there is no space */
    int line;           /* 0: unknown */
    const char *file;   /* valid permanently; NULL if `frame` is 0 */
    bool internal;      /* Numba's, Tarn's, or machinery between them and the user */
    bool calls_plugins; /* of these: Numba's driver module, and weakref */
};

/* The place where a frame is. GIL held; it runs no Python code. It may set an exception
 * and then replaces the present one. */
struct tarn__stack_place tarn__stack_place_of(PyFrameObject *frame);

/* Capture the stack of this thread: at most `depth` frames. GIL held; it runs no Python
 * code, and the current exception may be replaced. */
tarn_stack tarn__stack_capture(unsigned depth);

#endif
