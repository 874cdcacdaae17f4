/* Test plans with the 1st, 2nd, 3rd ... host allocation failing. The linker sends the
 * allocations here. */
#define _GNU_SOURCE
#include "../trace/text.h"
#include "works.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);

static unsigned left = UINT32_MAX; /* allocations until the one that fails */

static bool may_allocate(void)
{
    return left == UINT32_MAX || left-- > 0;
}

void *__wrap_malloc(size_t bytes)
{
    return may_allocate() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return may_allocate() ? __real_calloc(count, bytes) : NULL;
}

void *__wrap_realloc(void *block, size_t bytes)
{
    return may_allocate() ? __real_realloc(block, bytes) : NULL;
}

/* Run a call with each of its allocations failing; returns how many it makes. */
static unsigned fail_each(tarn_status (*call)(void *data), void *data)
{
    for (unsigned failing = 0; failing < 10000; failing++) {
        left = failing;
        tarn_status status = call(data);
        bool has_failed = left == UINT32_MAX; /* wrapped below 0 */
        left = UINT32_MAX;
        if (!has_failed) {
            CHECK_EQUAL(TARN_OK, status);
            return failing;
        }
        CHECK_EQUAL(TARN_OUT_OF_MEMORY, status);
    }
    return 0;
}

static tarn_status lay_out(void *data)
{
    return tarn__make_layout(data, NULL);
}

static tarn_status read_plan(void *data)
{
    tarn_plan *plan = NULL;

    ((struct text *)data)->at = 0;
    tarn_status status = tarn_plan_read("a.plan", text_read, data, &plan);
    CHECK((status == TARN_OK) == (plan != NULL));
    tarn_plan_release(plan);
    return status;
}

static tarn_status count_moves(void *data)
{
    tarn_plan_moves moves = {.size = sizeof moves};

    return tarn_plan_count_moves(data, 1 << 26, &moves);
}

TEST(every_failed_allocation_is_reported)
{
    struct work work = work_begin(4, 3);
    uint32_t live[32];

    for (int i = 0; i < 32; i++)
        live[i] = get(&work, skewed(&work, 4 * KIB, 10), (uint32_t)i % 3);
    for (int i = 0; i < 600; i++) {
        unsigned which = (unsigned)below(&work, 32);
        drop(&work, live[which]);
        live[which] = get(&work, skewed(&work, 4 * KIB, 10), which % 3);
    }
    tarn_plan *plan = work_end(&work);
    struct text text = {.bytes = NULL};
    CHECK(fail_each(lay_out, plan) > 30);
    CHECK_OK(tarn__check_plan("p", plan));
    CHECK_OK(tarn_plan_write(plan, "a.plan", text_write, &text));
    CHECK(fail_each(read_plan, &text) > 8);
    CHECK(fail_each(count_moves, plan) > 5);
    text_free(&text);
    tarn_plan_release(plan);
}
