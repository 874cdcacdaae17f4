/* peer.h -- an allocator beside Tarn, as the benchmark of peers sees it.
 *
 * Each lives in a shared library of its own (rmm.cpp, torch.cpp) that exports
 * bench_peers(), so that the program is built where the others are not.
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
    bool limits;   /* open() can keep to `most_bytes`; else it is not asked to */
    bool reserves; /* reserved_peak() knows */
    /* `most_bytes` 0: no limit; `live_bytes` is the most that the work will have out, for
     * those that must be told how much to take. NULL: it cannot be had. */
    void *(*open)(size_t most_bytes, size_t live_bytes);
    /* 0: no memory. `stream` is a CUstream of the primary context. */
    unsigned long long (*allocate)(void *self, size_t bytes, void *stream);
    void (*deallocate)(void *self, unsigned long long block, size_t bytes, void *stream);
    size_t (*reserved_peak)(void *self);
    void (*close)(void *self); /* everything is back and the device is idle */
};

typedef const struct peer *bench_peers_fn(size_t *count_out);

#ifdef __cplusplus
}
#endif
#endif
