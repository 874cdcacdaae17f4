/* peer.h -- the interface of an allocator beside Tarn in the benchmark of peers.
 *
 * Each is a shared library of its own (rmm.cpp, torch.cpp) that exports bench_peers(), so
 * that the program builds without the others.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct peer {
    const char *name;
    bool limits;   /* open() can enforce `most_bytes`; else it gets 0 */
    bool reserves; /* reserved_peak() knows */
    /* `most_bytes` 0: no limit; `live_bytes` is the peak live memory of the work, for
     * allocators that need it at creation. NULL: unavailable. */
    void *(*open)(size_t most_bytes, size_t live_bytes);
    /* 0: no memory. `stream` is a CUstream of the primary context. */
    unsigned long long (*allocate)(void *self, size_t bytes, void *stream);
    void (*deallocate)(void *self, unsigned long long block, size_t bytes, void *stream);
    size_t (*reserved_peak)(void *self);
    void (*close)(void *self); /* all blocks are freed and the device is idle */
};

typedef const struct peer *bench_peers_fn(size_t *count_out);

#ifdef __cplusplus
}
#endif
#endif
