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
extern const struct verb verb_convert, verb_info, verb_log, verb_plan, verb_prune,
    verb_replay, verb_report, verb_run, verb_sim;

/* --- verbs (tool.c) ----------------------------------------------------------------- */

void print_help(const struct verb *verb);

/* Print one line on stderr, control characters escaped; return FAILED. */
int failed(const struct verb *verb, const char *format, ...) TARN_PRINTF(2, 3);
/* The same with the message of the last failure in libtarn. */
int failed_with_last_error(const struct verb *verb);
/* Print a line and the usage on stderr; return WRONG_USE. */
int wrong_use(const struct verb *verb, const char *format, ...) TARN_PRINTF(2, 3);

/* Call `take` for each option of the command line, with its value in `optarg`; it returns 0,
 * or the exit code. GO_ON: the arguments from `optind` on are left. Else the command ends
 * with this exit code: help was requested, or an option is wrong. `in_order`: options end
 * at the first other argument, or at one for Python. -o is --output. */
enum { GO_ON = -1, OPTION_HELP = 'h' };
typedef int take_option_function(void *job, int option);
int take_options(const struct verb *verb, int argc, char **argv,
                 const struct option *options, bool in_order, take_option_function *take,
                 void *job);
/* The same for a command with one log as its other argument, which is `*log` then. */
int take_options_and_log(const struct verb *verb, int argc, char **argv,
                         const struct option *options, take_option_function *take,
                         void *job, const char **log);
/* Return true for `-m` and `-c`, which begin a program for Python. */
bool is_python_option(const char *word);
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
    int flat;   /* from this depth on there are no line ends; 0: there are */
};
/* `key` is NULL in lists and at the top. */
void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);
void json_number(struct json *json, const char *key, uint64_t value);
void json_real(struct json *json, const char *key, double value);
/* Nanoseconds as a number of microseconds. */
void json_micros(struct json *json, const char *key, uint64_t ns);
void json_bool(struct json *json, const char *key, bool value);
void json_text(struct json *json, const char *key, const char *value);

/* Read a size such as 4096, 64KiB or 1.5GiB. false: it is none. */
bool bytes_of(const char *text, uint64_t *out);

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

/* "nbep7", "rmm" or "binary". */
const char *format_key(tarn_trace_format format);

/* --- stacks of a log (stacks.c) ----------------------------------------------------- */

struct stacks {
    struct stack_pair *pairs; /* the log's numbers and those of this process */
    size_t count, capacity;
};
/* Add a stack of a log to the table of this process. */
tarn_status stacks_add(struct stacks *stacks, tarn_stack stack,
                       const tarn_stack_frame *frames, size_t count);
/* The number of this process for one of the log; TARN_STACK_UNKNOWN: there is none. */
/* Add a pair of other numbers; `key` is not 0. false: no host memory. */
bool stacks_put(struct stacks *stacks, uint32_t key, uint32_t value);
tarn_stack stacks_find(const struct stacks *stacks, tarn_stack stack);
void stacks_free(struct stacks *stacks);

/* --- places that may hold memory (allow.c) ------------------------------------------ */

struct allow {
    char **patterns;
    size_t count;
};
/* Read a list. false: the failure is in errno. */
bool allow_read(struct allow *allow, const char *path);
/* Whether the list has the location or a frame of the stack, a number of this process. */
bool allow_matches(const struct allow *allow, const char *location, tarn_stack stack);
void allow_free(struct allow *allow);

/* --- outputs (output.c) -------------------------------------------------------------- */

/* A file that a verb writes under the name `file`. */
struct output {
    char file[PATH_BYTES + 8]; /* temporary, unless the output is direct */
    char target[PATH_BYTES];
    bool is_direct; /* no regular file: it is written as it is */
};
/* false: the failure is in errno. */
bool output_begin(struct output *output, const char *path);
/* Give the closed file its name if it is whole, else remove it. false: it cannot get its
 * name, and the failure is in errno. */
bool output_finish(struct output *output, bool is_whole);
/* Are two paths one existing file? */
bool is_same_file(const char *one, const char *other);

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

/* If there is an external verb `name`, a program tarn-NAME beside this one or on the PATH,
 * replace this process by it; else return false. (external.c) */
bool run_external(const char *name, char **argv);
/* Print the external verbs, one per line, with the summaries of those that are known. */
void list_external(FILE *file);

#endif
