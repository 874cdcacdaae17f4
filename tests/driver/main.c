/* main.c -- runs the themes, each part in a child process that may crash.
 *
 * driver_facts [-d driver] [--alone] [theme[.part]]...
 *
 * This process never opens the driver: CUDA does not work in a child of a process that
 * has. Each child has an alarm. A part that ends by a signal is a fact: `dies` (SIGSEGV
 * of the real driver, abort() of the simulator), or `hangs` (the alarm).
 *
 * Starting a process on a GPU takes a second, so the parts of a theme share one if
 * possible. The next part gets a new process after a part that damaged the driver or
 * died. A death is caught, so that the lines before it are kept. With --alone each such
 * part has a process of its own. If facts differ only without it, one part has affected
 * another.
 *
 * Processes run in parallel: first all parts that do not depend on time, as many as the
 * machine allows. Then the others run, a few at a time and with no other process. They
 * start together when the last of them has initialized the driver. The lines are printed
 * in the order of the themes.
 */
#include "facts.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SECONDS = 90,       /* for a part */
    HEALTH_SECONDS = 3, /* for the check of the driver */
    HARMED = 99,        /* a child's exit status: continue in another */
    AT_ONCE_MAX = 4,
    TIMED_AT_ONCE_MAX = 2,
    JOBS_MAX = 512,
};

static const struct theme *const themes[] = {
    &theme_init,      &theme_devices, &theme_context,  &theme_memory,  &theme_host,
    &theme_managed,   &theme_copy,    &theme_pageable, &theme_stream,  &theme_event,
    &theme_order,     &theme_hostfn,  &theme_waits,    &theme_mempool, &theme_vmm,
    &theme_ipc,       &theme_pointer, &theme_range,    &theme_peer,    &theme_handles,
    &theme_capture,   &theme_corners, &theme_threads,  &theme_graph,   &theme_objects,
    &theme_cuda_core, &theme_exit,
};

/* The parts of one child: a single part, or the parts of a theme that share a process. */
struct job {
    const struct theme *theme;
    int first; /* the part, or the first one still to run */
    bool is_started;
    pid_t child; /* 0: none now */
    FILE *out;   /* its lines */
};
static struct job jobs[JOBS_MAX];
static int job_count, printed_jobs;

/* Shared with the children. */
static struct {
    volatile int part[JOBS_MAX]; /* the current one of a job, to report its death */
    atomic_int ready_children; /* children of a batch that have initialized the driver */
} *shared;
static bool is_alone; /* --alone */
static int names_count;
static char **names;

/* Return whether the arguments select a theme (or "theme.part", or everything). */
static bool wanted(const char *theme, const char *part)
{
    size_t length = strlen(theme);

    if (names_count == 0)
        return true;
    for (int i = 0; i < names_count; i++)
        if (strncmp(names[i], theme, length) == 0 &&
            (names[i][length] == '\0' ||
             (names[i][length] == '.' && strcmp(names[i] + length + 1, part) == 0)))
            return true;
    return false;
}

/* --- in a child --- */

static void child_begin(FILE *out)
{
    struct rlimit no_core = {0, 0};

    dup2(fileno(out), STDOUT_FILENO);
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(SECONDS);
}

static void part_prepare(enum part_kind kind)
{
    if (kind == TOGETHER || kind == ALONE || kind == RISKY)
        ready();
    else if (kind == INITED)
        init_driver();
    else if (kind == BARE)
        open_driver();
}

/* Wait until `count` children have reached this point, except those that ended. */
static void wait_for_batch(int count)
{
    atomic_fetch_add(&shared->ready_children, 1);
    for (int i = 0; i < 10000 && atomic_load(&shared->ready_children) < count; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* Return whether these parts of a theme may share one process. */
static bool can_share_process(const struct part *a, const struct part *b)
{
    if (is_alone && (a->kind != TOGETHER || b->kind != TOGETHER))
        return false;
    return a->kind == INITED ? b->kind == INITED
                             : (a->kind == TOGETHER || a->kind == RISKY) &&
                                   (b->kind == TOGETHER || b->kind == RISKY);
}

/* The next selected part from `index` on that may share the process of the job's first
 * one; or -1. */
static int next_part(const struct job *job, int index)
{
    const struct part *parts = job->theme->parts, *first = &parts[job->first];

    for (; parts[index].name; index++)
        if (wanted(job->theme->name, parts[index].name) &&
            (index == job->first || can_share_process(first, &parts[index])))
            return index;
    return -1;
}

static sigjmp_buf before_part;

/* Called on another thread than the part's own, it ends the process. */
static void caught(int signal_number)
{
    if (gettid() == getpid())
        siglongjmp(before_part, signal_number);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void catch_deaths(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    struct sigaction action = {.sa_handler = caught, .sa_flags = SA_NODEFER};

    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

static void handle_alarm(int signal_number)
{
    (void)signal_number;
    _exit(HARMED);
}

/* Check the driver after a part that may have damaged it. If the check fails or hangs,
 * the next part gets a new process. */
static void check_health(const struct part *part)
{
    CUdeviceptr pointer = 0;
    CUstream stream = NULL;
    int count;

    signal(SIGALRM, handle_alarm);
    alarm(HEALTH_SECONDS);
    if (cuDeviceGetCount(&count) != CUDA_SUCCESS ||
        (part->kind != INITED && (cuCtxSetCurrent(context) != CUDA_SUCCESS ||
                                  cuCtxSynchronize() != CUDA_SUCCESS ||
                                  cuMemAlloc(&pointer, 4096) != CUDA_SUCCESS ||
                                  cuMemFree(pointer) != CUDA_SUCCESS ||
                                  cuStreamCreate(&stream, 0) != CUDA_SUCCESS ||
                                  cuStreamQuery(stream) != CUDA_SUCCESS ||
                                  cuStreamDestroy(stream) != CUDA_SUCCESS)))
        _exit(HARMED);
    signal(SIGALRM, SIG_DFL);
}

/* False: it has died. */
static bool run_caught(const struct part *part)
{
    alarm(SECONDS);
    if (sigsetjmp(before_part, 1) == 0) {
        part->run();
        return true;
    }
    fact(part->name, "dies");
    return false;
}

static void child_run(const struct job *job)
{
    const struct part *parts = job->theme->parts;
    bool is_caught =
        !is_alone && can_share_process(&parts[job->first], &parts[job->first]);

    if (is_caught)
        catch_deaths();
    for (int i = job->first; i >= 0; i = next_part(job, i + 1)) {
        shared->part[job - jobs] = i;
        if (!is_caught) {
            parts[i].run();
            continue;
        }
        bool is_alive = run_caught(&parts[i]);
        fflush(stdout);
        if (next_part(job, i + 1) < 0)
            break;
        if (!is_alive)
            _exit(HARMED); /* it may have died while it held a lock of the driver */
        if (parts[i].kind != TOGETHER)
            check_health(&parts[i]);
    }
}

/* --- jobs --- */

/* Start `job` in a child, one of `count` that start together (0: at once). */
static void job_start(struct job *job, int count)
{
    if (!job->out)
        job->out = tmpfile();
    if (!job->out)
        exit(1);
    fflush(stdout);
    job->is_started = true;
    shared->part[job - jobs] = job->first;
    job->child = fork();
    if (job->child != 0)
        return;
    child_begin(job->out);
    theme_begin(job->theme->name);
    part_prepare(job->theme->parts[job->first].kind);
    if (count > 0)
        wait_for_batch(count);
    child_run(job);
    fflush(stdout);
    _exit(0);
}

/* An abnormal end of a child is a fact of its current part. */
static void print_end(const struct job *job, const struct part *part, int status)
{
    fprintf(job->out, "%s.%s: ", job->theme->name, part->name);
    if (WIFSIGNALED(status))
        fprintf(job->out, "%s\n", WTERMSIG(status) == SIGALRM ? "hangs" : "dies");
    else
        fprintf(job->out, "exit %d\n", WEXITSTATUS(status));
    fflush(job->out);
}

/* The parts behind one that ended the process get another. */
static void job_ended(struct job *job, int status)
{
    const struct part *part = &job->theme->parts[shared->part[job - jobs]];

    job->child = 0;
    if (status == 0)
        return;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != HARMED)
        print_end(job, part, status);
    int next = next_part(job, (int)(part - job->theme->parts) + 1);
    if (next < 0)
        return;
    job->first = next;
    job_start(job, 0);
}

/* Wait for one child to end; false if none is left. */
static bool wait_for_one(void)
{
    int status = 0;
    pid_t child = wait(&status);

    for (int i = 0; i < job_count; i++)
        if (child > 0 && jobs[i].child == child)
            job_ended(&jobs[i], status);
    return child > 0;
}

static void print_file(FILE *file)
{
    char text[4096];
    size_t bytes;

    rewind(file);
    while ((bytes = fread(text, 1, sizeof text, file)) > 0)
        fwrite(text, 1, bytes, stdout);
    fflush(stdout);
    fclose(file);
}

/* Print the lines of all jobs before the first that has not ended. */
static void print_ended_jobs(void)
{
    for (; printed_jobs < job_count && jobs[printed_jobs].is_started &&
           jobs[printed_jobs].child == 0;
         printed_jobs++)
        print_file(jobs[printed_jobs].out);
}

/* The number of children, for this many per core, but no more than `most`. */
static int at_once(int for_core, int most)
{
    int wanted_now = (int)sysconf(_SC_NPROCESSORS_ONLN) * for_core;

    return wanted_now < 2 ? 2 : wanted_now < most ? wanted_now : most;
}

static int running(void)
{
    int count = 0;

    for (int i = 0; i < job_count; i++)
        count += jobs[i].child != 0;
    return count;
}

static bool is_timed(const struct job *job)
{
    return job->theme->is_timed && job->theme->parts[job->first].kind != RISKY;
}

static void run_untimed(void)
{
    for (int i = 0; i < job_count; i++) {
        if (is_timed(&jobs[i]))
            continue;
        while (running() >= at_once(2, AT_ONCE_MAX) && wait_for_one())
            print_ended_jobs();
        job_start(&jobs[i], 0);
    }
    while (wait_for_one())
        print_ended_jobs();
}

/* Run the jobs of `theme` (NULL: all remaining ones), a batch at a time. */
static void run_timed(const struct theme *theme)
{
    struct job *batch[TIMED_AT_ONCE_MAX];
    int most = at_once(1, TIMED_AT_ONCE_MAX), next = 0, count;

    do {
        for (count = 0; next < job_count && count < most; next++)
            if (!jobs[next].is_started && (!theme || jobs[next].theme == theme))
                batch[count++] = &jobs[next];
        atomic_store(&shared->ready_children, 0);
        for (int i = 0; i < count; i++)
            job_start(batch[i], count);
        while (wait_for_one())
            print_ended_jobs();
    } while (count > 0);
}

/* Create the jobs of the selected parts of a theme, each with its first part. */
static void add_jobs(const struct theme *theme)
{
    int first_job = job_count;

    for (int i = 0; theme->parts[i].name; i++) {
        bool has_job = !wanted(theme->name, theme->parts[i].name);
        for (int k = first_job; k < job_count && !has_job; k++)
            has_job = can_share_process(&theme->parts[jobs[k].first], &theme->parts[i]);
        if (has_job)
            continue;
        if (job_count == JOBS_MAX)
            exit(1);
        jobs[job_count++] = (struct job){.theme = theme, .first = i};
    }
}

int main(int argc, char **argv)
{
    int first = 1;

    if (argc > 2 && strcmp(argv[1], "-d") == 0) {
        setenv("TARN_DRIVER", argv[2], 1);
        first = 3;
    }
    if (argc > first && strcmp(argv[first], "--alone") == 0) {
        is_alone = true;
        first++;
    }
    /* Streams that share a hardware queue would wait for each other behind a gate. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    names_count = argc - first;
    names = argv + first;
    for (size_t i = 0; i < sizeof themes / sizeof *themes; i++)
        add_jobs(themes[i]);
    run_untimed();
    run_timed(&theme_waits); /* creates contexts, which delays others */
    run_timed(NULL);
    print_ended_jobs();
    return 0;
}
