/* Test the public copies of a plan's blocks. */
#include "works.h"

TEST(the_blocks_of_a_plan_are_its_slots)
{
    for (int i = 0; i < KINDS; i += 3) {
        tarn_plan *plan = laid_out(&kinds[i], 2, 4, NULL);
        for (size_t k = 0; k < plan->count; k++) {
            const struct tarn__plan_slot *slot = &plan->slots[k];
            tarn_plan_block block = {.size = sizeof block};
            CHECK_OK(tarn_plan_get_block(plan, k, &block));
            CHECK_EQUAL(slot->start, block.begin_operation);
            CHECK_EQUAL(slot->end, block.end_operation);
            CHECK_EQUAL(512ull * slot->quanta, block.bytes);
            CHECK_EQUAL(512ull * slot->offset, block.offset_bytes);
            CHECK_EQUAL(slot->stream == TARN__PLAN_NO_STREAM ? UINT64_MAX : slot->stream,
                        block.stream);
        }
        tarn_plan_release(plan);
    }
}

TEST(a_block_that_a_plan_does_not_have_is_rejected)
{
    tarn_plan *plan = laid_out(&kinds[0], 1, 1, NULL);
    tarn_plan_block block = {.size = sizeof block, .bytes = 7};

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_plan_get_block(plan, plan->count, &block));
    CHECK_MESSAGE("of a plan of");
    CHECK_EQUAL(7, block.bytes);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_plan_get_block(NULL, 0, &block));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_plan_get_block(plan, 0, NULL));
    block.size = 3;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_plan_get_block(plan, 0, &block));
    CHECK_EQUAL(7, block.bytes);
    tarn_plan_release(plan);
}
