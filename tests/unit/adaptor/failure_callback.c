/* Test the failure callback, over an upstream whose answers the test chooses. */
#include "test.h"
#include "scripted.h"

static struct scripted script;
static tarn_resource *adaptor;

/* What the function does, and its calls. */
static struct {
    unsigned again;        /* calls that let the upstream succeed */
    tarn_status fails;     /* its own status */
    unsigned calls, ended; /* calls of the function, and of `end` */
    size_t bytes;          /* of the last call */
} answers;

static tarn_status answer(void *data, size_t bytes, bool *again_out)
{
    CHECK(data == &answers && !*again_out);
    answers.calls++;
    answers.bytes = bytes;
    if (answers.fails != TARN_OK)
        return tarn_error_set(answers.fails, "test: the function fails");
    *again_out = answers.again > 0;
    if (answers.again > 0 && --answers.again == 0)
        script.allocate_fails = TARN_OK;
    tarn_error_set(TARN_BUSY, "test: another failure");
    return TARN_OK;
}

static void note_end(void *data)
{
    CHECK(data == &answers);
    answers.ended++;
}

static void begin(tarn_status upstream_fails, unsigned again)
{
    memset(&answers, 0, sizeof answers);
    answers.again = again;
    scripted_begin(&script, 0);
    script.allocate_fails = upstream_fails;
    CHECK_OK(tarn_failure_callback_create(script.resource, answer, &answers, note_end,
                                          &adaptor));
}

static void end(void)
{
    CHECK_EQUAL(0, answers.ended);
    CHECK_OK(tarn_resource_release(adaptor));
    CHECK_EQUAL(1, answers.ended);
    scripted_end(&script);
}

TEST(failure_callback_is_not_called_while_there_is_memory)
{
    tarn_device_ptr block;

    begin(TARN_OK, 0);
    CHECK_TEXT("failure_callback", tarn_resource_name(adaptor));
    CHECK_OK(tarn_resource_allocate(adaptor, 1000, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(adaptor, block, 1000, 0, NULL));
    CHECK(answers.calls == 0 && script.frees == 1);
    end();
}

TEST(failure_callback_has_the_upstream_asked_until_it_gives_up_or_there_is_memory)
{
    tarn_device_ptr block;

    begin(TARN_OUT_OF_MEMORY, 20);
    CHECK_OK(tarn_resource_allocate(adaptor, 1000, 0, NULL, &block));
    CHECK(answers.calls == 20 && answers.bytes == 1000 && script.allocations == 21);
    CHECK_OK(tarn_resource_deallocate(adaptor, block, 1000, 0, NULL));
    end();
}

TEST(failure_callback_that_gives_up_leaves_the_failure_of_the_upstream)
{
    tarn_device_ptr block = 7;

    begin(TARN_OUT_OF_MEMORY, 0);
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(adaptor, 1000, 0, NULL, &block));
    CHECK(block == 7 && answers.calls == 1 && script.allocations == 1);
    CHECK(strstr(tarn_error_last()->message, "scripted") != NULL);
    end();
}

TEST(failure_callback_fails_an_allocation_with_a_status_of_its_own)
{
    tarn_device_ptr block = 7;

    begin(TARN_OUT_OF_MEMORY, 5);
    answers.fails = TARN_PLUGIN_FAILURE;
    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_resource_allocate(adaptor, 1000, 0, NULL, &block));
    CHECK_TEXT("test: the function fails", tarn_error_last()->message);
    CHECK(block == 7 && answers.calls == 1);
    end();
}

TEST(failure_callback_is_for_lack_of_memory_alone)
{
    tarn_device_ptr block;

    begin(TARN_DRIVER_FAILURE, 5);
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_allocate(adaptor, 1000, 0, NULL, &block));
    CHECK_EQUAL(0, answers.calls);
    end();
}

TEST(failure_callback_needs_an_upstream_a_function_and_a_place)
{
    tarn_resource *out = NULL;

    begin(TARN_OK, 0);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_failure_callback_create(NULL, answer, NULL, note_end, &out));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_failure_callback_create(
                                            script.resource, NULL, NULL, note_end, &out));
    CHECK_STATUS(
        TARN_INVALID_ARGUMENT,
        tarn_failure_callback_create(script.resource, answer, NULL, note_end, NULL));
    CHECK(out == NULL);
    end();
    begin(TARN_OK, 0); /* `end` is optional */
    CHECK_OK(tarn_failure_callback_create(adaptor, answer, NULL, NULL, &out));
    CHECK_OK(tarn_resource_release(out));
    end();
}
