/* Test the end of a pointer: finalizer, owner and resource are called once each, whatever
 * they call.
 *
 * Nothing is lost, and a failure is reported once.
 */
#define _GNU_SOURCE
#include "fake.h"
#include "child.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* --- reported failures --- */

static struct {
    int warnings, misuses;
    char warning[600], misuse[600];
} reported;

static void hear_warning(void *data, const char *message)
{
    (void)data;
    reported.warnings++;
    snprintf(reported.warning, sizeof reported.warning, "%s", message);
}

static void hear_misuse(void *data, const char *message)
{
    (void)data;
    reported.misuses++;
    snprintf(reported.misuse, sizeof reported.misuse, "%s", message);
}

static void listen_anew(void)
{
    memset(&reported, 0, sizeof reported);
    tarn_set_warning_handler(hear_warning, NULL);
    tarn_nrt_set_misuse_handler(hear_misuse, NULL);
}

static void check_heard(int warnings, int misuses)
{
    CHECK_EQUAL(warnings, reported.warnings);
    CHECK_EQUAL(misuses, reported.misuses);
    tarn_nrt_set_misuse_handler(NULL, NULL);
}

static tarn_pointer *allocate(tarn_resource *resource)
{
    tarn_pointer *pointer;

    CHECK_OK(tarn_pointer_allocate(resource, 100, TARN_STREAM_LEGACY, &pointer));
    return pointer;
}

/* --- failures --- */

TEST(free_that_fails_is_a_warning_once_however_often_it_is_tried_again)
{
    struct fake fake = {.failing_frees = 3};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *one = allocate(resource), *other = allocate(resource);

    listen_anew();
    tarn_pointer_release(one);
    CHECK_EQUAL(1, reported.warnings);
    CHECK(strstr(reported.warning, "pointer: freeing 100 bytes at 0x10000"));
    CHECK(strstr(reported.warning, "fake: keep your 100 bytes"));
    tarn_pointer_release(other);
    CHECK_EQUAL(2, reported.warnings);
    CHECK(strstr(reported.warning, "0x20000"));
    tarn_pointer *third = allocate(resource); /* tries the first one again */
    CHECK_EQUAL(3, fake.failed_frees);
    tarn_pointer_release(third);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    CHECK_EQUAL(3, fake.frees);
    check_heard(2, 0);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(failed_free_is_reported_to_a_checking_caller_only)
{
    struct fake fake = {.failing_frees = 2};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer = allocate(resource), *view;

    listen_anew();
    CHECK_OK(tarn_pointer_view(pointer, 0, 1, &view));
    CHECK_OK(tarn_pointer_release_checked(pointer)); /* not the last */
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_pointer_release_checked(view));
    CHECK_MESSAGE("fake: keep your 100 bytes");
    CHECK_EQUAL(1, tarn_pointer_deferred_count());
    tarn_error_set(TARN_BAD_FORMAT, "of before");
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_pointer_reclaim_deferred());
    CHECK_MESSAGE("fake: keep your 100 bytes");
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(1, fake.frees);
    CHECK_OK(tarn_pointer_release_checked(NULL));
    check_heard(0, 0);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(failures_of_older_blocks_are_not_those_of_a_checked_release)
{
    struct fake bad = {.failing_frees = 1000}, good = {0};
    tarn_resource *refusing = make_fake(&bad, 0), *taking = make_fake(&good, 0);
    tarn_pointer *pointer = allocate(taking);

    listen_anew();
    tarn_pointer_release(allocate(refusing));
    CHECK_OK(tarn_pointer_release_checked(pointer)); /* and the old one is retried */
    CHECK_EQUAL(2, bad.failed_frees);
    CHECK_EQUAL(1, good.frees);
    bad.failing_frees = 0;
    CHECK_OK(tarn_pointer_reclaim_deferred());
    check_heard(1, 0);
    CHECK_OK(tarn_resource_release(refusing));
    CHECK_OK(tarn_resource_release(taking));
}

TEST(reclaim_returns_one_failure_and_warns_of_the_others)
{
    struct fake fake = {.deallocate_synchronizes = true, .failing_frees = 3};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_manager *manager;
    tarn_pointer *pointers[3];

    tarn_resource *before;
    CHECK_OK(tarn_device_set_resource(0, resource, &before));
    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    listen_anew();
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    for (int i = 0; i < 3; i++)
        CHECK_OK(tarn_manager_memalloc(manager, 100, TARN_STREAM_LEGACY, &pointers[i]));
    for (int i = 0; i < 3; i++)
        CHECK_OK(tarn_pointer_release_checked(pointers[i])); /* they wait */
    CHECK_EQUAL(3, tarn_pointer_deferred_count());
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_pointer_reclaim_deferred());
    check_heard(2, 0);
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK_EQUAL(3, fake.frees);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    tarn_manager_release(manager);
    CHECK_OK(tarn_device_set_resource(0, before, NULL));
    CHECK_OK(tarn_resource_release(before));
    CHECK_OK(tarn_resource_release(resource));
}

TEST(failed_free_at_the_end_of_deferred_cleanup_is_reported_to_its_caller)
{
    struct fake fake = {.deallocate_synchronizes = true, .failing_frees = 1};
    tarn_resource *resource = make_fake(&fake, 0), *before;
    tarn_manager *manager;
    tarn_pointer *pointer;

    CHECK_OK(tarn_device_set_resource(0, resource, &before));
    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    listen_anew();
    CHECK_OK(tarn_manager_memalloc(manager, 100, TARN_STREAM_LEGACY, &pointer));
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    CHECK_OK(tarn_pointer_release_checked(pointer));
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_manager_defer_cleanup_end(manager));
    check_heard(0, 0);
    CHECK_EQUAL(1, tarn_pointer_deferred_count());
    CHECK_OK(tarn_pointer_reclaim_deferred());
    tarn_manager_release(manager);
    CHECK_OK(tarn_device_set_resource(0, before, NULL));
    CHECK_OK(tarn_resource_release(before));
    CHECK_OK(tarn_resource_release(resource));
}

/* --- code that calls Tarn from within the end --- */

struct ending {
    tarn_pointer *pointer;   /* the one that ends */
    tarn_resource *resource; /* of others */
    int finalized, owner_released;
    bool in_finalizer; /* the place of the call; else in owner_release */
    void (*act)(struct ending *ending);
};

static void finalize(void *data, tarn_device_ptr address, size_t bytes)
{
    struct ending *ending = data;

    CHECK_EQUAL(0x10000, address);
    CHECK_EQUAL(1000, bytes);
    ending->finalized++;
    if (ending->in_finalizer)
        ending->act(ending);
}

static void release_owner(void *owner)
{
    struct ending *ending = owner;

    ending->owner_released++;
    if (!ending->in_finalizer)
        ending->act(ending);
}

static void release_again(struct ending *ending)
{
    tarn_pointer_release(ending->pointer);
}

static void retain_again(struct ending *ending)
{
    CHECK(tarn_pointer_retain(ending->pointer) == ending->pointer);
}

static void look_through(struct ending *ending)
{
    tarn_pointer *view = NULL;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_view(ending->pointer, 0, 1, &view));
    CHECK_MESSAGE("1000 bytes at 0x10000 have no references left");
    CHECK(view == NULL);
}

static void export_it(struct ending *ending)
{
    tarn_ipc_handle handle;

    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_ipc_export(ending->pointer, TARN_IPC_SERVED, &handle));
    CHECK_MESSAGE("have no references left");
}

static void use_others(struct ending *ending)
{
    tarn_pointer *other = allocate(ending->resource), *view;

    CHECK_OK(tarn_pointer_view(other, 10, 10, &view));
    tarn_pointer_release(other);
    tarn_pointer_release(view);
    CHECK_OK(tarn_pointer_reclaim_deferred());
}

static void fail_with_others(struct ending *ending)
{
    tarn_pointer_release(allocate(ending->resource));
}

static void end_one(struct ending *ending)
{
    tarn_pointer_options options = {.size = sizeof options,
                                    .device = 0,
                                    .address = 0x10000,
                                    .bytes = 1000,
                                    .finalizer = finalize,
                                    .finalizer_data = ending,
                                    .owner = ending,
                                    .owner_release = release_owner};

    CHECK_OK(tarn_pointer_create(&options, &ending->pointer));
    tarn_pointer_release(ending->pointer);
    CHECK_EQUAL(1, ending->finalized);
    CHECK_EQUAL(1, ending->owner_released);
}

/* At once and in another thread. */
static void *end_one_there(void *data)
{
    struct ending *ending = data, again = {.resource = ending->resource,
                                           .in_finalizer = ending->in_finalizer,
                                           .act = ending->act};

    end_one(&again);
    return NULL;
}

static void end_with(void (*act)(struct ending *), bool in_finalizer, int warnings,
                     int misuses, struct fake *fake)
{
    tarn_resource *resource = make_fake(fake, 0);
    struct ending ending = {
        .resource = resource, .in_finalizer = in_finalizer, .act = act};
    pthread_t thread;

    listen_anew();
    end_one(&ending);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, end_one_there, &ending));
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    check_heard(2 * warnings, 2 * misuses);
    fake->failing_frees = 0;
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(fake->allocations, fake->frees);
    CHECK_OK(tarn_resource_release(resource));
    CHECK_EQUAL(1, fake->destroyed);
}

TEST(pointer_that_its_finalizer_releases_or_retains_ends_once)
{
    for (int in_finalizer = 0; in_finalizer < 2; in_finalizer++) {
        struct fake one = {0}, other = {0};
        end_with(release_again, in_finalizer, 0, 1, &one);
        CHECK(strstr(reported.misuse, "release of MemInfo"));
        CHECK(strstr(reported.misuse, "which is being destroyed (runtime pointers)"));
        end_with(retain_again, in_finalizer, 0, 1, &other);
        CHECK(strstr(reported.misuse, "acquire of MemInfo"));
    }
}

TEST(pointer_that_ends_has_no_view_and_no_handle_any_more)
{
    for (int in_finalizer = 0; in_finalizer < 2; in_finalizer++) {
        struct fake one = {0}, other = {0};
        end_with(look_through, in_finalizer, 0, 0, &one);
        end_with(export_it, in_finalizer, 0, 0, &other);
    }
}

TEST(finalizer_may_allocate_and_free_others)
{
    for (int in_finalizer = 0; in_finalizer < 2; in_finalizer++) {
        struct fake fake = {0};
        end_with(use_others, in_finalizer, 0, 0, &fake);
    }
}

TEST(failing_free_within_a_finalizer_is_a_warning_of_its_own)
{
    for (int in_finalizer = 0; in_finalizer < 2; in_finalizer++) {
        struct fake fake = {.failing_frees = 100};
        end_with(fail_with_others, in_finalizer, 1, 0, &fake);
    }
}

/* --- a resource that calls Tarn during a free --- */

struct nested {
    tarn_resource *resource;
    tarn_pointer *others[3]; /* released in its deallocate, one per call */
    int left, frees, destroyed;
    bool fails; /* each first try of a block */
    tarn_device_ptr tried;
};

static tarn_status nested_allocate(void *self, size_t bytes, size_t alignment,
                                   tarn_stream stream, tarn_device_ptr *out)
{
    static tarn_device_ptr next = 0x10000;

    (void)self;
    (void)bytes;
    (void)alignment;
    (void)stream;
    *out = next += 0x10000;
    return TARN_OK;
}

static tarn_status nested_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                     size_t alignment, tarn_stream stream)
{
    struct nested *nested = self;

    (void)bytes;
    (void)alignment;
    (void)stream;
    if (nested->left > 0)
        tarn_pointer_release(nested->others[--nested->left]);
    if (nested->fails && nested->tried < block) {
        nested->tried = block;
        return tarn_error_set(TARN_PLUGIN_FAILURE, "nested: not yet");
    }
    nested->frees++;
    return TARN_OK;
}

static void nested_destroy(void *self)
{
    ((struct nested *)self)->destroyed++;
}

static tarn_resource *make_nested(struct nested *nested)
{
    static const tarn_resource_ops ops = {.size = sizeof ops,
                                          .name = "nested",
                                          .allocate = nested_allocate,
                                          .deallocate = nested_deallocate,
                                          .destroy = nested_destroy};

    CHECK_OK(tarn_resource_create(&ops, nested, 0, &nested->resource));
    return nested->resource;
}

static void free_within_frees(bool fails)
{
    struct nested nested = {.fails = fails};
    tarn_resource *resource = make_nested(&nested);
    tarn_pointer *first = allocate(resource);

    for (int i = 0; i < 3; i++)
        nested.others[nested.left++] = allocate(resource);
    listen_anew();
    tarn_pointer_release(first);
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(4, nested.frees);
    CHECK_EQUAL(0, nested.left);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    if (!fails)
        check_heard(0, 0);
    CHECK(reported.warnings <= 4); /* blocks, however often each was tried */
    CHECK_OK(tarn_resource_release(resource));
    CHECK_EQUAL(1, nested.destroyed);
}

TEST(resource_may_release_other_blocks_during_a_deallocation)
{
    free_within_frees(false);
}

TEST(resource_that_also_fails_then_gets_each_block_once)
{
    free_within_frees(true);
}

/* --- exit and fork --- */

static tarn_pointer *last_pointer;
static struct fake last_fake;

static void release_at_exit(void)
{
    struct ending ending = {.resource = NULL, .act = release_again, .in_finalizer = true};

    tarn_pointer_release(last_pointer);
    end_one(&ending);
    /* At exit no free is retried, so a failure is not reported. */
    if (last_fake.frees + last_fake.failed_frees != 1 || reported.warnings != 0 ||
        reported.misuses != 1)
        _exit(3);
}

static void leave_the_last_release_to_exit(void)
{
    CHILD_CHECK(atexit(release_at_exit) == 0); /* before Tarn's own */
    tarn_resource *resource = make_fake(&last_fake, 0);
    last_pointer = allocate(resource);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    last_fake.failing_frees = 1;
    listen_anew();
}

TEST(pointer_may_end_at_exit_and_its_free_may_fail)
{
    in_child(leave_the_last_release_to_exit);
}

static struct fake fake_of_the_parent;

static void reclaim_in_the_child(void)
{
    CHILD_CHECK(tarn_pointer_deferred_count() == 1);
    CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
    CHILD_CHECK(fake_of_the_parent.frees == 0);
}

TEST(failed_free_of_the_parent_is_not_tried_again_in_a_forked_child)
{
    tarn_resource *resource = make_fake(&fake_of_the_parent, 0);
    tarn_pointer *pointer = allocate(resource);

    fake_of_the_parent.failing_frees = 1;
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_pointer_release_checked(pointer));
    in_child(reclaim_in_the_child);
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(1, fake_of_the_parent.frees);
    CHECK_OK(tarn_resource_release(resource));
}
