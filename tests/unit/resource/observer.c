/* The observer sees each outermost public call of the process, once. */
#define _GNU_SOURCE
#include "test.h"
#include "scripted.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static tarn_observer_event seen[8];
static unsigned seen_count;
static tarn_observer_event ended; /* the last free that was over */
static struct scripted script;

static void note(void *data, const tarn_observer_event *event)
{
    if (event->action == TARN_ACTION_FREE && event->is_over) {
        ended = *event;
        return;
    }
    *(unsigned *)data += 1;
    CHECK(seen_count < 8);
    seen[seen_count++] = *event;
}

static void begin(unsigned *events)
{
    seen_count = 0;
    *events = 0;
    scripted_begin(&script, 0);
    CHECK_OK(tarn_resource_set_observer(note, events));
}

static void end(void)
{
    CHECK_OK(tarn_resource_set_observer(NULL, NULL));
    scripted_end(&script);
}

TEST(observer_sees_an_allocation_after_it_succeeded)
{
    static unsigned events;
    tarn_device_ptr block;

    begin(&events);
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 512, TARN_STREAM_NONE, &block));
    CHECK_EQUAL(1, events);
    CHECK_EQUAL(TARN_ACTION_ALLOCATE, seen[0].action);
    CHECK(seen[0].resource == script.resource && seen[0].block == block);
    CHECK(seen[0].bytes == 10 && seen[0].alignment == 512);
    CHECK(seen[0].stream == TARN_STREAM_NONE);
    CHECK(seen[0].start_ns > 0 && seen[0].end_ns >= seen[0].start_ns);
    CHECK_OK(tarn_resource_deallocate(script.resource, block, 10, 512, TARN_STREAM_NONE));
    CHECK_EQUAL(2, events);
    CHECK_EQUAL(TARN_ACTION_FREE, seen[1].action);
    CHECK(seen[1].block == block && seen[1].bytes == 10);
    end();
}

TEST(observer_sees_the_end_of_a_free_and_its_status)
{
    static unsigned events;
    tarn_device_ptr block;

    begin(&events);
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 0, NULL, &block));
    CHECK(seen[0].is_over && seen[0].status == TARN_OK);
    tarn_error_set(TARN_NOT_FOUND, "words from before");
    CHECK_OK(tarn_resource_deallocate(script.resource, block, 10, 0, NULL));
    CHECK_MESSAGE("words from before");
    CHECK(!seen[1].is_over && seen[1].end_ns == seen[1].start_ns);
    CHECK(ended.is_over && ended.status == TARN_OK && ended.block == block);
    CHECK(ended.start_ns == seen[1].start_ns && ended.end_ns >= ended.start_ns);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(script.resource, block, 10, 0, NULL));
    CHECK(ended.is_over && ended.status == TARN_INVALID_ARGUMENT);
    end();
}

static unsigned events_at_free;
static unsigned *current_events;

static void note_order(void)
{
    events_at_free = *current_events;
}

TEST(observer_sees_a_free_before_it_reaches_the_resource)
{
    static unsigned events;
    tarn_device_ptr block;

    begin(&events);
    current_events = &events;
    script.before_free = note_order;
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(script.resource, block, 10, 0, NULL));
    CHECK_EQUAL(2, events_at_free);
    end();
}

static void fail_too(void *data, const tarn_observer_event *event)
{
    note(data, event);
    tarn_error_set(TARN_BAD_FORMAT, "of the tap");
}

TEST(observer_sees_a_failure_and_keeps_its_message)
{
    static unsigned events;
    tarn_device_ptr block = 7;

    begin(&events);
    CHECK_OK(tarn_resource_set_observer(NULL, NULL));
    CHECK_OK(tarn_resource_set_observer(fail_too, &events));
    script.allocate_fails = TARN_OUT_OF_MEMORY;
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(script.resource, 10, 0, NULL, &block));
    CHECK_MESSAGE("scripted: no 10 bytes");
    CHECK_EQUAL(1, events);
    CHECK_EQUAL(TARN_ACTION_ALLOCATE_FAILURE, seen[0].action);
    CHECK(seen[0].block == 0 && seen[0].bytes == 10 && block == 7);
    script.allocate_fails = TARN_OK;
    tarn_error_set(TARN_NOT_FOUND, "words from before");
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(script.resource, block, 10, 0, NULL));
    CHECK_MESSAGE("words from before"); /* a success leaves them alone */
    end();
}

TEST(observer_does_not_see_nested_calls)
{
    static unsigned events;
    tarn_resource *counter, *limiter;
    tarn_device_ptr block;

    begin(&events);
    CHECK_OK(tarn_counter_create(script.resource, &counter));
    CHECK_OK(tarn_limiter_create(counter, 1 << 20, &limiter));
    CHECK_OK(tarn_resource_allocate(limiter, 10, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(limiter, block, 10, 0, NULL));
    CHECK_EQUAL(2, events);
    CHECK(seen[0].resource == limiter && seen[1].resource == limiter);
    CHECK_OK(tarn_resource_release(limiter));
    CHECK_OK(tarn_resource_release(counter));
    end();
}

TEST(observer_does_not_see_what_a_pool_takes_from_its_upstream)
{
    static unsigned events;
    tarn_resource *cuda, *pool;
    tarn_pool_options options = {.size = sizeof options, .initial_bytes = 4u << 20};

    begin(&events);
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_pool_create(0, cuda, &options, &pool));
    CHECK_OK(tarn_resource_trim(pool, 0, NULL));
    CHECK_OK(tarn_resource_release(pool));
    CHECK_EQUAL(0, events);
    CHECK_OK(tarn_resource_release(cuda));
    end();
}

static void allocate_inside(void *data, const tarn_observer_event *event)
{
    tarn_device_ptr block;

    *(unsigned *)data += !(event->action == TARN_ACTION_FREE && event->is_over);
    CHECK_OK(tarn_resource_allocate(event->resource, 5, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(event->resource, block, 5, 0, NULL));
}

TEST(observer_may_allocate_and_does_not_see_it)
{
    static unsigned events;
    tarn_device_ptr block;

    begin(&events);
    CHECK_OK(tarn_resource_set_observer(NULL, NULL));
    CHECK_OK(tarn_resource_set_observer(allocate_inside, &events));
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 0, NULL, &block));
    CHECK_EQUAL(1, events);
    CHECK_EQUAL(2, script.allocations);
    CHECK_OK(tarn_resource_deallocate(script.resource, block, 10, 0, NULL));
    end();
}

TEST(observer_does_not_see_calls_without_memory)
{
    static unsigned events;
    tarn_device_ptr block;

    begin(&events);
    CHECK_OK(tarn_resource_allocate(script.resource, 0, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(script.resource, 0, 0, 0, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_allocate(script.resource, 1, 3, NULL, &block));
    CHECK_EQUAL(0, events);
    end();
}

TEST(observer_is_unique_in_a_process_until_it_is_removed)
{
    static unsigned events, other;
    tarn_device_ptr block;

    begin(&events);
    CHECK_STATUS(TARN_ALREADY_SET, tarn_resource_set_observer(note, &other));
    CHECK_OK(tarn_resource_set_observer(NULL, NULL));
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 0, NULL, &block));
    CHECK_EQUAL(0, events);
    CHECK_OK(tarn_resource_set_observer(note, &other));
    CHECK_OK(tarn_resource_deallocate(script.resource, block, 10, 0, NULL));
    CHECK(events == 0 && other == 1);
    end();
}

/* --- removed while it runs --- */

static struct {
    atomic_bool is_inside, may_leave, has_left;
} visit;

static void stay(void *data, const tarn_observer_event *event)
{
    (void)data, (void)event;
    atomic_store(&visit.is_inside, true);
    while (!atomic_load(&visit.may_leave))
        usleep(500);
    atomic_store(&visit.has_left, true);
}

static void *allocate_and_free(void *unused)
{
    tarn_device_ptr block;

    (void)unused;
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 0, TARN_STREAM_NONE, &block));
    CHECK_OK(tarn_resource_deallocate(script.resource, block, 10, 0, TARN_STREAM_NONE));
    return NULL;
}

static void *remove_observer(void *unused)
{
    (void)unused;
    CHECK_OK(tarn_resource_set_observer(NULL, NULL));
    CHECK(atomic_load(&visit.has_left)); /* its data may be freed now */
    return NULL;
}

TEST(removed_observer_is_called_by_no_thread)
{
    pthread_t threads[2];
    unsigned events = 0;

    scripted_begin(&script, 0);
    CHECK_OK(tarn_resource_set_observer(stay, NULL));
    CHECK_EQUAL(0, pthread_create(&threads[0], NULL, allocate_and_free, NULL));
    while (!atomic_load(&visit.is_inside))
        usleep(500);
    CHECK_EQUAL(0, pthread_create(&threads[1], NULL, remove_observer, NULL));
    usleep(20000); /* otherwise the test shows less */
    atomic_store(&visit.may_leave, true);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    scripted_end(&script);
    begin(&events);
    allocate_and_free(NULL);
    CHECK_EQUAL(2, events);
    end();
}

static void remove_itself(void *data, const tarn_observer_event *event)
{
    (void)event;
    ++*(unsigned *)data;
    CHECK_OK(tarn_resource_set_observer(NULL, NULL));
}

TEST(observer_may_remove_itself)
{
    unsigned events = 0;

    scripted_begin(&script, 0);
    CHECK_OK(tarn_resource_set_observer(remove_itself, &events));
    allocate_and_free(NULL);
    CHECK_EQUAL(1, events);
    scripted_end(&script);
}
