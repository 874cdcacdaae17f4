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

int next_option(const struct verb *verb, int argc, char **argv,
                const struct option *options, bool in_order, int *exit_code)
{
    if (in_order && optind < argc && is_python_option(argv[optind]))
        return OPTIONS_END;
    opterr = 0;
    int option = getopt_long(argc, argv, letters_of(options, in_order), options, NULL);

    switch (option) {
    case OPTION_HELP:
        print_help(verb);
        *exit_code = 0;
        return OPTIONS_STOP;
    case ':':
        *exit_code = wrong_use(verb, "%s requires a value", argv[optind - 1]);
        return OPTIONS_STOP;
    case '?':
        if (optopt > 0 && optopt < 128 && argv[optind - 1][1] != '-')
            *exit_code = wrong_use(verb, "unknown option -%c", optopt);
        else
            *exit_code = wrong_use(verb, "unknown option %s", argv[optind - 1]);
        return OPTIONS_STOP;
    }
    return option;
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
