/* native_stack.h -- the native frames of a thread: a module, and an offset in it. */
#ifndef TARN_TRACE_NATIVE_STACK_H
#define TARN_TRACE_NATIVE_STACK_H

#include "trace/stack_table.h"

/* Capture at most `depth` frames of the calling thread. */
tarn_stack tarn__native_stack_capture(unsigned depth);

/* Return the stack of one frame: the call that returns to `caller`. TARN_STACK_UNKNOWN: that is
 * within libtarn, or there is no host memory. */
tarn_stack tarn__native_stack_of_caller(void *caller);

/* Find the name of the function of a native frame; NULL: unknown. The name is valid while
 * its module stays loaded. */
const char *tarn__native_stack_function(const struct tarn__stack_table_frame *frame);

#endif
