/* Test pointers and views over existing memory: no driver is needed. */
#include "test.h"
#include <pthread.h>
#include <stdatomic.h>

struct lifetime {
    atomic_int finalized;
    atomic_int owner_released;
    int finalized_first; /* when the owner was released */
    tarn_device_ptr address;
    size_t bytes;
};

static void finalize(void *data, tarn_device_ptr address, size_t bytes)
{
    struct lifetime *lifetime = data;

    lifetime->address = address;
    lifetime->bytes = bytes;
    atomic_fetch_add(&lifetime->finalized, 1);
}

static void release_owner(void *owner)
{
    struct lifetime *lifetime = owner;

    lifetime->finalized_first = lifetime->finalized;
    atomic_fetch_add(&lifetime->owner_released, 1);
}

static tarn_pointer_options options_of(struct lifetime *lifetime)
{
    return (tarn_pointer_options){.size = sizeof(tarn_pointer_options),
                                  .kind = TARN_POINTER_DEVICE,
                                  .device = 1,
                                  .address = 0x10000,
                                  .bytes = 1000,
                                  .finalizer = finalize,
                                  .finalizer_data = lifetime,
                                  .owner = lifetime,
                                  .owner_release = release_owner};
}

static tarn_pointer *make(struct lifetime *lifetime)
{
    tarn_pointer_options options = options_of(lifetime);
    tarn_pointer *pointer;

    CHECK_OK(tarn_pointer_create(&options, &pointer));
    return pointer;
}

/* The number of live pointers. */
static uint64_t live_pointers(void)
{
    tarn_runtime_counts counts;

    tarn_pointer_counts(&counts);
    return counts.created - counts.destroyed;
}

TEST(pointer_finalizes_once_and_releases_its_owner_after_that)
{
    struct lifetime lifetime = {0};
    tarn_pointer *pointer = make(&lifetime);

    CHECK_EQUAL(1, live_pointers());
    CHECK_EQUAL(0x10000, tarn_pointer_address(pointer));
    CHECK_EQUAL(1000, tarn_pointer_bytes(pointer));
    CHECK_EQUAL(1, tarn_pointer_device(pointer));
    CHECK_EQUAL(TARN_POINTER_DEVICE, tarn_pointer_get_kind(pointer));
    CHECK(tarn_pointer_host(pointer) == NULL);
    CHECK(tarn_pointer_retain(pointer) == pointer);
    CHECK_EQUAL(2, tarn_pointer_use_count(pointer));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(0, lifetime.finalized);
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, lifetime.finalized);
    CHECK_EQUAL(0x10000, lifetime.address);
    CHECK_EQUAL(1000, lifetime.bytes);
    CHECK_EQUAL(1, lifetime.owner_released);
    CHECK_EQUAL(1, lifetime.finalized_first);
    CHECK_EQUAL(0, live_pointers());
}

TEST(pointer_functions_take_null)
{
    CHECK(tarn_pointer_retain(NULL) == NULL);
    tarn_pointer_release(NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_set_stream(NULL, NULL));
}

TEST(pointer_that_cannot_be_made_owns_nothing)
{
    struct lifetime lifetime = {0};
    tarn_pointer_options options = options_of(&lifetime);
    tarn_pointer *pointer = NULL;

    options.size = 8;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_create(&options, &pointer));
    CHECK_MESSAGE("at least");
    struct {
        tarn_pointer_options known;
        uint64_t later;
    } longer = {options_of(&lifetime), 1};
    longer.known.size = sizeof longer;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_create(&longer.known, &pointer));
    CHECK_MESSAGE("that this libtarn knows");
    options = options_of(&lifetime);
    options.kind = (tarn_pointer_kind)17;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_create(&options, &pointer));
    CHECK_MESSAGE("unknown kind 17");
    options = options_of(&lifetime);
    options.address = 0;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_create(&options, &pointer));
    CHECK_MESSAGE("1000 bytes, but address and host are NULL");
    options = options_of(&lifetime);
    options.bytes = SIZE_MAX - 10;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_create(&options, &pointer));
    CHECK_MESSAGE("wrap around");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_create(NULL, &pointer));
    CHECK_EQUAL(0, lifetime.finalized + lifetime.owner_released);
    CHECK(pointer == NULL);
}

TEST(view_keeps_the_memory_alive)
{
    struct lifetime lifetime = {0};
    tarn_pointer *pointer = make(&lifetime), *view;

    CHECK_OK(tarn_pointer_view(pointer, 100, 900, &view));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(0, lifetime.finalized);
    CHECK_EQUAL(0x10000 + 100, tarn_pointer_address(view));
    CHECK_EQUAL(900, tarn_pointer_bytes(view));
    CHECK_EQUAL(1, tarn_pointer_device(view));
    tarn_pointer_release(view);
    CHECK_EQUAL(1, lifetime.finalized);
    CHECK_EQUAL(0x10000, lifetime.address);
    CHECK_EQUAL(0, live_pointers());
}

TEST(view_of_a_view_counts_on_the_first_owner)
{
    struct lifetime lifetime = {0};
    tarn_pointer *pointer = make(&lifetime), *view, *inner;

    CHECK_OK(tarn_pointer_view(pointer, 100, 500, &view));
    CHECK_OK(tarn_pointer_view(view, 10, 20, &inner));
    CHECK_EQUAL(3, tarn_pointer_use_count(pointer));
    CHECK_EQUAL(1, tarn_pointer_use_count(view));
    CHECK_EQUAL(0x10000 + 110, tarn_pointer_address(inner));
    tarn_pointer_release(view);
    CHECK_EQUAL(2, tarn_pointer_use_count(pointer));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(0, lifetime.finalized);
    tarn_pointer_release(inner);
    CHECK_EQUAL(1, lifetime.finalized);
}

TEST(view_out_of_bounds_is_rejected_with_the_numbers)
{
    struct lifetime lifetime = {0};
    tarn_pointer *pointer = make(&lifetime), *view = NULL, *inner = NULL;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_view(pointer, 1, 1000, &view));
    CHECK_MESSAGE(
        "a view of 1000 bytes at offset 1 exceeds the pointer, which has 1000 bytes");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_view(pointer, 1001, 0, &view));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_view(pointer, SIZE_MAX, 2, &view));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_view(pointer, 2, SIZE_MAX, &view));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_view(NULL, 0, 0, &view));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_view(pointer, 0, 0, NULL));
    CHECK(view == NULL);
    CHECK_EQUAL(1, tarn_pointer_use_count(pointer));

    CHECK_OK(tarn_pointer_view(pointer, 900, 50, &view));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_view(view, 0, 51, &inner));
    CHECK_MESSAGE("51 bytes at offset 0 exceeds the pointer, which has 50 bytes");
    tarn_pointer_release(view);
    tarn_pointer_release(pointer);
}

TEST(view_may_be_empty_at_either_end)
{
    struct lifetime lifetime = {0};
    tarn_pointer *pointer = make(&lifetime), *first, *last;

    CHECK_OK(tarn_pointer_view(pointer, 0, 0, &first));
    CHECK_OK(tarn_pointer_view(pointer, 1000, 0, &last));
    CHECK_EQUAL(0, tarn_pointer_bytes(last));
    tarn_pointer_release(first);
    tarn_pointer_release(last);
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, lifetime.finalized);
}

TEST(view_into_an_empty_pointer_is_empty_or_rejected)
{
    tarn_pointer_options options = {.size = sizeof options, .kind = TARN_POINTER_DEVICE};
    tarn_pointer *pointer, *view;

    CHECK_OK(tarn_pointer_create(&options, &pointer));
    CHECK_EQUAL(0, tarn_pointer_address(pointer));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_view(pointer, 0, 1, &view));
    CHECK_MESSAGE("non-empty slice into empty slice");
    CHECK_OK(tarn_pointer_view(pointer, 0, 0, &view));
    CHECK_EQUAL(0, tarn_pointer_address(view));
    tarn_pointer_release(view);
    tarn_pointer_release(pointer);
}

TEST(view_has_both_addresses_of_mapped_memory)
{
    char memory[64];
    tarn_pointer_options options = {.size = sizeof options,
                                    .kind = TARN_POINTER_MAPPED,
                                    .address = 0x40000,
                                    .host = memory,
                                    .bytes = sizeof memory};
    tarn_pointer *pointer, *view;

    CHECK_OK(tarn_pointer_create(&options, &pointer));
    CHECK_OK(tarn_pointer_view(pointer, 8, 8, &view));
    CHECK_EQUAL(0x40008, tarn_pointer_address(view));
    CHECK(tarn_pointer_host(view) == memory + 8);
    CHECK_EQUAL(TARN_POINTER_MAPPED, tarn_pointer_get_kind(view));
    tarn_pointer_release(view);
    tarn_pointer_release(pointer);
}

TEST(pointer_without_a_resource_has_no_stream)
{
    struct lifetime lifetime = {0};
    tarn_pointer *pointer = make(&lifetime);

    CHECK_STATUS(TARN_NOT_SUPPORTED,
                 tarn_pointer_set_stream(pointer, TARN_STREAM_LEGACY));
    tarn_pointer_release(pointer);
}

enum { THREADS = 4, ROUNDS = 5000 };

static void *open_and_close(void *data)
{
    tarn_pointer *pointer = data, *view = NULL;

    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(tarn_pointer_view(pointer, (size_t)i % 1000, 1, &view));
        tarn_pointer_release(view);
    }
    tarn_pointer_release(pointer);
    return NULL;
}

TEST(pointer_shared_by_threads_is_finalized_once)
{
    struct lifetime lifetime = {0};
    tarn_pointer *pointer = make(&lifetime);
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, open_and_close,
                                      tarn_pointer_retain(pointer)));
    tarn_pointer_release(pointer);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(1, lifetime.finalized);
    CHECK_EQUAL(1, lifetime.owner_released);
    CHECK_EQUAL(0, live_pointers());
}
