/* Test forked children and socket directories: a child keeps nothing of its parent's.
 *
 * A directory that other users may enter is not used.
 */
#define _GNU_SOURCE
#include "pair.h"
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* gcc 12's ASan releases none of its locks over a fork. One that another thread held at
 * that moment stays held in the child. The server's threads are idle between requests. */
static pid_t fork_at_rest(void)
{
#ifdef __SANITIZE_ADDRESS__
    usleep(20000);
#endif
    return fork();
}

/* A child that runs until it is killed, and keeps everything that a fork copies. */
static pid_t fork_idle(void)
{
    pid_t child = fork_at_rest();

    CHILD_CHECK(child >= 0);
    if (child == 0)
        for (;;)
            pause();
    return child;
}

static void end_idle(pid_t child)
{
    kill(child, SIGKILL);
    CHILD_CHECK(waitpid(child, NULL, 0) == child);
}

static void open_fork_close(int line)
{
    tarn_pointer *opened;
    tarn_ipc_handle handle;

    must_receive(line, &handle, sizeof handle);
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened));
    pid_t child = fork_idle();
    tarn_pointer_release(opened);
    must_send(line, &child, sizeof child);
    char mark;
    receive_message(line, &mark, 1);
    end_idle(child);
    check_nothing_open();
}

TEST(a_lease_is_not_kept_by_a_forked_child)
{
    socket_directory_begin();
    struct process owner = process_start(own_exportable);
    struct process importer = process_start(open_fork_close);
    allocate(owner.line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(owner.line, 0, 0, MIB, TARN_IPC_SERVED);
    pid_t child;
    must_send(importer.line, &handle, sizeof handle);
    must_receive(importer.line, &child, sizeof child);
    while (counts_of(owner.line).leases > 0) /* indefinitely, if the child had it */
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    process_end(&importer);
    process_end(&owner);
    socket_directory_end();
}

/* An owner that forks a child, which outlives it. */
static void own_and_fork(int line)
{
    tarn_resource *resource = make_source(FROM_EXPORTABLE);
    tarn_ipc_handle handles[2];
    tarn_pointer *pointer;

    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, MIB, TARN_STREAM_NONE, &pointer));
    for (int kind = 0; kind < 2; kind++)
        CHILD_STATUS(TARN_OK,
                     tarn_ipc_export(pointer, (tarn_ipc_kind)kind, &handles[kind]));
    pid_t child = fork_idle();
    must_send(line, handles, sizeof handles);
    must_send(line, &child, sizeof child);
    pause();
}

static void find_no_owner(int line)
{
    tarn_ipc_handle handles[2];
    tarn_pointer *opened;

    must_receive(line, handles, sizeof handles);
    for (int kind = 0; kind < 2; kind++) {
        CHILD_STATUS(TARN_NOT_FOUND, tarn_ipc_open(&handles[kind], NULL, &opened));
        CHILD_MESSAGE("has ended");
    }
    check_nothing_open();
}

/* The child is unknown to the test, but has its connection: the test cannot wait for it.
 */
TEST(a_forked_child_does_not_serve_its_parents_handles)
{
    tarn_ipc_handle handles[2];
    pid_t child;

    socket_directory_begin();
    struct process owner = process_start(own_and_fork);
    must_receive(owner.line, handles, sizeof handles);
    must_receive(owner.line, &child, sizeof child);
    process_kill(&owner);
    struct process importer = process_start(find_no_owner);
    must_send(importer.line, handles, sizeof handles);
    process_end(&importer);
    CHECK_EQUAL(0, kill(child, SIGKILL));
    struct process next = process_start(own_exportable); /* removes the dead socket */
    allocate(next.line, 0, MIB, 1);
    export_block(next.line, 0, 0, MIB, TARN_IPC_PLAIN);
    process_end(&next);
    socket_directory_end();
}

/* In a child every call fails, and releases only forget the handle. */
static void use_in_a_child(int line)
{
    tarn_resource *resource = make_source(FROM_EXPORTABLE);
    tarn_ipc_handle handle, foreign;
    tarn_pointer *pointer, *opened;
    int status = 0;

    must_receive(line, &foreign, sizeof foreign);
    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, MIB, TARN_STREAM_NONE, &pointer));
    CHILD_STATUS(TARN_OK, tarn_ipc_export(pointer, TARN_IPC_SERVED, &handle));
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&foreign, NULL, &opened));
    pid_t child = fork_at_rest();
    if (child == 0) {
        tarn_pointer *out;
        tarn_ipc_counts counts;
        CHILD_STATUS(TARN_DRIVER_FAILURE,
                     tarn_ipc_export(pointer, TARN_IPC_SERVED, &handle));
        CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_ipc_open(&foreign, NULL, &out));
        tarn_ipc_get_counts(&counts);
        CHILD_CHECK(counts.descriptors == 0 && counts.connections == 0);
        tarn_pointer_release(opened);
        tarn_pointer_release(pointer);
        exit(0);
    }
    CHILD_CHECK(waitpid(child, &status, 0) == child);
    CHILD_CHECK(status == 0);
    CHILD_CHECK(wrong_bytes(opened, 1) == 0); /* the parent's is unchanged */
    tarn_pointer_release(opened);
    tarn_pointer_release(pointer);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
}

TEST(in_a_forked_child_nothing_is_exported_or_opened_and_the_parent_goes_on)
{
    socket_directory_begin();
    struct process owner = process_start(own_exportable);
    struct process user = process_start(use_in_a_child);
    allocate(owner.line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(owner.line, 0, 0, MIB, TARN_IPC_SERVED);
    must_send(user.line, &handle, sizeof handle);
    process_end(&user);
    process_end(&owner);
    socket_directory_end();
}

/* --- forks beside other threads --- */

static atomic_bool is_over;

static void *count_for_ever(void *unused)
{
    tarn_ipc_counts counts;

    while (!atomic_load(&is_over))
        tarn_ipc_get_counts(&counts);
    return unused;
}

static void fork_beside_calls(int line)
{
    enum { THREADS = 4, FORKS = 100 };
    pthread_t threads[THREADS];
    tarn_ipc_counts counts;
    int status;

    (void)line;
    for (int i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_create(&threads[i], NULL, count_for_ever, NULL) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork_at_rest();
        CHILD_CHECK(child >= 0);
        if (child == 0) {
            alarm(20);
            tarn_ipc_get_counts(&counts);
            _exit(0);
        }
        CHILD_CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_join(threads[i], NULL) == 0);
}

/* The child works, whatever another thread does with the owner's lock at the fork. */
TEST(a_forked_child_waits_for_no_lock_of_its_parents_threads)
{
    socket_directory_begin();
    struct process own = process_start(fork_beside_calls);
    process_end(&own);
    socket_directory_end();
}

/* --- socket directories --- */

static const char *expected_message;
static tarn_status wanted = TARN_SYSTEM_FAILURE;

static void export_into_a_bad_directory(int line)
{
    tarn_resource *resource = make_source(FROM_EXPORTABLE);
    tarn_ipc_handle handle = {.bytes = 77};
    tarn_pointer *pointer;
    tarn_ipc_counts counts;

    (void)line;
    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, MIB, TARN_STREAM_NONE, &pointer));
    for (int kind = 0; kind < 2; kind++) {
        CHILD_STATUS(wanted, tarn_ipc_export(pointer, (tarn_ipc_kind)kind, &handle));
        CHILD_MESSAGE(expected_message);
        CHILD_CHECK(handle.bytes == 77);
    }
    tarn_ipc_get_counts(&counts);
    CHILD_CHECK(counts.descriptors == 0 && counts.served == 0);
    tarn_pointer_release(pointer);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    CHILD_CHECK(live_bytes() == 0);
}

static void check_directory_rejected(const char *message)
{
    expected_message = message;
    struct process owner = process_start(export_into_a_bad_directory);
    process_end(&owner);
}

TEST(a_socket_directory_that_others_can_enter_is_rejected)
{
    socket_directory_begin();
    CHECK_EQUAL(0, chmod(socket_directory, 0750));
    check_directory_rejected("mode 750");
    socket_directory_end();
}

/* An importer whose environment names an unusable directory. */
static void open_with_a_bad_directory(int line)
{
    tarn_ipc_handle handle;
    tarn_pointer *opened;

    must_receive(line, &handle, sizeof handle);
    CHILD_CHECK(setenv("TARN_IPC_DIR", expected_message, 1) == 0);
    CHILD_STATUS(wanted, tarn_ipc_open(&handle, NULL, &opened));
    CHILD_MESSAGE("ipc: ");
    CHILD_MESSAGE(wanted == TARN_NOT_FOUND ? "has ended" : "director");
    check_nothing_open();
}

static void rejected_to_an_importer(const char *path, tarn_status status)
{
    expected_message = path;
    wanted = status;
    struct process owner = process_start(own_exportable);
    struct process importer = process_start(open_with_a_bad_directory);
    allocate(owner.line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(owner.line, 0, 0, MIB, TARN_IPC_PLAIN);
    must_send(importer.line, &handle, sizeof handle);
    process_end(&importer);
    process_end(&owner);
    wanted = TARN_SYSTEM_FAILURE;
}

TEST(a_socket_directory_behind_a_link_is_rejected)
{
    static const char *const ends[] = {"", "/", "///", "/.", "/./"};
    char link[128], named[160];

    socket_directory_begin();
    snprintf(link, sizeof link, "%s-link", socket_directory);
    CHECK_EQUAL(0, symlink(socket_directory, link));
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(named, sizeof named, "%s%s", link, ends[i]);
        rejected_to_an_importer(named, TARN_NOT_FOUND);
        CHECK_EQUAL(0, setenv("TARN_IPC_DIR", named, 1));
        check_directory_rejected("cannot open the directory");
        CHECK_EQUAL(0, setenv("TARN_IPC_DIR", socket_directory, 1));
    }
    CHECK_EQUAL(0, unlink(link));
    socket_directory_end();
}

TEST(a_socket_directory_may_have_trailing_slashes)
{
    char named[128];

    socket_directory_begin();
    snprintf(named, sizeof named, "%s//./", socket_directory);
    CHECK_EQUAL(0, setenv("TARN_IPC_DIR", named, 1));
    struct process owner = process_start(own_exportable);
    allocate(owner.line, 0, MIB, 1);
    export_block(owner.line, 0, 0, MIB, TARN_IPC_SERVED);
    process_end(&owner);
    socket_directory_end();
}

TEST(a_socket_directory_may_have_a_name_of_one_letter_or_end_with_a_dot)
{
    static const char *const ends[] = {"/s", "/s.", "/.s"};
    char named[128];

    socket_directory_begin();
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(named, sizeof named, "%s%s", socket_directory, ends[i]);
        CHECK_EQUAL(0, setenv("TARN_IPC_DIR", named, 1));
        remove_stale_files(MIB);      /* an owner exports */
        CHECK_EQUAL(0, rmdir(named)); /* created, and left empty */
    }
    socket_directory_end();
}

TEST(a_socket_directory_with_too_long_a_path_is_an_invalid_argument)
{
    static char path[5000];

    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    socket_directory_begin();
    rejected_to_an_importer(path, TARN_INVALID_ARGUMENT);
    rejected_to_an_importer("/tmp/tarn-none/of/this", TARN_NOT_FOUND);
    CHECK_EQUAL(0, setenv("TARN_IPC_DIR", path, 1));
    wanted = TARN_INVALID_ARGUMENT;
    check_directory_rejected(
        "TARN_IPC_DIR names a directory of 4999 bytes, the maximum is 4095");
    wanted = TARN_SYSTEM_FAILURE;
    path[600] = '\0'; /* the system reports the name as too long */
    CHECK_EQUAL(0, setenv("TARN_IPC_DIR", path, 1));
    check_directory_rejected("cannot create");
    socket_directory_end();
}

TEST(a_socket_directory_that_cannot_be_created_is_rejected)
{
    socket_directory_begin();
    CHECK_EQUAL(0, setenv("TARN_IPC_DIR", "/proc/none/of/this", 1));
    check_directory_rejected("cannot create");
    socket_directory_end();
}

/* Open each received handle. */
static void open_elsewhere(int line)
{
    tarn_ipc_handle handle;
    tarn_pointer *opened;

    must_receive(line, &handle, sizeof handle);
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened));
    tarn_pointer_release(opened);
    check_nothing_open();
}

TEST(a_socket_directory_in_the_runtime_directory_is_created_and_used)
{
    char made[128];

    socket_directory_begin();
    snprintf(made, sizeof made, "%s/tarn", socket_directory);
    CHECK_EQUAL(0, unsetenv("TARN_IPC_DIR"));
    CHECK_EQUAL(0, setenv("XDG_RUNTIME_DIR", socket_directory, 1));
    struct process owner = process_start(own_exportable);
    allocate(owner.line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(owner.line, 0, 0, MIB, TARN_IPC_PLAIN);
    struct process importer = process_start(open_elsewhere);
    must_send(importer.line, &handle, sizeof handle);
    process_end(&importer);
    process_end(&owner);
    CHECK_EQUAL(0, rmdir(made)); /* created, and left empty */
    CHECK_EQUAL(0, unsetenv("XDG_RUNTIME_DIR"));
    socket_directory_end();
}

static void import_from(struct process *owner)
{
    tarn_ipc_handle handle = export_block(owner->line, 0, 0, MIB, TARN_IPC_SERVED);
    struct process importer = process_start(open_elsewhere);

    must_send(importer.line, &handle, sizeof handle);
    process_end(&importer);
}

/* The importer also finds it there if its own environment names a runtime directory. */
TEST(without_a_variable_the_socket_directory_is_that_of_the_user_in_tmp)
{
    char of_user[64];

    socket_directory_begin();
    snprintf(of_user, sizeof of_user, "/tmp/tarn-%u", (unsigned)geteuid());
    bool is_new = access(of_user, F_OK) != 0;
    CHECK_EQUAL(0, unsetenv("TARN_IPC_DIR"));
    CHECK_EQUAL(0, unsetenv("XDG_RUNTIME_DIR"));
    struct process owner = process_start(own_exportable);
    allocate(owner.line, 0, MIB, 1);
    import_from(&owner);
    CHECK_EQUAL(0, setenv("XDG_RUNTIME_DIR", socket_directory, 1));
    import_from(&owner);
    CHECK_EQUAL(0, unsetenv("XDG_RUNTIME_DIR"));
    process_end(&owner);
    if (is_new)
        rmdir(of_user); /* unless another process uses it by now */
    socket_directory_end();
}
