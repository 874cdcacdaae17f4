/* Run handles with each driver call failing in turn, in the owner and in the importer,
 * and with either process killed at any moment. Nothing leaks, no call hangs, no byte is
 * wrong. */
#define _GNU_SOURCE
#include "../unit/ipc/pair.h"
#include "base/random.h"

enum { KILLED = 10, SMALL = 32 << 10 };

/* --- failing calls --- */

static void fail_nth(unsigned nth)
{
    char options[64];

    snprintf(options, sizeof options, "fail=nth:%u", nth);
    sim_configure(options);
}

/* Return the number of failed calls; from now on none fails. */
static unsigned long long end_faults(void)
{
    unsigned long long faults = sim_faults();

    sim_configure(NULL);
    return faults;
}

/* Retry the deferred frees. */
static void check_release(tarn_pointer *pointer)
{
    tarn_pointer_release(pointer);
    if (tarn_pointer_deferred_count() > 0)
        CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
}

static void open_while_calls_fail(const tarn_ipc_handle *handle, bool copy)
{
    tarn_ipc_open_options options = {
        .size = sizeof options, .always_copy = copy, .timeout_ms = 60000};
    tarn_pointer *untouched = (tarn_pointer *)(uintptr_t)77;
    unsigned long long faults = 1;

    for (unsigned nth = 1; faults > 0; nth++) {
        tarn_pointer *opened = untouched;
        fail_nth(nth);
        tarn_status status = tarn_ipc_open(handle, &options, &opened);
        CHILD_CHECK((status == TARN_OK) == (opened != untouched));
        if (status != TARN_OK) {
            end_faults();
            CHILD_STATUS(TARN_OK, tarn_ipc_open(handle, &options, &opened));
            CHILD_CHECK(wrong_bytes(opened, 1) == 0);
            check_release(opened);
            check_nothing_open();
            continue;
        }
        tarn_pointer_release(opened); /* which may fail, too */
        faults = end_faults();
        if (tarn_pointer_deferred_count() > 0)
            CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
        check_nothing_open();
    }
}

static void import_while_calls_fail(int line)
{
    CHILD_CHECK(sim_live_bytes() == 0);
    allocate(line, 0, SMALL, 1);
    for (int kind = 0; kind < 2; kind++) {
        tarn_ipc_handle handle = export_block(line, 0, 0, SMALL, (tarn_ipc_kind)kind);
        open_while_calls_fail(&handle, false);
        open_while_calls_fail(&handle, true);
    }
}

TEST(opening_survives_each_failing_call)
{
    with_owner(FROM_EXPORTABLE, import_while_calls_fail);
    with_owner(FROM_CUDA, import_while_calls_fail);
    with_owner(FROM_ASYNC, import_while_calls_fail);
}

/* Allocate, export and free a block; each of these may fail, and then succeeds. */
static void own_once(tarn_resource *resource, bool *failed)
{
    tarn_pointer *pointer = NULL;
    tarn_ipc_handle handle = {.bytes = 77};

    if (tarn_pointer_allocate(resource, MIB, TARN_STREAM_NONE, &pointer) != TARN_OK) {
        CHILD_CHECK(pointer == NULL);
        *failed = true;
        return;
    }
    for (int kind = 0; kind < 2; kind++)
        if (tarn_ipc_export(pointer, (tarn_ipc_kind)kind, &handle) != TARN_OK) {
            *failed = true;
            CHILD_CHECK(handle.bytes == (kind ? MIB : 77));
            CHILD_STATUS(TARN_OK, tarn_ipc_export(pointer, (tarn_ipc_kind)kind, &handle));
        }
    tarn_pointer_release(pointer);
}

static void own_while_calls_fail(int line)
{
    unsigned long long faults = 1;

    (void)line;
    for (int source = 0; source <= FROM_ASYNC; source++)
        for (unsigned nth = 1; faults > 0 || nth == 1; nth++) {
            tarn_ipc_counts counts;
            bool failed = false;
            fail_nth(nth);
            tarn_resource *resource = NULL;
            if (make_upstream((enum source)source, &resource) == TARN_OK)
                own_once(resource, &failed);
            faults = end_faults();
            CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
            CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
            tarn_ipc_get_counts(&counts);
            CHILD_CHECK(counts.segments == 0 && counts.served == 0);
            wait_until_all_is_freed();
        }
}

TEST(exporting_survives_each_failing_call)
{
    socket_directory_begin();
    struct process owner = process_start(own_while_calls_fail);
    process_end(&owner);
    socket_directory_end();
}

/* The owner's server calls the driver, too: its failures are reported, and temporary. */
static enum source faulty;

static void own_with_faults(int line)
{
    tarn_resource *resource = make_source(faulty);
    tarn_ipc_handle handles[2];
    tarn_pointer *pointer;
    tarn_ipc_counts counts;
    char mark;

    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, MIB, TARN_STREAM_NONE, &pointer));
    write_pattern(pointer, 1);
    for (int kind = 0; kind < 2; kind++)
        CHILD_STATUS(TARN_OK,
                     tarn_ipc_export(pointer, (tarn_ipc_kind)kind, &handles[kind]));
    tarn_ipc_get_counts(&counts);
    size_t files = counts.descriptors;
    sim_configure("fail=one-in:3,seed=11");
    must_send(line, handles, sizeof handles);
    must_receive(line, &mark, 1);
    sim_configure(NULL);
    do
        tarn_ipc_get_counts(&counts);
    while (counts.connections > 0);
    CHILD_CHECK(counts.descriptors == files);
    tarn_pointer_release(pointer);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    wait_until_all_is_freed();
}

static void open_until_it_works(int line)
{
    tarn_ipc_handle handles[2];
    unsigned failed_opens = 0;

    must_receive(line, handles, sizeof handles);
    for (int i = 0; i < 60; i++) {
        tarn_pointer *opened;
        while (tarn_ipc_open(&handles[i % 2], NULL, &opened) != TARN_OK) {
            CHILD_MESSAGE("rejected the request");
            failed_opens++;
        }
        CHILD_CHECK(wrong_bytes(opened, 1) == 0);
        tarn_pointer_release(opened);
        check_nothing_open();
    }
    CHILD_CHECK(failed_opens > 0);
}

static void serve_with_faults(enum source source)
{
    tarn_ipc_handle handles[2];

    faulty = source;
    socket_directory_begin();
    struct process owner = process_start(own_with_faults);
    must_receive(owner.line, handles, sizeof handles);
    struct process importer = process_start(open_until_it_works);
    must_send(importer.line, handles, sizeof handles);
    process_end(&importer);
    must_send(owner.line, "x", 1);
    process_end(&owner);
    socket_directory_end();
}

TEST(a_server_with_a_failing_driver_reports_it_and_keeps_nothing)
{
    serve_with_faults(FROM_EXPORTABLE);
    serve_with_faults(FROM_ASYNC);
}

/* --- killing --- */

static void open_for_ever(int line)
{
    tarn_ipc_handle handles[2];

    must_receive(line, handles, sizeof handles);
    send_message(line, "x", 1);
    for (unsigned i = 0;; i++) {
        tarn_pointer *opened, *again;
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handles[i % 2], NULL, &opened));
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handles[i % 2], NULL, &again));
        CHILD_CHECK(wrong_bytes(opened, 1) == 0);
        tarn_pointer_release(opened);
        tarn_pointer_release(again);
    }
}

static void wait_a_little(uint64_t *random)
{
    nanosleep(&(struct timespec){0, (long)tarn__random_below(random, 4000000)}, NULL);
}

static void kill_importers(enum source source)
{
    uint64_t random = 5;

    socket_directory_begin();
    struct process owner = process_start(owners[source]);
    allocate(owner.line, 0, MIB, 1);
    tarn_ipc_handle handles[2];
    export_in_both_kinds(owner.line, 0, MIB, handles);
    size_t files = counts_of(owner.line).descriptors;
    for (int i = 0; i < KILLED; i++) {
        struct process importer = process_start(open_for_ever);
        char mark;
        must_send(importer.line, handles, sizeof handles);
        must_receive(importer.line, &mark, 1);
        wait_a_little(&random);
        process_kill(&importer);
        check_owner_is_as_before(owner.line, files);
    }
    process_end(&owner);
    socket_directory_end();
}

TEST(importers_that_are_killed_at_any_moment_leave_the_owner_as_it_was)
{
    kill_importers(FROM_EXPORTABLE);
    kill_importers(FROM_CUDA);
    kill_importers(FROM_ASYNC);
}

/* Open until the owner is gone; until then every result is right. */
static void open_until_gone(int line)
{
    tarn_ipc_handle handles[2];
    tarn_pointer *opened, *first = NULL;
    tarn_status status = TARN_OK;

    must_receive(line, handles, sizeof handles);
    for (unsigned i = 0; status == TARN_OK; i++) {
        status = tarn_ipc_open(&handles[i % 2], NULL, &opened);
        if (status != TARN_OK)
            break;
        CHILD_CHECK(wrong_bytes(opened, 1) == 0);
        if (i == 0) {
            CHILD_CHECK(tarn_ipc_open(&handles[1], NULL, &first) == TARN_OK);
            tarn_pointer_release(first);
            send_message(line, "x", 1);
        }
        tarn_pointer_release(opened);
    }
    CHILD_STATUS(TARN_NOT_FOUND, status);
    check_nothing_open();
}

static void kill_owners(enum source source)
{
    uint64_t random = 7;

    socket_directory_begin();
    for (int i = 0; i < KILLED; i++) {
        struct process owner = process_start(owners[source]);
        struct process importer = process_start(open_until_gone);
        char mark;
        allocate(owner.line, 0, MIB, 1);
        tarn_ipc_handle handles[2];
        export_in_both_kinds(owner.line, 0, MIB, handles);
        must_send(importer.line, handles, sizeof handles);
        must_receive(importer.line, &mark, 1);
        wait_a_little(&random);
        process_kill(&owner);
        process_end(&importer);
    }
    remove_stale_files(MIB);
    socket_directory_end();
}

TEST(importers_of_an_owner_that_is_killed_at_any_moment_get_not_found)
{
    kill_owners(FROM_EXPORTABLE);
    kill_owners(FROM_CUDA);
    kill_owners(FROM_ASYNC);
}
