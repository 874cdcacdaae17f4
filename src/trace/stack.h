/* stack.h -- the native library that stands for the innermost frames of captures; and a
 * capture that is cheap. */
#ifndef TARN_TRACE_STACK_H
#define TARN_TRACE_STACK_H

#include <tarn/stack.h>

/* Set the library that now calls Tarn on this thread; NULL: none. Returns the previous one.
 *
 * A language runtime does not know the native code that its functions call. So a capture
 * of a runtime's frames begins with a native frame of this library. */
const char *tarn__stack_set_library(const char *library);

/* Capture 16 frames of a language runtime. Without one it is the frame of the call that
 * returns to `caller` alone. Where that is within libtarn, it is 16 native frames. */
tarn_stack tarn__stack_capture_caller(void *caller);

#endif
