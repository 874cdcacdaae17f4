/* Test forked children: no call of a child waits for a thread of the parent.
 *
 * Threads use an object of fork_objects.h while the process forks, and the children use it as
 * well.
 */
#define _GNU_SOURCE
#include "fork_objects.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

/* The sanitizers' malloc may itself be locked in a forked child, so other threads pause
 * there. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { THREADS = 0, FORKS = 4, SECONDS = 60 };
#else
enum { THREADS = 3, FORKS = 60, SECONDS = 10 };
#endif

static atomic_bool stops;

static void *use_until_stopped(void *number)
{
    unsigned turn = TURNS + 1000 * (unsigned)(uintptr_t)number;

    while (!atomic_load(&stops))
        row->use(turn++);
    return NULL;
}

/* The exit handlers of every other child run, too. Not on NVIDIA's driver: its own destructor
 * crashes in a child whose parent was inside a driver call. */
static _Noreturn void run_child(int number)
{
    use_in_a_child(SECONDS);
    if (number % 2 && has_sim())
        exit(0);
    _exit(0);
}

/* TARN_FORKS is the number of forks of each object. */
static int forks_wanted(void)
{
    const char *text = getenv("TARN_FORKS");

    return text ? atoi(text) : FORKS;
}

/* The number of the first child that failed; -1: none did. */
static int fork_again_and_again(void)
{
    int count = forks_wanted();

    for (int i = 0; i < count; i++) {
        int status = 0;
        usleep((unsigned)(i * 37 % 300));
        fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            run_child(i);
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            print_error("%s: child %d ended with status 0x%x\n", row->name, i,
                        (unsigned)status);
            return i;
        }
    }
    return -1;
}

static void run_row(void)
{
    pthread_t threads[THREADS + 1];

    begin_row();
    atomic_store(&stops, false);
    for (int i = 0; i < THREADS; i++)
        CHILD_CHECK(0 == pthread_create(&threads[i], NULL, use_until_stopped,
                                        (void *)(uintptr_t)i));
    int failed = fork_again_and_again();
    atomic_store(&stops, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHILD_CHECK(failed == -1);
    end_row();
}

static void run_row_and_exit(void)
{
    run_row();
    exit(0); /* the exit handlers remove the socket */
}

static void run_row_alone(void)
{
    in_child(run_row_and_exit);
}

TEST(no_call_of_a_forked_child_waits_that_is_about_the_process_as_a_whole)
{
    run_rows(true, run_row_alone);
}

TEST(no_call_of_a_forked_child_waits_for_a_thread_of_its_parent)
{
    run_rows(false, run_row);
}
