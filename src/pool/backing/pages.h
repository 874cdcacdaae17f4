/* pages.h -- the memory beneath a pool: obtaining it, mapping it, releasing it.
 *
 * There are two kinds behind one interface.
 *
 *    VMM       The pool reserves one address range, several times as long as the
 *              device's memory. Physical memory in handles of 2 to 256 MiB is mapped
 *              into the range, unmapped, and moved within it.
 *    segments  Blocks of an upstream resource, each an address range by itself.
 *
 * This component knows no blocks, streams or event fences: the caller specifies which
 * memory is idle. The caller also makes one change at a time (it holds the pool's growth
 * lock). Queries are allowed at any time. A failed call has changed nothing.
 */
#ifndef TARN_POOL_PAGES_H
#define TARN_POOL_PAGES_H

#include <tarn/pool.h>

#define TARN__PAGE_BYTES ((size_t)2 << 20)
#define TARN__HANDLE_BYTES_MAX ((size_t)256 << 20)

struct tarn__pages;

/* An address range; both fields are multiples of the page for VMM. */
struct tarn__span {
    uint64_t address;
    size_t bytes;
};

static inline bool tarn__pages_span_has(struct tarn__span span, uint64_t address)
{
    return address - span.address < span.bytes;
}

/* Round up to whole pages; for sizes within the range, which do not wrap. */
static inline uint64_t tarn__pages_round_up(uint64_t bytes)
{
    return (bytes + TARN__PAGE_BYTES - 1) & ~((uint64_t)TARN__PAGE_BYTES - 1);
}

/* Open the memory of a pool. `upstream` NULL and VMM on the device: VMM. `upstream` NULL
 * and no VMM: the `cuda` resource is the upstream. The call keeps a reference to
 * `upstream`, which must belong to `device`. (TARN_DEVICE_NONE with an upstream of no
 * device.) `growth_bytes` is as in the options. */
tarn_status tarn__pages_open(int device, tarn_resource *upstream, size_t growth_bytes,
                             struct tarn__pages **out);

/* Release everything and end. Where the process ends or was forked, no driver call is
 * made. Physical memory outlives a context that is reset, and is released here even then;
 * everything else of the context is gone with it. The caller has waited until the device
 * finished with all of it. */
void tarn__pages_close(struct tarn__pages *pages);

bool tarn__pages_is_vmm(const struct tarn__pages *pages);

/* Return true if new memory carries the order of the stream on which it was requested
 * (the upstream supports streams). If not, it is completed, and any stream may use it. */
bool tarn__pages_is_ordered(const struct tarn__pages *pages);

/* Return true if memory requested without a stream has no pending work. An upstream that
 * orders by stream may not guarantee it; then the caller makes a device-wide wait. */
bool tarn__pages_are_done(const struct tarn__pages *pages);

/* Return the address range of a VMM pool; zeros for segments. */
struct tarn__span tarn__pages_range(const struct tarn__pages *pages);

/* Set the pool's limit: handles are smaller where it is low. */
void tarn__pages_set_maximum(struct tarn__pages *pages, uint64_t bytes);
/* Have new handles be small, so that live blocks pin little free memory. Any thread. */
void tarn__pages_set_tight(struct tarn__pages *pages, bool is_tight);
/* Set the bytes of the block that the next memory is obtained for; 0: of none. Handles
 * are not much larger. The caller grows the memory in one thread at a time. */
void tarn__pages_set_block(struct tarn__pages *pages, uint64_t bytes);
/* Have new handles be large, whatever the pool's size: so the driver finds the memory of an
 * address sooner. The caller grows the memory in one thread at a time. */
void tarn__pages_set_large(struct tarn__pages *pages, bool is_large);
/* Have new handles be pages, so that each page can move by itself. Any thread. */
void tarn__pages_set_single(struct tarn__pages *pages, bool is_single);

/* Map `bytes` at `at`, which has no memory yet, for the pool's device and its peers. For
 * segments `at` is ignored, and the memory is requested on `stream`. `*out` is then the
 * segment of `bytes`, aligned to 2 MiB. If the upstream has capacity only for an
 * unaligned one, it is aligned to 256 bytes. */
tarn_status tarn__pages_grow(struct tarn__pages *pages, uint64_t at, size_t bytes,
                             tarn_stream stream, struct tarn__span *out);

/* Return the largest part of the idle span that can be removed: the whole handles in it,
 * or the whole segment if it is one. bytes 0: none. Makes no driver call. */
struct tarn__span tarn__pages_removable(const struct tarn__pages *pages,
                                        struct tarn__span idle);

/* Return, of a span from removable(), the first handles that have at least `bytes`
 * together; of a segment, all. */
struct tarn__span tarn__pages_first(const struct tarn__pages *pages,
                                    struct tarn__span span, size_t bytes);

/* VMM: return the handle that covers `address`, which is mapped. */
struct tarn__span tarn__pages_handle_at(const struct tarn__pages *pages,
                                        uint64_t address);

/* Return the number of handles, or segments, in a span from removable(). */
unsigned tarn__pages_count(const struct tarn__pages *pages, struct tarn__span span);

/* Unmap a span from removable(), and release its memory. While the pool is suspended this
 * works too: then the memory will not come back. */
tarn_status tarn__pages_remove(struct tarn__pages *pages, struct tarn__span span);

/* VMM: move the handles of `count` spans from removable() to `at`, one behind the other.
 * There is an unmapped range of as many bytes at `at`. Their contents move with them. The
 * first `done` spans are unmapped ranges afterwards. Queued work may still use the
 * mappings of the others, which become unmapped ranges at tarn__pages_end_retired(). On
 * failure nothing has moved. */
tarn_status tarn__pages_move(struct tarn__pages *pages, const struct tarn__span *spans,
                             size_t count, size_t done, uint64_t at);

/* End a retired mapping: the work that used it is done, and it becomes an unmapped
 * range. */
void tarn__pages_end_retired(struct tarn__pages *pages, struct tarn__span old);

/* Return the bytes obtained from upstream or mapped; of them, those without physical
 * memory because the pool is suspended; host bytes that this component uses. Any
 * thread. */
size_t tarn__pages_reserved(const struct tarn__pages *pages);
size_t tarn__pages_suspended(const struct tarn__pages *pages);
size_t tarn__pages_metadata(const struct tarn__pages *pages);

/* Count a driver call that another component makes for this pool. Calls that answer about a
 * stream's or a context's state are not counted (see tarn_pool_statistics). Any thread. */
void tarn__pages_note_call(struct tarn__pages *pages);
/* Return the number of driver calls of this component, which obtains, maps and releases memory;
 * and of all that are counted. Any thread. */
uint64_t tarn__pages_own_calls(const struct tarn__pages *pages);
uint64_t tarn__pages_driver_calls(const struct tarn__pages *pages);

/* VMM: release all physical memory and keep the addresses. `kept` are the spans whose
 * bytes are kept in page-locked host memory, by address. The device is idle. */
tarn_status tarn__pages_suspend(struct tarn__pages *pages, const struct tarn__span *kept,
                                size_t count);
/* Bring all of it back, with the kept bytes and the peers' access. On failure it stays
 * suspended. Both calls return TARN_OK if the pool is suspended or resumed already. */
tarn_status tarn__pages_resume(struct tarn__pages *pages);

/* Set the access of a peer to everything that is mapped, now and later. */
tarn_status tarn__pages_set_peer(struct tarn__pages *pages, int peer, bool access);

/* Wait until the device has finished all queued work, on every stream, destroyed ones
 * included. It invalidates no capture: it calls cuMemAlloc and cuMemFree in the thread's
 * relaxed mode. */
tarn_status tarn__pages_wait_for_device(struct tarn__pages *pages);

#endif
