/* tool.h -- declarations shared by the verbs of the command `tarn`.
 *
 * A verb is one file with one `const struct verb`. It returns the exit code: 0, FAILED
 * after one clear line on stderr, or WRONG_USE after a line and the usage.
 */
#ifndef TARN_CLI_TOOL_H
#define TARN_CLI_TOOL_H

#include <getopt.h>
#include <stdio.h>
#include <tarn/tarn.h>

enum { FAILED = 1, WRONG_USE = 2 };

struct verb {
    const char *name;
    const char *summary;               /* a short description for the list of verbs */
    const char *usage;                 /* behind `tarn `: the verb and its arguments */
    const char *help;                  /* the rest of its help; whole lines */
    int (*run)(int argc, char **argv); /* argv[0] is the verb */
};
extern const struct verb verb_info, verb_log, verb_prune, verb_replay, verb_run;

/* --- verbs (tool.c) ----------------------------------------------------------------- */

void print_help(const struct verb *verb);

/* Print one line on stderr, control characters escaped; return FAILED. */
int failed(const struct verb *verb, const char *format, ...) TARN_PRINTF(2, 3);
/* The same with the message of the last failure in libtarn. */
int failed_with_last_error(const struct verb *verb);
/* Print a line and the usage on stderr; return WRONG_USE. */
int wrong_use(const struct verb *verb, const char *format, ...) TARN_PRINTF(2, 3);

/* getopt_long() with this tool's error messages. OPTIONS_END: no more; OPTIONS_STOP: end
 * with the exit code in `*exit_code` (help was requested, or the line is wrong).
 * `in_order`: options end at the first other argument. */
enum { OPTIONS_END = -1, OPTIONS_STOP = -2, OPTION_HELP = 'h' };
int next_option(const struct verb *verb, int argc, char **argv,
                const struct option *options, bool in_order, int *exit_code);
#define HELP_OPTION {"help", no_argument, NULL, OPTION_HELP}
#define LAST_OPTION {NULL, 0, NULL, 0}

/* The path of `name` in the folder of the libtarn that this process uses. false: it is
 * unknown or too long, and errno tells which. */
enum { PATH_BYTES = 4096 };
bool beside_libtarn(const char *name, char path[PATH_BYTES]);

/* --- printing (print.c) ------------------------------------------------------------- */

/* Print text from outside, with control characters and invalid UTF-8 escaped. */
void print_text(FILE *file, const char *text);
/* "1.50 GiB"; the string lies in `buffer`. */
struct short_text {
    char text[32];
};
struct short_text bytes_text(uint64_t bytes);
struct short_text time_text(double ns);

/* JSON on its way to a file: commas and indentation are handled here. */
struct json {
    FILE *file;
    int depth;
    bool empty; /* nothing yet in the innermost object or list */
};
/* `key` is NULL in lists and at the top. */
void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);
void json_number(struct json *json, const char *key, uint64_t value);
void json_real(struct json *json, const char *key, double value);
void json_bool(struct json *json, const char *key, bool value);
void json_text(struct json *json, const char *key, const char *value);

/* --- logs (source.c) ---------------------------------------------------------------- */

/* A log file, gzip or not, or stdin. */
struct source {
    const char *name; /* for messages */
    void *file;       /* gzFile */
    const char *why;  /* zlib's message about the file; NULL: zlib had none */
};
/* `path` may be "-". false: the failure is in errno. */
bool source_open(struct source *source, const char *path);
/* A tarn_trace_read_fn. */
long source_read(void *data, char *buffer, size_t capacity);
void source_close(struct source *source);
/* Print the message for a failed read from this source; return FAILED. */
int source_failed(const struct verb *verb, const struct source *source);

/* --- resources (resources.c) -------------------------------------------------------- */

struct resource_kind {
    const char *name;
    bool on_device; /* memory that kernels can use */
    tarn_status (*create)(int device, tarn_resource **out);
};
/* All kinds, in the order for tables; the last has no name. */
extern const struct resource_kind resource_kinds[];
/* The kind of that name, or NULL. */
const struct resource_kind *resource_kind_of(const char *name);

/* --- external verbs (external.c) ---------------------------------------------------- */

/* If there is an external verb `name`, a program tarn-NAME on the PATH, replace this
 * process by it; else return false. (external.c) */
bool run_external(const char *name, char **argv);
/* Print the names of the external verbs, one per line, with `indent`. */
void list_external(FILE *file, const char *indent);

#endif
