/* Forked children, and folders: a child keeps nothing of its parent's, and a folder that
 * others may enter is not used. */
#define _GNU_SOURCE
#include "pair.h"
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* gcc 12's ASan keeps none of its locks over a fork: one that another thread held at that
 * moment is held in the child for good. The server's threads are at rest between requests. */
static pid_t fork_at_rest(void)
{
#ifdef __SANITIZE_ADDRESS__
    usleep(20000);
#endif
    return fork();
}

/* A child that lives until it is killed, and has whatever a fork gives it. */
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

    must_hear(line, &handle, sizeof handle);
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened));
    pid_t child = fork_idle();
    tarn_pointer_release(opened);
    must_say(line, &child, sizeof child);
    char mark;
    hear(line, &mark, 1);
    end_idle(child);
    check_nothing_open();
}

TEST(a_lease_is_not_kept_by_a_forked_child)
{
    folder_begin();
    struct process owner = process_start(own_exportable);
    struct process importer = process_start(open_fork_close);
    allocate(owner.line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(owner.line, 0, 0, MIB, TARN_IPC_SERVED);
    pid_t child;
    must_say(importer.line, &handle, sizeof handle);
    must_hear(importer.line, &child, sizeof child);
    while (counts_of(owner.line).leases > 0) /* for ever, if the child had it */
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    process_end(&importer);
    process_end(&owner);
    folder_end();
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
    must_say(line, handles, sizeof handles);
    must_say(line, &child, sizeof child);
    pause();
}

static void find_nobody(int line)
{
    tarn_ipc_handle handles[2];
    tarn_pointer *opened;

    must_hear(line, handles, sizeof handles);
    for (int kind = 0; kind < 2; kind++) {
        CHILD_STATUS(TARN_NOT_FOUND, tarn_ipc_open(&handles[kind], NULL, &opened));
        CHILD_SAYS("has ended");
    }
    check_nothing_open();
}

/* The child is a stranger's to the test, but has its line: the test cannot wait for it. */
TEST(a_forked_child_does_not_serve_its_parents_handles)
{
    tarn_ipc_handle handles[2];
    pid_t child;

    folder_begin();
    struct process owner = process_start(own_and_fork);
    must_hear(owner.line, handles, sizeof handles);
    must_hear(owner.line, &child, sizeof child);
    process_kill(&owner);
    struct process importer = process_start(find_nobody);
    must_say(importer.line, handles, sizeof handles);
    process_end(&importer);
    CHECK_EQUAL(0, kill(child, SIGKILL));
    struct process next = process_start(own_exportable); /* removes the dead socket */
    allocate(next.line, 0, MIB, 1);
    export_block(next.line, 0, 0, MIB, TARN_IPC_PLAIN);
    process_end(&next);
    folder_end();
}

/* In a child every call is refused, and releases do nothing but forget. */
static void use_in_a_child(int line)
{
    tarn_resource *resource = make_source(FROM_EXPORTABLE);
    tarn_ipc_handle handle, foreign;
    tarn_pointer *pointer, *opened;
    int status = 0;

    must_hear(line, &foreign, sizeof foreign);
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
    CHILD_CHECK(wrong_bytes(opened, 1) == 0); /* the parent's is as it was */
    tarn_pointer_release(opened);
    tarn_pointer_release(pointer);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
}

TEST(in_a_forked_child_nothing_is_exported_or_opened_and_the_parent_goes_on)
{
    folder_begin();
    struct process owner = process_start(own_exportable);
    struct process user = process_start(use_in_a_child);
    allocate(owner.line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(owner.line, 0, 0, MIB, TARN_IPC_SERVED);
    must_say(user.line, &handle, sizeof handle);
    process_end(&user);
    process_end(&owner);
    folder_end();
}

/* --- folders --- */

static const char *refusal;
static tarn_status wanted = TARN_SYSTEM_FAILURE;

static void export_into_a_bad_folder(int line)
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
        CHILD_SAYS(refusal);
        CHILD_CHECK(handle.bytes == 77);
    }
    tarn_ipc_get_counts(&counts);
    CHILD_CHECK(counts.descriptors == 0 && counts.served == 0);
    tarn_pointer_release(pointer);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    CHILD_CHECK(live_bytes() == 0);
}

static void refused_folder(const char *words)
{
    refusal = words;
    struct process owner = process_start(export_into_a_bad_folder);
    process_end(&owner);
}

TEST(a_folder_that_others_may_enter_is_refused)
{
    folder_begin();
    CHECK_EQUAL(0, chmod(folder, 0750));
    refused_folder("mode 750");
    folder_end();
}

/* An importer whose environment names a folder that cannot be used. */
static void open_with_a_bad_folder(int line)
{
    tarn_ipc_handle handle;
    tarn_pointer *opened;

    must_hear(line, &handle, sizeof handle);
    CHILD_CHECK(setenv("TARN_IPC_DIR", refusal, 1) == 0);
    CHILD_STATUS(wanted, tarn_ipc_open(&handle, NULL, &opened));
    CHILD_SAYS("ipc: ");
    CHILD_SAYS(wanted == TARN_NOT_FOUND ? "has ended" : "director");
    check_nothing_open();
}

static void refused_to_an_importer(const char *path, tarn_status status)
{
    refusal = path;
    wanted = status;
    struct process owner = process_start(own_exportable);
    struct process importer = process_start(open_with_a_bad_folder);
    allocate(owner.line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(owner.line, 0, 0, MIB, TARN_IPC_PLAIN);
    must_say(importer.line, &handle, sizeof handle);
    process_end(&importer);
    process_end(&owner);
    wanted = TARN_SYSTEM_FAILURE;
}

TEST(a_folder_behind_a_link_is_refused)
{
    static const char *const ends[] = {"", "/", "///", "/.", "/./"};
    char link[128], named[160];

    folder_begin();
    snprintf(link, sizeof link, "%s-link", folder);
    CHECK_EQUAL(0, symlink(folder, link));
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(named, sizeof named, "%s%s", link, ends[i]);
        refused_to_an_importer(named, TARN_NOT_FOUND);
        CHECK_EQUAL(0, setenv("TARN_IPC_DIR", named, 1));
        refused_folder("cannot open the directory");
        CHECK_EQUAL(0, setenv("TARN_IPC_DIR", folder, 1));
    }
    CHECK_EQUAL(0, unlink(link));
    folder_end();
}

TEST(a_folder_may_be_named_with_slashes_behind_it)
{
    char named[128];

    folder_begin();
    snprintf(named, sizeof named, "%s//./", folder);
    CHECK_EQUAL(0, setenv("TARN_IPC_DIR", named, 1));
    struct process owner = process_start(own_exportable);
    allocate(owner.line, 0, MIB, 1);
    export_block(owner.line, 0, 0, MIB, TARN_IPC_SERVED);
    process_end(&owner);
    folder_end();
}

TEST(a_folder_whose_path_is_too_long_is_an_invalid_argument)
{
    static char path[5000];

    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    folder_begin();
    refused_to_an_importer(path, TARN_INVALID_ARGUMENT);
    refused_to_an_importer("/tmp/tarn-none/of/this", TARN_NOT_FOUND);
    CHECK_EQUAL(0, setenv("TARN_IPC_DIR", path, 1));
    wanted = TARN_INVALID_ARGUMENT;
    refused_folder("TARN_IPC_DIR names a directory of 4999 bytes, the maximum is 4095");
    wanted = TARN_SYSTEM_FAILURE;
    path[600] = '\0'; /* the system says that a name has too many */
    CHECK_EQUAL(0, setenv("TARN_IPC_DIR", path, 1));
    refused_folder("cannot create");
    folder_end();
}

TEST(a_folder_that_cannot_be_made_is_refused)
{
    folder_begin();
    CHECK_EQUAL(0, setenv("TARN_IPC_DIR", "/proc/none/of/this", 1));
    refused_folder("cannot create");
    folder_end();
}

/* Opens what it is sent. */
static void open_elsewhere(int line)
{
    tarn_ipc_handle handle;
    tarn_pointer *opened;

    must_hear(line, &handle, sizeof handle);
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened));
    tarn_pointer_release(opened);
    check_nothing_open();
}

TEST(the_folder_of_the_runtime_directory_is_made_and_used)
{
    char made[128];

    folder_begin();
    snprintf(made, sizeof made, "%s/tarn", folder);
    CHECK_EQUAL(0, unsetenv("TARN_IPC_DIR"));
    CHECK_EQUAL(0, setenv("XDG_RUNTIME_DIR", folder, 1));
    struct process owner = process_start(own_exportable);
    allocate(owner.line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(owner.line, 0, 0, MIB, TARN_IPC_PLAIN);
    struct process importer = process_start(open_elsewhere);
    must_say(importer.line, &handle, sizeof handle);
    process_end(&importer);
    process_end(&owner);
    CHECK_EQUAL(0, rmdir(made)); /* made, and left empty */
    CHECK_EQUAL(0, unsetenv("XDG_RUNTIME_DIR"));
    folder_end();
}
