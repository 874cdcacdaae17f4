/* binary_window.h -- mapped ranges of the file of a binary log, which chunks share. */
#ifndef TARN_TRACE_BINARY_WINDOW_H
#define TARN_TRACE_BINARY_WINDOW_H

#include "trace/binary_file.h"
#include <stdatomic.h>

/* A mapped range of the file. */
struct tarn__binary_window {
    char *memory;
    uint64_t offset; /* in the file, of `memory` */
    size_t bytes;
    atomic_uint users; /* the last one unmaps */
};

/* Map a range, which the file need not have yet. The caller is its first user. A forked
 * child does not have the memory. NULL: errno has the reason. */
struct tarn__binary_window *tarn__binary_window_open(const struct tarn__binary_file *file,
                                                     uint64_t offset, size_t bytes);
/* Return true if the window has all of a range of the file. */
bool tarn__binary_window_has(const struct tarn__binary_window *window, uint64_t offset,
                             size_t bytes);
/* Return the memory of a range that the window has, and add a user. */
char *tarn__binary_window_use(struct tarn__binary_window *window, uint64_t offset);
/* Remove a user; NULL is allowed. Any thread, without a lock. The user's pointer is cleared
 * before the call, so that a fork finds no pointer to a window that is freed. */
void tarn__binary_window_leave(struct tarn__binary_window *window);
/* The same in a forked child, where no window is mapped. */
void tarn__binary_window_forget(struct tarn__binary_window *window);

#endif
