/* Test the message of the last failure. */
#include "test.h"
#include <pthread.h>

TEST(error_keeps_status_message_and_native_code)
{
    CHECK_EQUAL(TARN_DRIVER_FAILURE,
                tarn_error_set_native(TARN_DRIVER_FAILURE, 700, "who: %d", 5));
    CHECK_EQUAL(TARN_DRIVER_FAILURE, tarn_error_last()->status);
    CHECK_EQUAL(700, tarn_error_last()->native);
    CHECK_TEXT("who: 5", tarn_error_last()->message);
}

TEST(error_may_quote_the_message_it_replaces)
{
    tarn_error_set(TARN_BAD_FORMAT, "inner");
    tarn_error_set(TARN_PLUGIN_FAILURE, "outer: %s", tarn_error_last()->message);
    CHECK_TEXT("outer: inner", tarn_error_last()->message);
    CHECK_EQUAL(0, tarn_error_last()->native);
}

static void *other_thread(void *unused)
{
    (void)unused;
    tarn_error_set(TARN_NO_DRIVER, "of the other thread");
    return NULL;
}

TEST(error_is_one_a_thread)
{
    pthread_t thread;

    tarn_error_set(TARN_BAD_FORMAT, "mine");
    CHECK_EQUAL(0, pthread_create(&thread, NULL, other_thread, NULL));
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    CHECK_TEXT("mine", tarn_error_last()->message);
}

/* A destructor of another library may fail, and request the message, after Tarn's has
 * run. */
static pthread_key_t late_key;

static void fail_late(void *left)
{
    tarn_error_set(TARN_BAD_FORMAT, "late");
    CHECK_TEXT("late", tarn_error_last()->message);
    if ((uintptr_t)left > 1)
        pthread_setspecific(late_key, (void *)((uintptr_t)left - 1));
}

static void *fail_and_end(void *unused)
{
    (void)unused;
    CHECK_EQUAL(TARN_OK, tarn_error_last()->status);
    CHECK_TEXT("", tarn_error_last()->message);
    tarn_error_set(TARN_NO_DRIVER, "before the end");
    pthread_setspecific(late_key, (void *)3);
    return NULL;
}

TEST(error_of_an_ending_thread_is_there_to_the_end)
{
    pthread_t thread;

    CHECK_EQUAL(0, pthread_key_create(&late_key, fail_late));
    for (int i = 0; i < 100; i++) {
        CHECK_EQUAL(0, pthread_create(&thread, NULL, fail_and_end, NULL));
        CHECK_EQUAL(0, pthread_join(thread, NULL));
    }
    CHECK_EQUAL(0, pthread_key_delete(late_key));
}

TEST(error_long_messages_are_cut_and_terminated)
{
    char long_message[2000];

    memset(long_message, 'x', sizeof long_message - 1);
    long_message[sizeof long_message - 1] = 0;
    tarn_error_set(TARN_BAD_FORMAT, "%s", long_message);
    CHECK_EQUAL(sizeof(tarn_error_last()->message) - 1,
                strlen(tarn_error_last()->message));
}

TEST(status_has_a_name_and_a_meaning)
{
    CHECK_TEXT("TARN_STILL_IN_USE", tarn_status_name(TARN_STILL_IN_USE));
    CHECK_TEXT("success", tarn_status_string(TARN_OK));
    CHECK_TEXT("TARN_?", tarn_status_name((tarn_status)99));
}
