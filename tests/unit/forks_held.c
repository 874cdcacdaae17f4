/* Test children that are forked while another thread holds a lock, for each place where libtarn
 * takes one. No call of such a child waits.
 *
 * The list of places is made, not written: a process for each row of fork_objects.h notes where
 * its calls take locks. Then a process for each place stops a thread that has taken the lock
 * there, and forks. A lock that the forking thread takes itself is given to it after HELD_MS.
 */
#define _GNU_SOURCE
#include "fork_objects.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PLACES = 1000, NOTED_TURNS = 240, HELD_MS = 20, SECONDS = 20 };

/* What the processes share: the places, in the order of their first use. */
static struct shared {
    const void *places[PLACES];
    size_t offsets[PLACES]; /* in libtarn, after the call of the lock's function */
    bool is_held[PLACES];
    unsigned count, held;
} *shared;

static unsigned wanted; /* the place where a thread stops */
static atomic_int step; /* of the thread that stops */
enum { RUNS, HOLDS, GOES_ON, ENDED };

static _Thread_local enum { OTHER, NOTES, STOPS } role;

static bool is_in_libtarn(const void *address, size_t *offset)
{
    Dl_info info;

    if (!dladdr(address, &info) || !info.dli_fname ||
        !strstr(info.dli_fname, "libtarn.so"))
        return false;
    *offset = (size_t)((uintptr_t)address - (uintptr_t)info.dli_fbase);
    return true;
}

static void note(const void *place)
{
    size_t offset;

    for (unsigned i = 0; i < shared->count; i++)
        if (shared->places[i] == place)
            return;
    if (shared->count == PLACES || !is_in_libtarn(place, &offset))
        return;
    shared->offsets[shared->count] = offset;
    shared->places[shared->count++] = place;
}

static void hold(void)
{
    atomic_store(&step, HOLDS);
    for (int i = 0; i < HELD_MS && atomic_load(&step) == HOLDS; i++)
        usleep(1000);
    role = OTHER;
}

typedef int lock_fn(pthread_mutex_t *mutex);

static int lock(const char *name, lock_fn **next, pthread_mutex_t *mutex,
                const void *place)
{
    if (!*next)
        *(void **)next = dlsym(RTLD_NEXT, name);
    int result = (*next)(mutex);
    if (result == 0 && role == NOTES)
        note(place);
    else if (result == 0 && role == STOPS && place == shared->places[wanted])
        hold();
    return result;
}

/* These stand before those of libc for all libraries of the process. */
TARN_API int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static lock_fn *next;

    return lock("pthread_mutex_lock", &next, mutex, __builtin_return_address(0));
}

TARN_API int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    static lock_fn *next;

    return lock("pthread_mutex_trylock", &next, mutex, __builtin_return_address(0));
}

/* --- processes --- */

static void use_often(void)
{
    for (unsigned i = 0; i < NOTED_TURNS && role != OTHER; i++)
        row->use(TURNS + i);
}

static void note_places(void)
{
    begin_row();
    role = NOTES;
    use_often();
    role = OTHER;
    end_row();
    exit(0); /* the exit handlers remove a socket */
}

static void *use_and_stop(void *nothing)
{
    role = STOPS;
    use_often();
    if (role != OTHER) /* the lock was not taken there this time */
        atomic_store(&step, ENDED);
    return nothing;
}

static void check_child(pid_t child)
{
    int status = 0;

    CHILD_CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (status != 0)
        child_fail(
            "%s: a child ended with status 0x%x: a thread held the lock that it takes "
            "before libtarn.so+0x%zx",
            row->name, (unsigned)status, shared->offsets[wanted]);
    shared->is_held[wanted] = true;
    shared->held++;
}

static void fork_where_held(void)
{
    pthread_t thread;

    begin_row();
    CHILD_CHECK(pthread_create(&thread, NULL, use_and_stop, NULL) == 0);
    while (atomic_load(&step) == RUNS)
        usleep(100);
    if (atomic_load(&step) == HOLDS) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            use_in_a_child(SECONDS);
            _exit(0);
        }
        atomic_store(&step, GOES_ON);
        check_child(child);
    }
    pthread_join(thread, NULL);
    end_row();
    exit(0);
}

static void run_row(void)
{
    unsigned first = shared->count;

    in_child(note_places);
    for (wanted = first; wanted < shared->count; wanted++)
        in_child(fork_where_held);
}

/* Without inlining the functions that take a lock have one place each. */
#ifdef NDEBUG
enum { LEAST_PLACES = 100 };
#else
enum { LEAST_PLACES = 50 };
#endif

/* TARN_TEST_PLACES names a file for the list, which tools/lock_places.py reads. */
static void write_places(void)
{
    const char *path = getenv("TARN_TEST_PLACES");
    FILE *file = path ? fopen(path, "w") : NULL;

    CHECK(file || !path);
    for (unsigned i = 0; file && i < shared->count; i++)
        if (shared->is_held[i])
            fprintf(file, "0x%zx\n", shared->offsets[i]);
    CHECK(!file || fclose(file) == 0);
}

TEST(no_call_of_a_child_waits_for_a_lock_that_a_thread_of_its_parent_holds)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    run_rows(true, run_row);
    run_rows(false, run_row);
    write_places();
    print_message("a thread held a lock at %u of %u places\n", shared->held,
                  shared->count);
    CHECK(shared->count > LEAST_PLACES && shared->count < PLACES);
    CHECK(shared->held >= 9 * shared->count / 10);
    CHECK_EQUAL(0, munmap(shared, sizeof *shared));
}
