/* handle_size.c -- by how much a pool grows, and the size of the handles that it
 * makes. */
#include "pool/backing/handle_size.h"
#include "base/clock.h"
#include "base/size.h"
#include "pool/backing/backing.h"

/* Parts of the pool: by how much growth overshoots at most, and how much one live block
 * can pin. On an H200, creating, mapping and enabling a handle takes 41 us, and 0.6 us
 * for each MiB of it. Moving it takes 26 us, whatever its size (bench/timed). On the
 * traces, handles of a 128th take a tenth less time, and over a long run one to three
 * hundredths more memory. */
enum { STEP_PART = 96, HANDLE_PART = 192 };

/* A pool that has little of what it may have is still at its beginning. A live block then
 * pins little of the whole, so handles are larger. In bytes, as a part of what it may
 * have, and as a part of what it has. */
enum { EARLY_BYTES = 32 << 20, EARLY_AVAILABLE_PART = 4096, EARLY_PART = 48 };

/* A program that does more than to allocate has time for smaller handles: as long as all
 * handles of the pool take no more than this part of the time since it was opened. A large
 * block still moves in few handles. Training with PyTorch then reserves one to five
 * hundredths less. */
enum {
    TIME_PART = 100,
    HANDLE_NS = 41 * 1000,
    TIMED_HANDLES = 768,
    TIMED_LEAST = 8 << 20,
    TIMED_BLOCK_PART = 16
};

/* A large live block pins half a handle of free memory on average, so handles are no
 * larger than this (TIGHT_MOST: of a tight pool), unless the pool would have more than
 * HANDLES_MAX. */
enum { HANDLE_MOST = 32 << 20, TIGHT_MOST = 4 << 20, HANDLES_MAX = 1 << 15 };

/* A live block between free ones pins one handle of free memory. A pool that has the
 * first part of what it may have makes handles of at most the second part of the block
 * that memory is obtained for (TIGHT_MOST for small ones). So a block pins half of its
 * size, and a large block still fits between blocks that stay. The part that the pool has
 * before that cannot pin more than itself. */
enum { PINNED_PART = 8, BLOCK_PART = 2 };

enum {
    HEADROOM_PART = 4, /* and at most this part of what may still be added */
    /* of the headroom below a limit: near the limit a live block is to pin little */
    AVAILABLE_PART = 4096
};

/* Return a power of two, at most `most`, that growth_bytes and the
 * unreserved memory of the device allow. */
static size_t power_of_two(const struct tarn__pages *pages, size_t most,
                           size_t unreserved)
{
    size_t unit = TARN__PAGE_BYTES;

    if (pages->growth_bytes > 0)
        most = pages->growth_bytes;
    if (most > unreserved / HEADROOM_PART)
        most = unreserved / HEADROOM_PART;
    while (unit <= most / 2 && unit < TARN__HANDLE_BYTES_MAX)
        unit *= 2;
    return unit;
}

/* Return what the pool may have: the memory of the device, or its maximum if that is
 * smaller. */
static size_t room_of(const struct tarn__pages *pages)
{
    return tarn__size_least(pages->vmm.device_bytes, atomic_load(&pages->most));
}

/* Return the most that a handle should have because of the blocks that pin it. */
static size_t most_pinned(const struct tarn__pages *pages, size_t reserved)
{
    size_t part = pages->block_bytes / BLOCK_PART;

    if (atomic_load(&pages->is_tight))
        return TIGHT_MOST;
    if (pages->block_bytes == 0 || part > HANDLE_MOST ||
        reserved <= room_of(pages) / PINNED_PART)
        return HANDLE_MOST;
    return part > TIGHT_MOST ? part : TIGHT_MOST;
}

/* Return the most that a handle of a pool of so many bytes should have. */
static size_t most_of(const struct tarn__pages *pages, size_t reserved)
{
    size_t part = reserved / HANDLES_MAX, most = most_pinned(pages, reserved);

    if (atomic_load(&pages->is_single))
        most = TARN__PAGE_BYTES;

    return part > most ? part : most;
}

static size_t early_handle(const struct tarn__pages *pages, size_t reserved)
{
    return tarn__size_least(
        EARLY_BYTES,
        tarn__size_least(room_of(pages) / EARLY_AVAILABLE_PART, reserved / EARLY_PART));
}

/* Return the size of the handles of a pool of so many bytes that it had time to make;
 * SIZE_MAX: it has just been opened. Segments are not split, and do not move. */
static size_t timed_handle(const struct tarn__pages *pages, size_t reserved)
{
    if (!pages->is_vmm)
        return SIZE_MAX;
    uint64_t now = tarn__clock_now_ns();
    uint64_t elapsed = now > pages->opened_ns ? now - pages->opened_ns : 0;
    size_t handles = elapsed / ((uint64_t)TIME_PART * HANDLE_NS);

    if (handles == 0)
        return SIZE_MAX;
    size_t part = reserved / tarn__size_least(handles, TIMED_HANDLES);
    size_t of_block = pages->block_bytes / TIMED_BLOCK_PART;
    part = part > of_block ? part : of_block;
    return part > TIMED_LEAST ? part : TIMED_LEAST;
}

/* Return the size of the handles of a pool of so many bytes, whatever is left. */
static size_t wanted_handle(const struct tarn__pages *pages, size_t reserved)
{
    if (pages->is_large && !atomic_load(&pages->is_single))
        return HANDLE_MOST;
    size_t early = early_handle(pages, reserved), late = reserved / HANDLE_PART;
    size_t wanted =
        tarn__size_least(timed_handle(pages, reserved), early > late ? early : late);
    return tarn__size_least(wanted, most_of(pages, reserved));
}

/* Return the headroom below the pool's limit; SIZE_MAX where the device has no more than
 * the limit. */
static size_t headroom_of(const struct tarn__pages *pages, size_t reserved)
{
    size_t most = atomic_load(&pages->most);

    if (most == 0 || most >= pages->vmm.device_bytes)
        return SIZE_MAX;
    return most > reserved ? most - reserved : 0;
}

size_t tarn__handle_size(const struct tarn__pages *pages, size_t more)
{
    size_t reserved = atomic_load(&pages->reserved), total = pages->vmm.device_bytes;
    size_t unreserved = total > reserved ? total - reserved : 0;

    if (!pages->is_vmm)
        return 0;
    if (more > unreserved)
        more = unreserved;
    size_t wanted = wanted_handle(pages, reserved + more);
    size_t part = headroom_of(pages, reserved) / AVAILABLE_PART;
    return power_of_two(pages, tarn__size_least(wanted, part), unreserved);
}

/* Return `need` in whole handles, so that growth leaves no small ones behind. It is
 * unchanged where the user specified a step. */
static size_t whole_handles(const struct tarn__pages *pages, size_t need, size_t most)
{
    size_t whole;

    if (pages->growth_bytes > 0 ||
        !tarn__size_round_up(need, tarn__handle_size(pages, need), &whole) ||
        whole > most)
        return need;
    return whole;
}

size_t tarn__handle_size_step(const struct tarn__pages *pages, size_t bytes, size_t most)
{
    size_t reserved = atomic_load(&pages->reserved), need;
    size_t step = power_of_two(
        pages, tarn__size_least(timed_handle(pages, reserved), reserved / STEP_PART),
        most);

    if (!tarn__size_round_up(bytes, TARN__PAGE_BYTES, &need) || need > most)
        return 0;
    if (pages->growth_bytes > 0 &&
        !tarn__size_round_up(pages->growth_bytes, TARN__PAGE_BYTES, &step))
        step = SIZE_MAX;
    most &= ~(TARN__PAGE_BYTES - 1);
    if (step > most)
        step = most;
    return need > step ? whole_handles(pages, need, most) : step;
}
