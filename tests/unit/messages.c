/* messages.c -- check the messages of failing public calls: one line, in the terms of
 * docs/glossary.md.
 *
 * tests/support/private_words.h lists the terms that no message may contain.
 */
#define _GNU_SOURCE
#include "private_words.h"
#include "test.h"
#include "trace/text.h"
#include <ctype.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define HUGE_BYTES ((size_t)1 << 50)
#define FOREIGN ((tarn_device_ptr)0x1000)
#define RMM_HEADER "Thread,Time,Action,Pointer,Size,Stream\n"

/* Make a failing call. The message has to be its own, not that of an earlier failure. */
#define FAILS(wanted, call)                     \
    do {                                        \
        tarn_error_set(TARN_BUSY, "%s", STALE); \
        check_failure(#call, wanted, (call));   \
    } while (0)

static const char STALE[] = "message of an earlier failure";

/* --- the check of a message --- */

static bool is_word(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

/* Return whether `text` contains `word` as a whole word, without " of" behind it. */
static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = text; (at = strcasestr(at, word)) != NULL; at++)
        if ((at == text || !is_word(at[-1])) && !is_word(at[length]) &&
            (strncmp(at + length, " of", 3) != 0 || is_word(at[length + 3])))
            return true;
    return false;
}

static void check_text(const char *call, const char *text)
{
    if (!*text)
        fail_msg("%s: the message is empty", call);
    if (strpbrk(text, "\n\r"))
        fail_msg("%s: \"%s\" is more than one line", call, text);
    for (size_t i = 0; i < sizeof private_words / sizeof *private_words; i++)
        if (has_word(text, private_words[i]))
            fail_msg("%s: \"%s\" has \"%s\"", call, text, private_words[i]);
}

static void check_failure(const char *call, tarn_status wanted, tarn_status status)
{
    const tarn_error *error = tarn_error_last();

    if (status != wanted)
        fail_msg("%s: wanted %s, got %s (%s)", call, tarn_status_name(wanted),
                 tarn_status_name(status), error->message);
    if (error->status != status)
        fail_msg("%s: returned %s, the message has %s (%s)", call,
                 tarn_status_name(status), tarn_status_name(error->status),
                 error->message);
    if (strcmp(error->message, STALE) == 0)
        fail_msg("%s: no message", call);
    check_text(call, error->message);
}

TEST(private_words_are_found_as_whole_words)
{
    CHECK(has_word("0x10 is out", "is out"));
    CHECK(has_word("a Lane, 3", "lane"));
    CHECK(has_word("planes and a lane", "lane"));
    CHECK(!has_word("planes", "lane"));
    CHECK(!has_word("fence_lane", "lane"));
    CHECK(!has_word("the driver is out of memory", "is out"));
    CHECK(has_word("a lane offset", "lane"));
}

TEST(descriptions_of_statuses_have_no_private_words)
{
    for (int status = 0; status <= TARN_STATUS_COUNT; status++)
        check_text("tarn_status_string", tarn_status_string((tarn_status)status));
}

/* --- resources --- */

static void observe(void *data, const tarn_observer_event *event)
{
    (void)data;
    (void)event;
}

static void check_blocks(tarn_resource *resource)
{
    const tarn_stream none = TARN_STREAM_NONE;
    tarn_device_ptr block, other;

    FAILS(TARN_INVALID_ARGUMENT,
          tarn_resource_deallocate(resource, FOREIGN, 100, 0, none));
    CHECK_OK(tarn_resource_allocate(resource, 1000, 0, none, &block));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_allocate(resource, 100, 3, none, &other));
    FAILS(TARN_OUT_OF_MEMORY,
          tarn_resource_allocate(resource, SIZE_MAX, 0, none, &other));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_allocate(resource, 100, 0, none, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_deallocate(resource, block, 999, 0, none));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_resource_deallocate(resource, block, 1000, 3, none));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_resource_deallocate(resource, block, 1000, 4096, none));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_deallocate(resource, block, 0, 0, none));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_deallocate(resource, 0, 1000, 0, none));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_resource_deallocate(resource, FOREIGN, 1000, 0, none));
    FAILS(TARN_STILL_IN_USE, tarn_resource_release(resource));
    CHECK_OK(tarn_resource_deallocate(resource, block, 1000, 0, none));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_resource_deallocate(resource, block, 1000, 0, none));
}

TEST(messages_of_resources)
{
    const tarn_stream none = TARN_STREAM_NONE;
    tarn_resource *cuda, *host, *made;
    tarn_device_ptr block;
    size_t bytes;
    tarn_async_options short_options = {.size = 2};
    tarn_resource_ops short_table = {.size = sizeof short_table.size};
    NRT_ExternalAllocator *allocator;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_host_create(&host));
    check_blocks(cuda);
    check_blocks(host);
    FAILS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(cuda, HUGE_BYTES, 0, none, &block));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_allocate(NULL, 100, 0, none, &block));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_deallocate(NULL, FOREIGN, 100, 0, none));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_memory_info(NULL, none, &bytes, &bytes));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_trim(NULL, 0, &bytes));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_requested_bytes(NULL, FOREIGN, &bytes));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_create(NULL, NULL, 0, &made));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_create(&short_table, NULL, 0, &made));
    FAILS(TARN_INVALID_ARGUMENT, tarn_cuda_create(0, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_cuda_create(99, &made));
    FAILS(TARN_INVALID_ARGUMENT, tarn_async_create(0, NULL, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_async_create(0, &short_options, &made));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_allocator_create(NULL, &allocator));
    CHECK_OK(tarn_resource_set_observer(observe, NULL));
    FAILS(TARN_ALREADY_SET, tarn_resource_set_observer(observe, NULL));
    CHECK_OK(tarn_resource_set_observer(NULL, NULL));
    CHECK_OK(tarn_resource_release(host));
    CHECK_OK(tarn_resource_release(cuda));
}

TEST(messages_of_the_current_device_resource)
{
    tarn_resource *resource;

    FAILS(TARN_INVALID_ARGUMENT, tarn_device_resource(99, &resource));
    FAILS(TARN_INVALID_ARGUMENT, tarn_device_resource(0, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_device_set_resource(99, NULL, NULL));
    if (!has_second_device())
        return;
    CHECK_OK(tarn_cuda_create(1, &resource));
    FAILS(TARN_INVALID_ARGUMENT, tarn_device_set_resource(0, resource, NULL));
    CHECK_OK(tarn_resource_release(resource));
}

/* --- adaptors --- */

TEST(messages_of_adaptors)
{
    const tarn_stream none = TARN_STREAM_NONE;
    tarn_tracker_options tracked = {.size = sizeof tracked, .stack_depth = 129};
    tarn_resource *cuda, *limiter, *counter, *made;
    tarn_device_ptr block, other;
    tarn_counts counts;
    size_t bytes;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    FAILS(TARN_INVALID_ARGUMENT, tarn_limiter_create(NULL, 100, &made));
    FAILS(TARN_INVALID_ARGUMENT, tarn_counter_create(cuda, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_logger_create(cuda, NULL, &made));
    FAILS(TARN_INVALID_ARGUMENT, tarn_adaptor_upstream(NULL, &made));
    FAILS(TARN_NOT_SUPPORTED, tarn_adaptor_upstream(cuda, &made));
    FAILS(TARN_INVALID_ARGUMENT, tarn_limiter_used_bytes(cuda, &bytes));
    FAILS(TARN_INVALID_ARGUMENT, tarn_counter_read(cuda, &counts));
    FAILS(TARN_INVALID_ARGUMENT, tarn_tracker_create(cuda, NULL, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_tracker_create(cuda, &tracked, &made));
    FAILS(TARN_INVALID_ARGUMENT, tarn_tracker_bytes(cuda, &bytes));
    FAILS(TARN_INVALID_ARGUMENT, tarn_tracker_print(cuda, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_tracker_write(cuda, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_stack_get_counts(NULL));

    CHECK_OK(tarn_limiter_create(cuda, 1024, &limiter));
    CHECK_OK(tarn_resource_allocate(limiter, 1000, 0, none, &block));
    FAILS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(limiter, 1000, 0, none, &other));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_resource_deallocate(limiter, FOREIGN, 5000, 0, none));
    FAILS(TARN_INVALID_ARGUMENT, tarn_limiter_used_bytes(limiter, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_limiter_limit_bytes(limiter, NULL));
    CHECK_OK(tarn_resource_deallocate(limiter, block, 1000, 0, none));
    CHECK_OK(tarn_resource_release(limiter));

    CHECK_OK(tarn_counter_create(cuda, &counter));
    FAILS(TARN_INVALID_ARGUMENT, tarn_counter_read(counter, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_counter_pop(counter, NULL));
    CHECK_OK(tarn_resource_release(counter));
    CHECK_OK(tarn_resource_release(cuda));
}

TEST(messages_of_slabs_and_binning_resources)
{
    const tarn_stream none = TARN_STREAM_NONE;
    tarn_slab_options slab_options = {.size = sizeof slab_options,
                                      .block_bytes = 10000,
                                      .initial_blocks = 3,
                                      .maximum_blocks = 1};
    tarn_binning_options bins = {
        .size = sizeof bins, .min_size_exponent = 9, .max_size_exponent = 3};
    tarn_resource *cuda, *slab, *binning, *made;
    tarn_device_ptr block, other;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    FAILS(TARN_INVALID_ARGUMENT, tarn_slab_create(0, NULL, &slab_options, &made));
    FAILS(TARN_INVALID_ARGUMENT, tarn_slab_create(99, NULL, NULL, &made));
    slab_options.initial_blocks = slab_options.maximum_blocks = 0;
    CHECK_OK(tarn_slab_create(0, NULL, &slab_options, &slab));
    FAILS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(slab, 10001, 0, none, &block));
    CHECK_OK(tarn_resource_release(slab));

    FAILS(TARN_INVALID_ARGUMENT, tarn_binning_create(NULL, NULL, &made));
    FAILS(TARN_INVALID_ARGUMENT, tarn_binning_create(cuda, &bins, &made));
    CHECK_OK(tarn_binning_create(cuda, NULL, &binning));
    FAILS(TARN_INVALID_ARGUMENT, tarn_binning_add_bin(cuda, 1000, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_binning_add_bin(binning, 0, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_binning_add_bin(binning, 1000, binning));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_resource_deallocate(binning, FOREIGN, 1000, 0, none));
    CHECK_OK(tarn_resource_allocate(binning, 500, 0, none, &block));
    CHECK_OK(tarn_binning_add_bin(binning, 1000, cuda));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_deallocate(binning, block, 501, 0, none));
    FAILS(TARN_OUT_OF_MEMORY,
          tarn_resource_allocate(binning, HUGE_BYTES, 0, none, &other));
    CHECK_OK(tarn_resource_deallocate(binning, block, 500, 0, none));
    CHECK_OK(tarn_resource_release(binning));
    CHECK_OK(tarn_resource_release(cuda));
}

/* --- pools --- */

static bool free_nothing(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    (void)data;
    (void)pool;
    (void)bytes;
    (void)attempt;
    return false;
}

TEST(messages_of_options_of_a_pool)
{
    tarn_pool_options options = {.size = 2};
    struct {
        tarn_pool_options known;
        size_t later;
    } longer = {.known.size = sizeof longer, .later = 1};
    tarn_resource *pool;

    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, NULL, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_create(99, NULL, NULL, &pool));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, &options, &pool));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, &longer.known, &pool));
    options = (tarn_pool_options){.size = sizeof options,
                                  .oom_policy = (tarn_pool_oom_policy)7};
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, &options, &pool));
    options = (tarn_pool_options){
        .size = sizeof options, .initial_bytes = 4 * MIB, .maximum_bytes = 2 * MIB};
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, &options, &pool));
    options = (tarn_pool_options){
        .size = sizeof options, .growth_bytes = 4 * MIB, .maximum_bytes = 2 * MIB};
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, &options, &pool));
    options = (tarn_pool_options){.size = sizeof options,
                                  .suspended_policy = (tarn_pool_suspended_policy)7};
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, &options, &pool));
    options = (tarn_pool_options){.size = sizeof options,
                                  .no_stream_policy = (tarn_pool_no_stream_policy)7};
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, &options, &pool));
}

TEST(messages_of_pools)
{
    const tarn_stream none = TARN_STREAM_NONE;
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = 4 * MIB};
    tarn_pool_statistics statistics = {.size = 0};
    tarn_pool_capture *capture;
    tarn_resource *pool, *cuda;
    tarn_device_ptr block, other;
    char text[2048];
    tarn_pool_oom_report report = {.size = sizeof report};

    CHECK_OK(tarn_pool_create(0, NULL, &options, &pool));
    CHECK_OK(tarn_resource_allocate(pool, MIB, 0, none, &block));
    FAILS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(pool, 64 * MIB, 0, none, &other));
    CHECK_OK(tarn_pool_last_oom_report(&report));
    tarn_pool_oom_report_text(&report, text, sizeof text);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        check_text("tarn_pool_oom_report_text", line);
    FAILS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(pool, HUGE_BYTES, 0, none, &other));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_deallocate(pool, FOREIGN, 100, 0, none));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_deallocate(pool, block, 100, 0, none));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_set_maximum(pool, 1));
    FAILS(TARN_STILL_IN_USE, tarn_resource_release(pool));
    CHECK_OK(tarn_resource_deallocate(pool, block, MIB, 0, none));
    FAILS(TARN_INVALID_ARGUMENT, tarn_resource_deallocate(pool, block, MIB, 0, none));

    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_get_statistics(pool, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_get_statistics(pool, &statistics));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_last_oom_report(NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_generation(pool, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_snapshot(pool, NULL, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_set_peer_access(pool, 0, true));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_get_capture(pool, none, NULL));
    FAILS(TARN_NOT_FOUND, tarn_pool_get_capture(pool, TARN_STREAM_DEFAULT, &capture));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_capture_get_statistics(NULL, NULL));

    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_add_oom_callback(pool, NULL, NULL));
    FAILS(TARN_NOT_FOUND, tarn_pool_remove_oom_callback(pool, free_nothing, NULL));
    for (int i = 0; i < 8; i++)
        CHECK_OK(tarn_pool_add_oom_callback(pool, free_nothing, NULL));
    FAILS(TARN_LIMIT_REACHED, tarn_pool_add_oom_callback(pool, free_nothing, NULL));
    CHECK_OK(tarn_resource_release(pool));

    CHECK_OK(tarn_cuda_create(0, &cuda));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_get_statistics(cuda, &statistics));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_set_maximum(NULL, MIB));
    CHECK_OK(tarn_pool_create(0, cuda, &options, &pool));
    FAILS(TARN_NOT_SUPPORTED, tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD));
    CHECK_OK(tarn_resource_release(pool));
    CHECK_OK(tarn_resource_release(cuda));
}

TEST(messages_of_a_suspended_pool)
{
    tarn_resource *pool;
    tarn_device_ptr block;

    CHECK_OK(tarn_pool_create(0, NULL, NULL, &pool));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pool_suspend(pool, (tarn_pool_suspend_mode)9));
    CHECK_OK(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD));
    FAILS(TARN_SUSPENDED, tarn_resource_allocate(pool, MIB, 0, TARN_STREAM_NONE, &block));
    CHECK_OK(tarn_pool_resume(pool));
    CHECK_OK(tarn_resource_release(pool));
}

/* --- the driver and its streams --- */

TEST(messages_of_the_driver)
{
    tarn_device_info device;
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    FAILS(TARN_INVALID_ARGUMENT, tarn_driver_get_info(NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_driver_device_info(99, &device));
    FAILS(TARN_INVALID_ARGUMENT, tarn_driver_device_info(0, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_driver_current_device(NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_driver_synchronize(99));
    FAILS(TARN_ALREADY_SET, tarn_driver_open("/nowhere/libcuda.so.1"));
}

TEST(messages_of_streams)
{
    tarn_stream raw, registered, wrong = (tarn_stream)7;
    tarn_resource *pool;
    tarn_device_ptr block;

    FAILS(TARN_INVALID_ARGUMENT, tarn_stream_create(0, false, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_stream_destroy(0, TARN_STREAM_LEGACY));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_stream_register(0, TARN_STREAM_PER_THREAD, &registered));
    FAILS(TARN_INVALID_ARGUMENT, tarn_stream_register(0, TARN_STREAM_DEFAULT, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_stream_unregister(wrong));
    FAILS(TARN_INVALID_ARGUMENT, tarn_stream_announce_capture(wrong, true));
    CHECK_OK(tarn_stream_create(0, true, &raw));
    CHECK_OK(tarn_stream_register(0, raw, &registered));
    FAILS(TARN_INVALID_ARGUMENT, tarn_stream_destroy(0, registered));
    FAILS(TARN_STILL_IN_USE, tarn_stream_destroy(0, raw));
    CHECK_OK(tarn_stream_unregister(registered));
    FAILS(TARN_INVALID_ARGUMENT, tarn_stream_unregister(registered));
    FAILS(TARN_INVALID_ARGUMENT, tarn_stream_synchronize(0, registered));
    FAILS(TARN_INVALID_ARGUMENT, tarn_stream_wait(0, registered, TARN_STREAM_LEGACY));
    FAILS(TARN_INVALID_ARGUMENT, tarn_stream_wait(0, TARN_STREAM_LEGACY, registered));
    CHECK_OK(tarn_pool_create(0, NULL, NULL, &pool));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_resource_allocate(pool, 1000, 0, registered, &block));
    CHECK_OK(tarn_resource_release(pool));
    CHECK_OK(tarn_stream_destroy(0, raw));
}

/* --- pointers, managers, handles --- */

TEST(messages_of_pointers)
{
    tarn_pointer_options options = {.size = sizeof options, .bytes = 1000};
    tarn_deferred_frees frees = {.size = 8};
    tarn_pointer *pointer, *other;
    tarn_resource *cuda;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_pointer_allocate(NULL, 100, TARN_STREAM_NONE, &pointer));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_pointer_allocate(cuda, 100, TARN_STREAM_NONE, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pointer_create(NULL, &pointer));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pointer_create(&options, &pointer));
    options.address = UINT64_MAX - 10;
    FAILS(TARN_INVALID_ARGUMENT, tarn_pointer_create(&options, &pointer));
    options.kind = (tarn_pointer_kind)17;
    FAILS(TARN_INVALID_ARGUMENT, tarn_pointer_create(&options, &pointer));
    options = (tarn_pointer_options){.size = sizeof options, .address = 4096, .bytes = 8};
    CHECK_OK(tarn_pointer_create(&options, &pointer));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pointer_view(NULL, 0, 1, &other));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pointer_view(pointer, 0, 1, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pointer_view(pointer, 4, 5, &other));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pointer_set_stream(NULL, TARN_STREAM_NONE));
    FAILS(TARN_NOT_SUPPORTED, tarn_pointer_set_stream(pointer, TARN_STREAM_NONE));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pointer_deferred_frees(NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_pointer_deferred_frees(&frees));
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_resource_release(cuda));
}

TEST(messages_of_managers)
{
    tarn_manager_ops no_name = *tarn_native_manager_ops(), old = no_name;
    const tarn_manager_ops *loaded;
    tarn_manager *manager, *other;
    tarn_pointer *pointer;
    tarn_ipc_handle handle;
    size_t count;

    no_name.name = NULL;
    old.interface_version = -1;
    FAILS(TARN_INVALID_ARGUMENT, tarn_manager_create(NULL, NULL, 0, &manager));
    FAILS(TARN_INVALID_ARGUMENT, tarn_manager_create(&no_name, NULL, 0, &manager));
    FAILS(TARN_INVALID_ARGUMENT, tarn_manager_create(&old, NULL, 0, &manager));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_manager_create(tarn_native_manager_ops(), NULL, 99, &manager));
    CHECK_OK(tarn_manager_create(tarn_native_manager_ops(), NULL, 0, &manager));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_manager_memalloc(NULL, 100, TARN_STREAM_NONE, &pointer));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_manager_memalloc(manager, 100, TARN_STREAM_NONE, NULL));
    FAILS(TARN_OUT_OF_MEMORY,
          tarn_manager_memalloc(manager, HUGE_BYTES, TARN_STREAM_NONE, &pointer));
    FAILS(TARN_INVALID_ARGUMENT, tarn_manager_memhostalloc(manager, 100, 0x80, &pointer));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_manager_mempin(manager, NULL, 100, 0, NULL, NULL, &pointer));
    FAILS(TARN_INVALID_ARGUMENT, tarn_manager_get_ipc_handle(manager, NULL, &handle));
    FAILS(TARN_INVALID_ARGUMENT, tarn_manager_defer_cleanup_end(manager));
    FAILS(TARN_INVALID_ARGUMENT, tarn_manager_get_memory_info(NULL, &count, &count));
    tarn_manager_release(manager);
    FAILS(TARN_INVALID_ARGUMENT, tarn_memory_manager(99, &other));
    FAILS(TARN_INVALID_ARGUMENT, tarn_memory_manager(0, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_manager_set_pending_deallocs_limits(10, 1.5));
    FAILS(TARN_INVALID_ARGUMENT, tarn_manager_pending_deallocs(0, NULL, &count));
    FAILS(TARN_INVALID_ARGUMENT, tarn_manager_load(NULL, NULL, &loaded));
    FAILS(TARN_INVALID_ARGUMENT, tarn_manager_load("manager.so", NULL, &loaded));
    FAILS(TARN_NOT_FOUND, tarn_manager_load("/nowhere/manager.so", NULL, &loaded));
    FAILS(TARN_BAD_FORMAT, tarn_manager_load("/etc/passwd", NULL, &loaded));
}

TEST(messages_of_handles_for_other_processes)
{
    tarn_pointer_options options = {
        .size = sizeof options, .address = FOREIGN, .bytes = 8};
    tarn_ipc_open_options short_options = {.size = 2};
    tarn_ipc_handle handle = {.bytes = 0}, garbage = {.bytes = 100};
    tarn_pointer *pointer, *opened;
    size_t count;

    CHECK_OK(tarn_pointer_create(&options, &pointer));
    FAILS(TARN_INVALID_ARGUMENT, tarn_ipc_export(NULL, TARN_IPC_PLAIN, &handle));
    FAILS(TARN_INVALID_ARGUMENT, tarn_ipc_export(pointer, TARN_IPC_PLAIN, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_ipc_export(pointer, (tarn_ipc_kind)9, &handle));
    tarn_pointer_release(pointer);
    FAILS(TARN_INVALID_ARGUMENT, tarn_ipc_open(NULL, NULL, &opened));
    FAILS(TARN_INVALID_ARGUMENT, tarn_ipc_open(&garbage, NULL, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_ipc_open(&handle, NULL, &opened));
    FAILS(TARN_INVALID_ARGUMENT, tarn_ipc_open(&garbage, &short_options, &opened));
    FAILS(TARN_NOT_FOUND, tarn_ipc_open(&garbage, NULL, &opened));
    FAILS(TARN_INVALID_ARGUMENT, tarn_ipc_leases(NULL, 3, &count));
}

/* --- logs --- */

static tarn_status read_log(const char *log)
{
    struct text text = text_of(log);
    tarn_status status =
        tarn_trace_read("log.csv", text_read, &text, NULL, NULL, NULL, NULL);

    text_free(&text);
    return status;
}

TEST(messages_of_bad_logs)
{
    static const char *const logs[] = {
        "",
        "a,b\n",
        RMM_HEADER "1,00:00:01.0,allo",
        RMM_HEADER "1,00:00:01.0,allocate,0x10,100,0,9\n",
        RMM_HEADER "1,25:00:00.0,allocate,0x10,100,0\n",
        RMM_HEADER "1,00:00:01.0,alloc,0x10,100,0\n",
        RMM_HEADER "1,00:00:01.0,allocate,0xfg,100,0\n",
        RMM_HEADER "1,00:00:01.0,allocate,0x10,-1,0\n",
        RMM_HEADER "1,00:00:01.0,allocate,0x10,99999999999999999999999,0\n",
        RMM_HEADER "1,\"00:00:01.0,allocate,0x10,100,0\n",
        RMM_HEADER "1,\"00:00:01.0\"x,allocate,0x10,100,0\n",
        RMM_HEADER "1,00:00\r:01.0,allocate,0x10,100,0\n",
    };

    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++)
        FAILS(TARN_BAD_FORMAT, read_log(logs[i]));
}

static void check_problem(void *data, uint64_t line, const char *what)
{
    (void)line;
    ++*(unsigned *)data;
    check_text("tarn_trace_accounting_add", what);
}

TEST(inconsistent_rows_have_no_private_words)
{
    const tarn_trace_event events[] = {
        {.action = TARN_ACTION_FREE, .address = 16, .end_ns = 1},
        {.action = TARN_ACTION_ALLOCATE, .address = 16, .bytes = 8, .end_ns = 1},
        {.action = TARN_ACTION_ALLOCATE, .address = 16, .bytes = 9, .end_ns = 1},
        {.action = TARN_ACTION_FREE, .address = 16, .bytes = 7, .device = 1, .end_ns = 1},
        {.action = TARN_ACTION_ALLOCATE, .bytes = 8, .end_ns = 1},
        {.action = TARN_ACTION_ALLOCATE_FAILURE, .address = 16, .end_ns = 1},
        {.action = TARN_ACTION_ALLOCATE, .start_ns = 1},
        {.action = TARN_ACTION_ALLOCATE, .free_bytes = 9, .total_bytes = 8, .end_ns = 1},
    };
    tarn_trace_accounting *accounting;
    unsigned problems = 0;

    CHECK_OK(tarn_trace_accounting_create("log.csv", NULL, check_problem, &problems,
                                          &accounting));
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        CHECK_OK(tarn_trace_accounting_add(accounting, &events[i], i + 1));
    CHECK(problems >= sizeof events / sizeof *events);
    tarn_trace_accounting_release(accounting);
}

TEST(messages_of_readers_and_writers_of_logs)
{
    tarn_trace_accounting *accounting;
    tarn_trace_writer *writer;
    tarn_trace *trace;

    FAILS(TARN_INVALID_ARGUMENT,
          tarn_trace_read(NULL, text_read, NULL, NULL, NULL, NULL, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_trace_load("log", NULL, NULL, NULL, &trace));
    FAILS(TARN_INVALID_ARGUMENT, tarn_trace_writer_open("", TARN_TRACE_RMM, &writer));
    FAILS(TARN_SYSTEM_FAILURE,
          tarn_trace_writer_open("/nowhere/log.csv", TARN_TRACE_RMM, &writer));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_trace_writer_create(NULL, NULL, TARN_TRACE_RMM, &writer));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_trace_writer_create(text_write, NULL, (tarn_trace_format)9, &writer));
    FAILS(TARN_INVALID_ARGUMENT, tarn_trace_write(NULL, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_trace_writer_set_auto_flush(NULL, true));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_trace_accounting_create(NULL, NULL, NULL, NULL, NULL));
    CHECK_OK(tarn_trace_accounting_create(NULL, NULL, NULL, NULL, &accounting));
    FAILS(TARN_INVALID_ARGUMENT, tarn_trace_accounting_add(accounting, NULL, 1));
    tarn_trace_accounting_release(accounting);
    FAILS(TARN_INVALID_ARGUMENT, tarn_replay(NULL, NULL, NULL, NULL));
}

/* --- counted memory --- */

static void check_misuse(void *data, const char *words)
{
    ++*(unsigned *)data;
    check_text("tarn_nrt_misuse_handler", words);
}

TEST(messages_of_runtimes)
{
    tarn_runtime_stats stats = {.size = 0};
    tarn_meminfo_options options = {.size = sizeof options, .bytes = 10};
    tarn_nrt_snapshot *snapshot;
    tarn_meminfo *meminfo;
    tarn_runtime *runtime;
    unsigned modes, misuses = 0;

    FAILS(TARN_INVALID_ARGUMENT, tarn_runtime_create(NULL, &runtime));
    FAILS(TARN_INVALID_ARGUMENT, tarn_runtime_release(tarn_runtime_default()));
    FAILS(TARN_INVALID_ARGUMENT, tarn_runtime_set_allocator(NULL, NULL));
    FAILS(TARN_INVALID_ARGUMENT, tarn_runtime_set_modes(NULL, 0));
    FAILS(TARN_INVALID_ARGUMENT, tarn_nrt_modes_parse("gard", &modes));
    FAILS(TARN_INVALID_ARGUMENT, tarn_nrt_modes_parse(NULL, &modes));
    FAILS(TARN_INVALID_ARGUMENT, tarn_nrt_snapshot_take(NULL, &snapshot));
    FAILS(TARN_INVALID_ARGUMENT,
          tarn_meminfo_create(NULL, NULL, 0, NULL, NULL, &meminfo));
    FAILS(TARN_INVALID_ARGUMENT, tarn_meminfo_allocate(NULL, NULL, &meminfo));
    CHECK_OK(tarn_runtime_create("messages", &runtime));
    FAILS(TARN_INVALID_ARGUMENT, tarn_runtime_stats_read(runtime, &stats));
    FAILS(TARN_INVALID_ARGUMENT, tarn_runtime_set_modes(runtime, ~0u));
    /* from slabs, so that a late release finds the same memory under sanitizers, too */
    CHECK_OK(tarn_runtime_set_modes(runtime, TARN_NRT_SLABS));
    CHECK_OK(tarn_meminfo_allocate(runtime, &options, &meminfo));
    FAILS(TARN_STILL_IN_USE, tarn_runtime_release(runtime));
    tarn_nrt_set_misuse_handler(check_misuse, &misuses);
    tarn_meminfo_release(meminfo);
    tarn_meminfo_release(meminfo);
    tarn_meminfo_acquire(meminfo);
    CHECK(!tarn_meminfo_runtime(meminfo));
    tarn_nrt_set_misuse_handler(NULL, NULL);
    CHECK_EQUAL(2, misuses);
    check_text("tarn_meminfo_runtime", tarn_error_last()->message);
    CHECK_OK(tarn_runtime_release(runtime));
}
