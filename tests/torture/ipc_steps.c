/* Kill the importer, and the owner, at each of their system calls.
 *
 * ptrace(2) stops a process at the begin and at the end of each call. A run kills it at
 * the first stop, the next run at the second one, until a run reaches its end. The other
 * process must go on: no call hangs, no byte is wrong, nothing is left.
 *
 * Under a sanitizer, whose own calls count too, a run kills at every 16th stop.
 */
#define _GNU_SOURCE
#include "../unit/ipc/pair.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STRIDE = 16 };
#else
enum { STRIDE = 1 };
#endif
enum { BYTES = 32 << 10 };

/* --- traced processes --- */

/* Trace all threads of a process that waits for a message. False: not allowed here. */
static bool trace(pid_t pid)
{
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;

    return ptrace(PTRACE_SEIZE, pid, NULL, options) == 0 &&
           ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0;
}

/* Let a stopped thread go on to its next stop. */
static void resume(pid_t thread, int status)
{
    int signal = WSTOPSIG(status);
    bool is_own = signal == (SIGTRAP | 0x80) || status >> 16 != 0 || signal == SIGTRAP;

    ptrace(PTRACE_SYSCALL, thread, NULL, (long)(is_own ? 0 : signal));
}

/* Run the traced process until it ends; kill it at stop number `at`. Returns the number
 * of stops at system calls. `other` is called once its process ends, with the status. */
static unsigned run_until(struct process *traced, unsigned at, pid_t other,
                          void (*on_other)(struct process *traced, int status))
{
    unsigned stops = 0;

    for (;;) {
        int status;
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0 && errno == EINTR)
            continue;
        CHECK(thread > 0);
        bool ended = WIFEXITED(status) || WIFSIGNALED(status);
        if (thread == other && ended) {
            on_other(traced, status);
            continue;
        }
        if (thread == traced->pid && ended) {
            if (stops < at && status != 0)
                fail_msg("stop %u: the process ended with status 0x%x", stops,
                         (unsigned)status);
            return stops;
        }
        if (ended)
            continue; /* a thread of it */
        stops += WSTOPSIG(status) == (SIGTRAP | 0x80);
        if (stops >= at)
            kill(traced->pid, SIGKILL);
        else
            resume(thread, status);
    }
}

/* --- the importer --- */

static void import_in_steps(int line)
{
    tarn_ipc_handle handles[2];
    tarn_pointer *opened[2];

    must_receive(line, handles, sizeof handles);
    for (int i = 0; i < 2; i++) { /* what happens once only is behind */
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handles[i], NULL, &opened[i]));
        tarn_pointer_release(opened[i]);
    }
    char mark;
    must_send(line, "x", 1);
    must_receive(line, &mark, 1); /* the steps begin */
    for (int i = 0; i < 2; i++)
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handles[i], NULL, &opened[i]));
    for (int i = 0; i < 2; i++) {
        CHILD_CHECK(wrong_bytes(opened[i], 1) == 0);
        tarn_pointer_release(opened[i]);
    }
    check_nothing_open();
}

/* Kill an importer at stop `at`. Returns the stops until then. */
static unsigned kill_importer(const tarn_ipc_handle handles[2], unsigned at)
{
    struct process importer = process_start(import_in_steps);
    char mark;

    must_send(importer.line, handles, 2 * sizeof *handles);
    must_receive(importer.line, &mark, 1);
    CHECK(trace(importer.pid));
    must_send(importer.line, "x", 1);
    unsigned stops = run_until(&importer, at, 0, NULL);
    process_reaped(&importer);
    return stops;
}

static void kill_importers(enum source source)
{
    socket_directory_begin();
    struct process owner = process_start(owners[source]);
    allocate(owner.line, 0, BYTES, 1);
    tarn_ipc_handle handles[2];
    export_in_both_kinds(owner.line, 0, BYTES, handles);
    size_t files = counts_of(owner.line).descriptors;
    unsigned at = 1;
    while (kill_importer(handles, at) >= at) {
        check_owner_is_as_before(owner.line, files);
        at += STRIDE;
    }
    CHECK(at > 2 * STRIDE); /* it was killed */
    printf("killed importers at %u stops\n", (at - 1) / STRIDE);
    process_end(&owner);
    socket_directory_end();
}

TEST(an_importer_that_is_killed_at_any_system_call_leaves_the_owner_as_it_was)
{
    kill_importers(FROM_EXPORTABLE);
    kill_importers(FROM_CUDA);
    kill_importers(FROM_ASYNC);
}

/* --- the owner --- */

static enum source owned;
static int handles_pipe[2]; /* from the owner to the importer */

static void own_in_steps(int line)
{
    tarn_resource *resource = make_source(owned);
    tarn_pointer *pointer;
    tarn_ipc_handle handles[2];
    char mark;

    close(handles_pipe[0]);
    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, BYTES, TARN_STREAM_NONE, &pointer));
    write_pattern(pointer, 1);
    must_send(line, "x", 1);
    must_receive(line, &mark, 1); /* the steps begin */
    for (int kind = 0; kind < 2; kind++)
        CHILD_STATUS(TARN_OK,
                     tarn_ipc_export(pointer, (tarn_ipc_kind)kind, &handles[kind]));
    CHILD_CHECK(write(handles_pipe[1], handles, sizeof handles) == sizeof handles);
    receive_message(line, &mark, 1); /* the importer has ended */
    tarn_pointer_release(pointer);
    CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    wait_until_all_is_freed();
}

/* Open what the owner exports. It may be gone at any time. */
static void open_if_there(int line)
{
    tarn_ipc_handle handles[2];

    (void)line;
    close(handles_pipe[1]);
    if (read(handles_pipe[0], handles, sizeof handles) != sizeof handles)
        return;
    for (int i = 0; i < 2; i++) {
        tarn_pointer *opened;
        tarn_status status = tarn_ipc_open(&handles[i], NULL, &opened);
        if (status != TARN_OK) {
            CHILD_STATUS(TARN_NOT_FOUND, status);
            continue;
        }
        CHILD_CHECK(wrong_bytes(opened, 1) == 0);
        tarn_pointer_release(opened);
    }
    check_nothing_open();
}

static bool importer_has_ended;

static void note_importer(struct process *owner, int status)
{
    importer_has_ended = true;
    if (status != 0)
        fail_msg("the importer ended with status 0x%x", (unsigned)status);
    send_message(owner->line, "x", 1); /* it may be gone */
}

/* Kill an owner at stop `at`. Returns the stops until then. */
static unsigned kill_owner(unsigned at)
{
    char mark;

    CHECK_EQUAL(0, pipe2(handles_pipe, O_CLOEXEC));
    struct process owner = process_start(own_in_steps);
    must_receive(owner.line, &mark, 1);
    struct process importer = process_start(open_if_there);
    close(handles_pipe[0]);
    close(handles_pipe[1]);
    CHECK(trace(owner.pid));
    must_send(owner.line, "x", 1);
    importer_has_ended = false;
    unsigned stops = run_until(&owner, at, importer.pid, note_importer);
    process_reaped(&owner);
    if (importer_has_ended)
        process_reaped(&importer);
    else
        process_end(&importer);
    return stops;
}

static void kill_owners(enum source source)
{
    unsigned at = 1;

    owned = source;
    socket_directory_begin();
    while (kill_owner(at) >= at)
        at += STRIDE;
    CHECK(at > 2 * STRIDE);
    printf("killed owners at %u stops\n", (at - 1) / STRIDE);
    remove_stale_files(BYTES);
    socket_directory_end();
}

TEST(an_owner_that_is_killed_at_any_system_call_is_not_found_and_nothing_else)
{
    kill_owners(FROM_EXPORTABLE);
    kill_owners(FROM_CUDA);
    kill_owners(FROM_ASYNC);
}
