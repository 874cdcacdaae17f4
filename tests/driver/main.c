/* main.c -- runs the themes, each part in a child process that may die without harm.
 *
 * driver_facts [-d driver] [theme[.part]]...
 *
 * This process never opens the driver: a child of a process that has is of no use to
 * CUDA. Each child has an alarm. A part that ends by a signal is a fact: `dies` (SIGSEGV
 * of the real driver, the stand-in's abort), or `hangs` (the alarm).
 */
#include "facts.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS_TOGETHER = 60, SECONDS_ALONE = 20, AT_ONCE = 6 };

static const struct theme *const themes[] = {
    &theme_init,    &theme_devices, &theme_context,  &theme_memory,  &theme_host,
    &theme_managed, &theme_copy,    &theme_pageable, &theme_stream,  &theme_event,
    &theme_order,   &theme_hostfn,  &theme_waits,    &theme_mempool, &theme_vmm,
    &theme_ipc,     &theme_pointer, &theme_range,    &theme_peer,    &theme_handles,
    &theme_capture, &theme_corners, &theme_threads,  &theme_graph,   &theme_exit,
};

/* Which part a child is in: shared with it, so that its death can be named. */
static volatile int *part_running;

/* A theme (or "theme.part", or nothing) was asked for by the arguments. */
static bool wanted(int count, char **names, const char *theme, const char *part)
{
    size_t length = strlen(theme);

    if (count == 0)
        return true;
    for (int i = 0; i < count; i++)
        if (strncmp(names[i], theme, length) == 0 &&
            (names[i][length] == '\0' ||
             (names[i][length] == '.' && strcmp(names[i] + length + 1, part) == 0)))
            return true;
    return false;
}

static void child_begin(unsigned int seconds)
{
    struct rlimit no_core = {0, 0};

    setrlimit(RLIMIT_CORE, &no_core);
    alarm(seconds);
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

/* True if a child ended well. Otherwise its end is a fact of `part`. */
static bool tell_end(const struct part *part, int status)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        fact(part->name, "hangs");
    else if (WIFSIGNALED(status))
        fact(part->name, "dies");
    else if (WEXITSTATUS(status) != 0)
        fact(part->name, "exit %d", WEXITSTATUS(status));
    return status == 0;
}

/* Start a part in a child; its lines go to `out`. */
static pid_t start_alone(const struct part *part, FILE *out)
{
    pid_t child = fork();

    if (child == 0) {
        dup2(fileno(out), STDOUT_FILENO);
        child_begin(SECONDS_ALONE);
        part_prepare(part->kind);
        part->run();
        fflush(stdout);
        _exit(0);
    }
    return child;
}

static void copy_out(FILE *file)
{
    char text[4096];
    size_t bytes;

    rewind(file);
    while ((bytes = fread(text, 1, sizeof text, file)) > 0)
        fwrite(text, 1, bytes, stdout);
    fflush(stdout);
    fclose(file);
}

/* Run up to AT_ONCE parts beside each other; their lines come out in the parts' order. */
static void run_batch(const struct part *const *batch, int count)
{
    FILE *out[AT_ONCE];
    pid_t children[AT_ONCE];

    fflush(stdout);
    for (int i = 0; i < count; i++) {
        out[i] = tmpfile();
        if (!out[i])
            exit(1);
        children[i] = start_alone(batch[i], out[i]);
    }
    for (int i = 0; i < count; i++) {
        int status = 0;
        waitpid(children[i], &status, 0);
        copy_out(out[i]);
        tell_end(batch[i], status);
    }
}

/* Run the parts from `first` on that share a process; the index of the first that did not
 * run: after the last one, or after the one that ended the process. */
static int run_together(const struct theme *theme, int first, int count, char **names)
{
    pid_t child = fork();
    int status = 0;

    *part_running = first;
    if (child == 0) {
        child_begin(SECONDS_TOGETHER);
        ready();
        for (int i = first; theme->parts[i].name && theme->parts[i].kind == TOGETHER;
             i++) {
            *part_running = i;
            if (wanted(count, names, theme->name, theme->parts[i].name))
                theme->parts[i].run();
        }
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    bool well = tell_end(&theme->parts[*part_running], status);
    while (well && theme->parts[first].name && theme->parts[first].kind == TOGETHER)
        first++;
    return well ? first : *part_running + 1;
}

static void run_theme(const struct theme *theme, int count, char **names)
{
    const struct part *batch[AT_ONCE];
    int i = 0, n = 0;

    theme_begin(theme->name);
    while (theme->parts[i].name) {
        const struct part *part = &theme->parts[i];
        if (!wanted(count, names, theme->name, part->name)) {
            i++;
        } else if (part->kind == TOGETHER) {
            i = run_together(theme, i, count, names);
        } else {
            batch[n++] = part;
            i++;
            if (part->kind == RISKY && part[1].kind == RISKY && part[1].name &&
                n < AT_ONCE)
                continue;
        }
        if (n > 0)
            run_batch(batch, n);
        n = 0;
    }
}

int main(int argc, char **argv)
{
    int first = 1;

    if (argc > 2 && strcmp(argv[1], "-d") == 0) {
        setenv("TARN_DRIVER", argv[2], 1);
        first = 3;
    }
    /* Streams that share a hardware queue would wait for each other behind a gate. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    part_running = mmap(NULL, sizeof *part_running, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (part_running == MAP_FAILED)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof themes / sizeof *themes; i++)
        run_theme(themes[i], argc - first, argv + first);
    return 0;
}
