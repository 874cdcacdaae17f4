/* memory.h -- helpers that create pages and check their contents. */
#ifndef TEST_POOL_MEMORY_H
#define TEST_POOL_MEMORY_H

#include "pool/backing/backing.h"
#include "test.h"

#define MIB ((size_t)1 << 20)
#define PAGE TARN__PAGE_BYTES

/* Return the bytes that are allocated from the simulator; 0 on a GPU, which has other
 * users. */
static inline unsigned long long live_bytes(void)
{
    return on_sim() ? sim_live_bytes() : 0;
}

static inline struct tarn__pages *open_pages(void)
{
    struct tarn__pages *pages;

    CHECK_OK(tarn__pages_open(0, NULL, 0, &pages));
    pages->opened_ns = UINT64_MAX; /* however slow the test is */
    return pages;
}

/* The address of page `number` of the range. */
static inline uint64_t page_at(const struct tarn__pages *pages, size_t number)
{
    return tarn__pages_range(pages).address + number * PAGE;
}

static inline struct tarn__span span_at(const struct tarn__pages *pages, size_t first,
                                        size_t count)
{
    return (struct tarn__span){page_at(pages, first), count * PAGE};
}

/* Memory at pages [first, first + count). */
static inline tarn_status grow_at(struct tarn__pages *pages, size_t first, size_t count)
{
    struct tarn__span got = {77, 77};
    tarn_status status =
        tarn__pages_grow(pages, page_at(pages, first), count * PAGE, NULL, &got);

    CHECK_EQUAL(status == TARN_OK ? page_at(pages, first) : 77, got.address);
    CHECK_EQUAL(status == TARN_OK ? count * PAGE : 77, got.bytes);
    return status;
}

/* Fill only the ends of a span, to be fast; the simulator's memory is host memory. */
static inline void write_bytes(struct tarn__span span, unsigned char value)
{
    unsigned char *memory = (unsigned char *)(uintptr_t)span.address;

    if (on_sim()) {
        memory[0] = memory[span.bytes - 1] = value;
        return;
    }
    CHECK_OK(tarn_memset_async(0, span.address, value, span.bytes, NULL));
    CHECK_OK(tarn_stream_synchronize(0, NULL));
}

static inline unsigned char byte_at(uint64_t address)
{
    unsigned char byte = 0;

    if (on_sim())
        return *(unsigned char *)(uintptr_t)address;
    CHECK_OK(tarn_memcpy_async(0, (uintptr_t)&byte, address, 1, TARN_STREAM_NONE));
    return byte;
}

/* The first and the last byte of a span are `value`. */
static inline void check_bytes(struct tarn__span span, unsigned char value)
{
    CHECK_EQUAL(value, byte_at(span.address));
    CHECK_EQUAL(value, byte_at(span.address + span.bytes - 1));
}

/* Check that `device` can use all of the span, across the borders of handles. Write the
 * middle of its first page, or nothing; the work is done at the return. */
static inline bool is_usable(int device, struct tarn__span span)
{
    bool is = tarn_memset_async(device, span.address + PAGE / 2, 1, 1, NULL) == TARN_OK;

    for (size_t at = PAGE; at < span.bytes && is; at += PAGE)
        is = tarn_memcpy_async(device, span.address + at - 1, span.address + at - 1, 2,
                               NULL) == TARN_OK;
    if (is)
        CHECK_OK(tarn_stream_synchronize(device, NULL));
    return is;
}

#endif
