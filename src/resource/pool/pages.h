/* pages.h -- the memory beneath a pool: where it comes from, and how it goes back.
 *
 * Two kinds, one face. VMM: one range of addresses is reserved for the pool, several times
 * the device's memory long, and physical memory in handles of 2 to 256 MiB is mapped into
 * it, unmapped, and moved within it. Segments: blocks of an upstream resource, each a range
 * by itself.
 *
 * Nothing here knows of blocks, streams or fences: the caller says what is idle. The
 * caller also sees to it that one change is made at a time (it holds the pool's growth
 * lock); questions may be asked at any time. A failed call has changed nothing.
 */
#ifndef TARN_POOL_PAGES_H
#define TARN_POOL_PAGES_H

#include <tarn/pool.h>

#define TARN__PAGE_BYTES ((size_t)2 << 20)
#define TARN__HANDLE_BYTES_MAX ((size_t)256 << 20)

struct tarn__pages;

/* A piece of addresses; both multiples of the page for VMM. */
struct tarn__span {
    uint64_t address;
    size_t bytes;
};

static inline bool tarn__span_has(struct tarn__span span, uint64_t address)
{
    return address - span.address < span.bytes;
}

/* Rounded up to whole pages: of sizes that lie in the range, which do not wrap. */
static inline uint64_t tarn__to_pages(uint64_t bytes)
{
    return (bytes + TARN__PAGE_BYTES - 1) & ~((uint64_t)TARN__PAGE_BYTES - 1);
}

/* Open: `upstream` NULL and VMM on the device -> VMM; NULL and none -> the `cuda` resource
 * as upstream. A reference to `upstream` is kept, which has to be of `device`
 * (TARN_DEVICE_NONE with an upstream of none). `growth_bytes` as in the options. */
tarn_status tarn__pages_open(int device, tarn_resource *upstream, size_t growth_bytes,
                             struct tarn__pages **out);

/* Give all back and end. Where the process ends or was forked, no call is made. Physical
 * memory outlives a context that is reset, and is given back here even so; what else the
 * context had is gone with it. The caller has seen the device done with all of it. */
void tarn__pages_close(struct tarn__pages *pages);

bool tarn__pages_is_vmm(const struct tarn__pages *pages);

/* Does fresh memory carry the order of the stream that it was asked on? (An upstream that
 * supports streams.) If not, it is ready for anybody. */
bool tarn__pages_is_ordered(const struct tarn__pages *pages);

/* Has memory that is asked for without a stream nothing pending behind it? Of an upstream
 * that orders by stream and does not say so that is not known: see to it with a barrier. */
bool tarn__pages_are_done(const struct tarn__pages *pages);

/* The range of a VMM pool; zeros for segments. */
struct tarn__span tarn__pages_range(const struct tarn__pages *pages);

/* The pool's limit now: its handles are smaller where that is low. */
void tarn__pages_may_have(struct tarn__pages *pages, uint64_t bytes);

/* How much a growth that needs `bytes` should bring, at most `most`: the step of growth, a
 * multiple of the page; never less than `bytes` rounded to pages, and rounded to handles
 * where that may be. 0: it is over `most`. */
size_t tarn__pages_step(const struct tarn__pages *pages, size_t bytes, size_t most);

/* The size of the handles that a growth by `more` bytes makes: a power of two, by the size of
 * the pool after it and by what is left on the device. Of segments, 0. */
size_t tarn__pages_handle(const struct tarn__pages *pages, size_t more);

/* Map `bytes` at `at`, which has no memory yet, for the pool's device and its peers.
 * Segments: `at` is ignored, `stream` is asked on, and `*out` is the segment of `bytes`,
 * aligned to 2 MiB; where upstream has only room for one that is not, to 256 bytes. */
tarn_status tarn__pages_grow(struct tarn__pages *pages, uint64_t at, size_t bytes,
                             tarn_stream stream, struct tarn__span *out);

/* The largest part of the idle span that can go: the whole handles in it, or the whole
 * segment if it is one. bytes 0: none. Makes no driver call. */
struct tarn__span tarn__pages_removable(const struct tarn__pages *pages,
                                        struct tarn__span idle);

/* Of a span that removable() gave, the first handles that have at least `bytes` together;
 * of a segment, all. */
struct tarn__span tarn__pages_first(const struct tarn__pages *pages,
                                    struct tarn__span span, size_t bytes);

/* VMM: the handle that covers `address`, which is mapped. */
struct tarn__span tarn__pages_handle_at(const struct tarn__pages *pages,
                                        uint64_t address);

/* How many handles, or segments, a span has that removable() gave. */
unsigned tarn__pages_count(const struct tarn__pages *pages, struct tarn__span span);

/* Unmap a span that removable() gave, and give its memory back. While the pool sleeps, too:
 * then it will not come back. */
tarn_status tarn__pages_remove(struct tarn__pages *pages, struct tarn__span span);

/* VMM: move the handles of `count` spans that removable() gave to `at`, one behind the
 * other; there is a hole of as many bytes there. Their bytes go with them. The places of the
 * first `done` spans are holes then; queued work may still use those of the others, which
 * are holes once leave() was called. On failure nothing has moved. */
tarn_status tarn__pages_move(struct tarn__pages *pages, const struct tarn__span *spans,
                             size_t count, size_t done, uint64_t at);

/* The work that used an old place is done: it is a hole. */
void tarn__pages_leave(struct tarn__pages *pages, struct tarn__span old);

/* Bytes that are taken from upstream or mapped; of them, those without physical memory
 * because the pool sleeps; host bytes that pages uses for itself. Any thread. */
size_t tarn__pages_reserved(const struct tarn__pages *pages);
size_t tarn__pages_asleep(const struct tarn__pages *pages);
size_t tarn__pages_metadata(const struct tarn__pages *pages);

/* VMM: all physical memory goes, addresses stay. `kept` are the spans whose bytes are to
 * be kept in page-locked host memory, by address; the device is idle. */
tarn_status tarn__pages_sleep(struct tarn__pages *pages, const struct tarn__span *kept,
                              size_t count);
/* Bring all of it back, bytes and peers' access with it. On failure it sleeps on. Both are
 * TARN_OK where it sleeps or is awake already. */
tarn_status tarn__pages_wake(struct tarn__pages *pages);

/* Access of a peer to all that is mapped, now and later. */
tarn_status tarn__pages_set_peer(struct tarn__pages *pages, int peer, bool access);

/* Wait until the device has done all that is queued, on every stream, gone ones too, and
 * end no capture: cuMemAlloc and cuMemFree in the thread's relaxed mode. */
tarn_status tarn__pages_barrier(struct tarn__pages *pages);

#endif
