/* plan.h -- what a plan is: blocks in time and addresses, and the rules between them.
 *
 * A plan is the layout of recorded work. Time is counted in operations of the recording:
 * each allocation and each free is one. Addresses are offsets into one range.
 *
 * A slot is the place of one block. Invariants of the slots of a plan:
 *
 *   1. They are sorted by `start`. An operation is the start or the end of one slot at
 *      most. Slots that live at the end of the recording end at `operations`.
 *   2. start < end <= operations; quanta > 0; offset + quanta <= height.
 *   3. operations <= 2 * count, streams <= 2 * count, threads <= count.
 *   4. Where two slots share addresses, let `from` be the last one before `to`. Then
 *      from->end + tarn__plan_margin(rules, from, to) <= to->start.
 *
 * The last rule implies that no two blocks overlap in time and address. check.c tests
 * all four, and shares no code with the files that lay blocks out.
 *
 * Order. A slot may take addresses that another stream freed. The device may not have
 * reached that free: it is assumed to be `lag` operations behind. Then the stream of the
 * slot has to wait for the other one. A wait has a price in memory: a block below
 * `price` saves less memory than a wait costs, so its slot keeps the lag as a margin, and
 * no wait is expected. Work without a stream cannot wait for a stream, so it keeps the margin.
 * With `waits_for_device` it waits for the device instead, for memory that was freed without
 * a stream, too: blocks from `price` on keep no margin then.
 *
 * A plan says where blocks may go. It never says that memory is free: whoever follows a
 * plan asks the pool.
 */
#ifndef TARN_PLAN_PLAN_H
#define TARN_PLAN_PLAN_H

#include <tarn/plan.h>

enum { TARN__PLAN_QUANTUM = 512 };

/* Bounds of a plan. A height has 32 bits of quanta, and so has a time. */
#define TARN__PLAN_SLOTS_MAX ((uint64_t)1 << 28)
#define TARN__PLAN_LAG_MAX ((uint32_t)1 << 30)
#define TARN__PLAN_THREADS_MAX (((uint32_t)1 << 30) - 1)
#define TARN__PLAN_NO_STREAM UINT32_MAX
#define TARN__PLAN_NO_SLOT UINT32_MAX

/* Who has the addresses of a slot next, or some of them (waits.h). */
enum tarn__plan_next {
    TARN__PLAN_NEXT_NOBODY,
    TARN__PLAN_NEXT_SAME, /* the stream that frees it, and no other */
    TARN__PLAN_NEXT_OTHER /* another stream */
};

struct tarn__plan_slot {
    uint32_t start, end;  /* operations of the allocation and of the free */
    uint32_t quanta;      /* size */
    uint32_t offset;      /* quanta */
    uint32_t stream;      /* of the allocation: 0, 1, 2 ...; or TARN__PLAN_NO_STREAM */
    uint32_t free_stream; /* of the free, as `stream` */
    uint32_t thread : 30; /* of the allocation: 0, 1, 2 ... */
    uint32_t next : 2;    /* enum tarn__plan_next */
};

struct tarn__plan_rules {
    uint32_t lag;          /* operations that the device is behind */
    uint32_t price;        /* quanta; a smaller block waits for no other stream */
    bool waits_for_device; /* work without a stream does; in no file */
};

struct tarn_plan {
    struct tarn__plan_slot *slots;
    size_t count;
    uint32_t operations, streams, threads;
    struct tarn__plan_rules rules;
    uint32_t height;           /* quanta: the highest end of a slot */
    uint64_t peak_live_bytes;  /* as requested, not rounded to quanta */
    uint64_t handovers, waits; /* waits.h */
};

/* Operations that have to lie between the free of `from` and the allocation of `to`. */
static inline uint32_t tarn__plan_margin(const struct tarn__plan_rules *rules,
                                         uint32_t from_free_stream, uint32_t to_stream,
                                         bool to_never_waits)
{
    bool is_no_stream =
        from_free_stream == TARN__PLAN_NO_STREAM || to_stream == TARN__PLAN_NO_STREAM;

    if (from_free_stream == to_stream)
        return is_no_stream && (!rules->waits_for_device || to_never_waits) ? rules->lag
                                                                            : 0;
    return is_no_stream || to_never_waits ? rules->lag : 0;
}

static inline bool tarn__plan_never_waits(const struct tarn__plan_rules *rules,
                                          uint32_t quanta)
{
    return quanta < rules->price;
}

#endif
