/* peer.h -- the interface of an allocator beside Tarn in the benchmark of peers.
 *
 * Each is a shared library of its own (rmm.cpp, torch.cpp) that exports bench_peers(), so
 * that the program builds without the others. tests/gpu/bench.sh builds the libraries and
 * the program together.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct peer;

struct peer_setup {
    size_t most_bytes;    /* limit of the reserved memory; 0: none */
    size_t initial_bytes; /* memory to reserve in open(), for peers that `starts` marks */
};

struct peer {
    const char *name;
    bool limits;   /* open() can enforce `most_bytes`; else that is 0 */
    bool reserves; /* reserved_peak() knows; else the program measures the device */
    /* open() reserves `initial_bytes`; else that is 0. Without `limits` the allocator
     * is a peer that starts empty, too. */
    bool starts;
    /* NULL: unavailable. `peer` is this struct. */
    void *(*open)(const struct peer *peer, const struct peer_setup *setup);
    /* 0: no memory. `stream` is a CUstream of the primary context, or the result of
     * begin_stream(). */
    unsigned long long (*allocate)(void *self, size_t bytes, void *stream);
    void (*deallocate)(void *self, unsigned long long block, size_t bytes, void *stream);
    size_t (*reserved_peak)(void *self);
    void (*close)(void *self); /* all blocks are freed and the device is idle */
    /* Either both or none: register the CUstream before its first use, and unregister it
     * before it is destroyed. */
    void *(*begin_stream)(void *self, void *raw);
    void (*end_stream)(void *self, void *stream);
    const char *spec; /* of a resource, see bench.h; only Tarn's own peers */
};

typedef const struct peer *bench_peers_fn(size_t *count_out);

#ifdef __cplusplus
}
#endif
#endif
