/* tool.c -- error exits and option parsing of the verbs, and the place of libtarn. */
#define _GNU_SOURCE
#include "tool.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

void print_help(const struct verb *verb)
{
    printf("usage: tarn %s\n\n%s", verb->usage, verb->help);
}

static void complain(const struct verb *verb, const char *format, va_list arguments)
    TARN_PRINTF(2, 0);

static void complain(const struct verb *verb, const char *format, va_list arguments)
{
    char line[1024];

    vsnprintf(line, sizeof line, format, arguments);
    fflush(stdout);
    fprintf(stderr, "tarn %s: ", verb->name);
    print_text(stderr, line);
    fputc('\n', stderr);
}

int failed(const struct verb *verb, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    complain(verb, format, arguments);
    va_end(arguments);
    return FAILED;
}

int failed_with_last_error(const struct verb *verb)
{
    return failed(verb, "%s", tarn_error_last()->message);
}

int wrong_use(const struct verb *verb, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    complain(verb, format, arguments);
    va_end(arguments);
    fprintf(stderr, "usage: tarn %s\n", verb->usage);
    return WRONG_USE;
}

bool is_python_option(const char *word)
{
    return strcmp(word, "-m") == 0 || strcmp(word, "-c") == 0;
}

/* The letters of a verb's options: -h, and -o where it has --output. */
static const char *letters_of(const struct option *options, bool in_order)
{
    for (; options->name; options++)
        if (strcmp(options->name, "output") == 0)
            return in_order ? "+:ho:" : ":ho:";
    return in_order ? "+:h" : ":h";
}

/* Return the exit code for an option that getopt_long() does not return as one. */
static int refuse_option(const struct verb *verb, int option, char **argv)
{
    if (option == ':')
        return wrong_use(verb, "%s requires a value", argv[optind - 1]);
    if (optopt > 0 && optopt < 128 && argv[optind - 1][1] != '-')
        return wrong_use(verb, "unknown option -%c", optopt);
    return wrong_use(verb, "unknown option %s", argv[optind - 1]);
}

int take_options(const struct verb *verb, int argc, char **argv,
                 const struct option *options, bool in_order, take_option_function *take,
                 void *job)
{
    const char *letters = letters_of(options, in_order);

    opterr = 0;
    for (;;) {
        if (in_order && optind < argc && is_python_option(argv[optind]))
            return GO_ON;
        int option = getopt_long(argc, argv, letters, options, NULL);
        if (option == -1)
            return GO_ON;
        if (option == OPTION_HELP) {
            print_help(verb);
            return 0;
        }
        if (option == ':' || option == '?')
            return refuse_option(verb, option, argv);
        int code = take(job, option);
        if (code != 0)
            return code;
    }
}

int take_options_and_log(const struct verb *verb, int argc, char **argv,
                         const struct option *options, take_option_function *take,
                         void *job, const char **log)
{
    int code = take_options(verb, argc, argv, options, false, take, job);

    if (code != GO_ON)
        return code;
    if (argc - optind != 1)
        return wrong_use(verb, "exactly one log is required");
    *log = argv[optind];
    return GO_ON;
}

bool beside_libtarn(const char *name, char path[PATH_BYTES])
{
    Dl_info info;

    errno = ENOENT;
    if (!dladdr((void *)(uintptr_t)&tarn_version, &info) || !info.dli_fname)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    int length =
        snprintf(path, PATH_BYTES, "%.*s/%s", slash ? (int)(slash - info.dli_fname) : 1,
                 slash ? info.dli_fname : ".", name);
    errno = ENAMETOOLONG;
    return length > 0 && length < PATH_BYTES;
}
