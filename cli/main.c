/* main.c -- the command `tarn`: a table of verbs, and programs tarn-VERB for the rest. */
#define _GNU_SOURCE
#include "tool.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const struct verb *const verbs[] = {&verb_convert, &verb_info,  &verb_log,
                                           &verb_plan,    &verb_prune, &verb_replay,
                                           &verb_report,  &verb_run,   &verb_sim};
enum { VERBS = sizeof verbs / sizeof verbs[0] };

static int run_help(int argc, char **argv);
static const struct verb verb_help = {
    "help", "prints the help of a verb", "help [VERB]",
    "Prints the list of verbs, or the help of one verb.\n", run_help};

static const struct verb *find_verb(const char *name)
{
    for (int i = 0; i < VERBS; i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return strcmp(name, verb_help.name) == 0 ? &verb_help : NULL;
}

static void list_verbs(FILE *file)
{
    for (int i = 0; i < VERBS; i++)
        fprintf(file, "  %-8s %s\n", verbs[i]->name, verbs[i]->summary);
    fprintf(file, "  %-8s %s\n", verb_help.name, verb_help.summary);
    list_external(file);
}

static int print_usage(void)
{
    printf("usage: tarn VERB [ARGS...]\n"
           "\n"
           "tarn manages the GPU memory of a process; this is its command-line tool.\n"
           "\n");
    list_verbs(stdout);
    printf("\n"
           "`tarn help VERB` prints the help of a verb. Any other verb runs the program "
           "tarn-VERB\n"
           "of the PATH.\n");
    return 0;
}

static int unknown_verb(const char *name)
{
    fputs("tarn: unknown verb ", stderr);
    print_text(stderr, name);
    fputs(", and the PATH has no program tarn-VERB of that name; the verbs are\n",
          stderr);
    list_verbs(stderr);
    return FAILED;
}

static int run_help(int argc, char **argv)
{
    static char option[] = "--help";
    const struct verb *verb = argc > 1 ? find_verb(argv[1]) : NULL;

    if (argc > 2)
        return wrong_use(&verb_help, "more than one verb");
    if (argc < 2)
        return print_usage();
    if (verb) {
        print_help(verb);
        return 0;
    }
    char *external[] = {argv[1], option, NULL};
    run_external(argv[1], external);
    return unknown_verb(argv[1]);
}

static int run_verb(int argc, char **argv)
{
    const struct verb *verb = find_verb(argv[0]);

    if (verb == &verb_help && argc > 1 && strcmp(argv[1], "--help") == 0) {
        print_help(verb);
        return 0;
    }
    if (verb)
        return verb->run(argc, argv);
    if (argv[0][0] == '-') {
        fputs("tarn: unknown option ", stderr);
        print_text(stderr, argv[0]);
        fputs("\nusage: tarn VERB [ARGS...]\n", stderr);
        return WRONG_USE;
    }
    run_external(argv[0], argv);
    return unknown_verb(argv[0]);
}

static int run(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_usage();
    if (strcmp(argv[1], "--version") == 0) {
        printf("tarn %s\n", tarn_version());
        return 0;
    }
    return run_verb(argc - 1, argv + 1);
}

/* If 0, 1 or 2 is closed, the next file that is opened would get that number, and output
 * would go into it: a log, or memory of the driver. The file opened here fails like a
 * closed one. It is gone again in a program that replaces this one. */
static bool fill_closed_files(void)
{
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++) {
        int way = file == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (fcntl(file, F_GETFD) < 0 && open("/dev/null", way | O_CLOEXEC) != file)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    if (!fill_closed_files())
        return FAILED;
    int code = run(argc, argv);

    /* Check that the output was written; otherwise a full disk looks like success. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "tarn: cannot write the output: %s\n", strerror(errno));
        return code ? code : FAILED;
    }
    return code;
}
