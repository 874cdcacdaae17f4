/* binary_window.c -- mapped ranges of the file of a binary log, which chunks share.
 *
 * To map and unmap memory stops the other threads of the process for a moment. A window
 * has many chunks, so a log does this rarely. That of a ring lasts as long as the ring.
 */
#include "trace/binary_window.h"
#include <stdlib.h>

struct tarn__binary_window *tarn__binary_window_open(const struct tarn__binary_file *file,
                                                     uint64_t offset, size_t bytes)
{
    struct tarn__binary_window *window = malloc(sizeof *window);

    if (!window)
        return NULL;
    window->memory = tarn__binary_file_map(file, offset, bytes);
    if (!window->memory) {
        free(window);
        return NULL;
    }
    window->offset = offset;
    window->bytes = bytes;
    atomic_init(&window->users, 1);
    return window;
}

bool tarn__binary_window_has(const struct tarn__binary_window *window, uint64_t offset,
                             size_t bytes)
{
    return window && offset >= window->offset &&
           offset + bytes <= window->offset + window->bytes;
}

char *tarn__binary_window_use(struct tarn__binary_window *window, uint64_t offset)
{
    atomic_fetch_add(&window->users, 1);
    return window->memory + (offset - window->offset);
}

/* Return true if that was the last user. */
static bool remove_user(struct tarn__binary_window *window)
{
    return window && atomic_fetch_sub(&window->users, 1) == 1;
}

void tarn__binary_window_leave(struct tarn__binary_window *window)
{
    if (!remove_user(window))
        return;
    tarn__binary_file_unmap(window->memory, window->bytes);
    free(window);
}

void tarn__binary_window_forget(struct tarn__binary_window *window)
{
    if (remove_user(window))
        free(window);
}
