/* cmd_prune_child.c -- `tarn prune`, the part that runs LLVM, in a process of its own.
 *
 * LLVM's readers stop the process on some broken files, by a signal or by exit(). So the
 * work is done in a child. A child that does not finish means that the file is invalid.
 * Its results are in memory that both processes share.
 */
#define _GNU_SOURCE
#include "cmd_prune.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The functions of libtarn_prune that are needed, found at run time: the rest of the tool
 * works without LLVM. */
struct library {
    __typeof__(&tarn_prune_bytes) bytes;
    __typeof__(&tarn_prune_old_text) old_text;
};

/* The child's results, in memory that parent and child share. */
struct child_result {
    bool done; /* it finished */
    tarn_status status;
    char message[sizeof tarn_error_last()->message]; /* set if status is not TARN_OK */
    tarn_prune_report report;
    uint64_t old_removed;
};

/* Files without a name, for results of no fixed size. */
struct channel {
    struct child_result *child_result;
    int output, reasons, errors; /* -1: not open */
};

/* --- the library -------------------------------------------------------------------- */

enum { FILE_NAME = 64, PYPIS_LLVM = 22 };

/* The file with the pruner for that LLVM. */
static void name_library(unsigned llvm, char name[FILE_NAME])
{
    if (llvm == 0)
        snprintf(name, FILE_NAME, "libtarn_prune.so.%d.%d", TARN_VERSION_MAJOR,
                 TARN_VERSION_MINOR);
    else
        snprintf(name, FILE_NAME, "libtarn_prune-%u.so.%d.%d", llvm, TARN_VERSION_MAJOR,
                 TARN_VERSION_MINOR);
}

static int no_library(unsigned llvm)
{
    const char *why = dlerror();
    char name[FILE_NAME];

    name_library(llvm, name);
    return failed(&verb_prune,
                  "the pruner is a separate library, %s, which needs LLVM and could not "
                  "be loaded: %s; install the Python distribution tarn-gpu-prune, or "
                  "build Tarn with LLVM's development files (Debian: llvm-%u-dev)",
                  name, why ? why : "the installed library has another LLVM",
                  llvm ? llvm : PYPIS_LLVM);
}

/* The file lies beside libtarn. By name alone it is found only where the loader searches
 * this tool's own libraries. Under a sanitizer, whose dlopen intercepts the call, it is
 * not found. */
static void *open_file(const char *name)
{
    char path[PATH_BYTES];
    void *handle =
        beside_libtarn(name, path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

    return handle ? handle : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

/* Does the open library have that LLVM? */
static bool has_llvm(void *handle, unsigned llvm)
{
    __typeof__(&tarn_prune_llvm_version) version;

    *(void **)&version = dlsym(handle, "tarn_prune_llvm_version");
    return version && strtoul(version(), NULL, 10) == llvm;
}

/* Open the library for that LLVM, or libtarn_prune.so if that has it. */
static void *open_library(unsigned llvm)
{
    char name[FILE_NAME];
    void *handle;

    name_library(llvm, name);
    handle = open_file(name);
    if (handle || llvm == 0)
        return handle;
    name_library(0, name);
    handle = open_file(name);
    return handle && has_llvm(handle, llvm) ? handle : NULL;
}

static int load(struct library *library, unsigned llvm)
{
    void *handle = open_library(llvm);

    if (!handle)
        return no_library(llvm);
    *(void **)&library->bytes = dlsym(handle, "tarn_prune_bytes");
    *(void **)&library->old_text = dlsym(handle, "tarn_prune_old_text");
    return library->bytes && library->old_text ? 0 : no_library(llvm);
}

/* --- in the child ------------------------------------------------------------------- */

static void write_place(FILE *file, const char *what, const tarn_prune_place *place)
{
    if (!*place->block)
        return;
    fprintf(file, "    %s ", what);
    print_text(file, place->block);
    if (place->line) {
        fputs(", ", file);
        print_text(file, place->file);
        fprintf(file, ":%u:%u", place->line, place->column);
    }
    if (*place->instruction) {
        fputs(": ", file);
        print_text(file, place->instruction);
    }
    fputc('\n', file);
}

static void write_reason(void *data, const tarn_prune_kept *kept)
{
    FILE *file = data;

    print_text(file, kept->function);
    fprintf(file, ": incref kept: %s\n", kept->message);
    write_place(file, "incref in", &kept->incref);
    write_place(file, "because of", &kept->at);
}

static bool write_all(int file, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(file, bytes, count);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        }
    }
    return true;
}

static tarn_status prune(const struct library *library, const struct prune_task *task,
                         struct channel *channel, char **out, size_t *out_bytes)
{
    tarn_prune_options options = task->options;
    FILE *reasons = fdopen(channel->reasons, "w");

    if (task->old)
        return library->old_text(task->input, task->input_bytes, out, out_bytes,
                                 &channel->child_result->old_removed);
    if (task->explain && reasons) {
        options.explain = write_reason;
        options.explain_data = reasons;
    }
    tarn_status status =
        library->bytes(task->input, task->input_bytes, task->name, &options,
                       &channel->child_result->report, out, out_bytes);
    if (reasons && fflush(reasons) != 0 && status == TARN_OK)
        status = tarn_error_set(TARN_SYSTEM_FAILURE,
                                "prune: cannot store the reasons: %s", strerror(errno));
    return status;
}

static void work(const struct library *library, const struct prune_task *task,
                 struct channel *channel)
{
    struct child_result *child_result = channel->child_result;
    struct rlimit none = {0, 0};
    char *out = NULL;
    size_t count = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &none); /* a crash is expected here */
    dup2(channel->errors, STDERR_FILENO);
    child_result->status = prune(library, task, channel, &out, &count);
    if (child_result->status == TARN_OK && !write_all(channel->output, out, count))
        child_result->status =
            tarn_error_set(TARN_SYSTEM_FAILURE, "prune: cannot store %zu bytes: %s",
                           count, strerror(errno));
    if (child_result->status != TARN_OK)
        snprintf(child_result->message, sizeof child_result->message, "%s",
                 tarn_error_last()->message);
    child_result->done = true;
    _exit(0);
}

/* --- in the parent ------------------------------------------------------------------ */

static void close_channel(struct channel *channel)
{
    int files[] = {channel->output, channel->reasons, channel->errors};

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (files[i] >= 0)
            close(files[i]);
    if (channel->child_result)
        munmap(channel->child_result, sizeof *channel->child_result);
}

static bool open_channel(struct channel *channel)
{
    void *shared = mmap(NULL, sizeof *channel->child_result, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    channel->child_result = shared == MAP_FAILED ? NULL : shared;
    channel->output = memfd_create("output", MFD_CLOEXEC);
    channel->reasons = memfd_create("reasons", MFD_CLOEXEC);
    channel->errors = memfd_create("errors", MFD_CLOEXEC);
    return channel->child_result && channel->output >= 0 && channel->reasons >= 0 &&
           channel->errors >= 0;
}

/* Read the whole file, with a zero byte behind it; NULL: no memory, or it cannot be read.
 */
static char *contents(int file, size_t *count_out)
{
    struct stat facts;

    if (fstat(file, &facts) != 0)
        return NULL;
    size_t count = (size_t)facts.st_size, have = 0;
    char *bytes = malloc(count + 1);
    while (bytes && have < count) {
        ssize_t got = pread(file, bytes + have, count - have, (off_t)have);
        if (got <= 0 && errno != EINTR) {
            free(bytes);
            return NULL;
        }
        have += got > 0 ? (size_t)got : 0;
    }
    if (bytes)
        bytes[count] = 0;
    *count_out = count;
    return bytes;
}

/* The child did not finish: the input on which LLVM failed is no IR. */
static int died(const struct prune_task *task, const struct channel *channel, int state)
{
    size_t count = 0;
    char *error_text = contents(channel->errors, &count);
    char how[64];

    if (error_text)
        error_text[strcspn(error_text, "\n")] = 0;
    if (WIFSIGNALED(state))
        snprintf(how, sizeof how, "signal %d, %s", WTERMSIG(state),
                 strsignal(WTERMSIG(state)));
    else
        snprintf(how, sizeof how, "exit code %d", WEXITSTATUS(state));
    failed(&verb_prune, "%s is not valid IR: LLVM crashed on it (%s)%s%s", task->name,
           how, error_text && *error_text ? ": " : "", error_text ? error_text : "");
    free(error_text);
    return FAILED;
}

/* The library's message begins with `prune: `, and so does the tool's. */
static const char *without_component(const char *message)
{
    size_t length = strlen("prune: ");

    return strncmp(message, "prune: ", length) == 0 ? message + length : message;
}

static int collect(const struct prune_task *task, const struct channel *channel,
                   int state, struct prune_result *out)
{
    const struct child_result *child_result = channel->child_result;

    if (!child_result->done || !WIFEXITED(state) || WEXITSTATUS(state) != 0)
        return died(task, channel, state);
    if (child_result->status != TARN_OK)
        return failed(&verb_prune, "%s", without_component(child_result->message));
    *out = (struct prune_result){.report = child_result->report,
                                 .old_removed = child_result->old_removed};
    out->output = contents(channel->output, &out->output_bytes);
    out->reasons = contents(channel->reasons, &out->reasons_bytes);
    if (out->output && out->reasons)
        return 0;
    prune_result_free(out);
    return failed(&verb_prune, "no host memory for the result of %s", task->name);
}

int prune_in_child(const struct prune_task *task, struct prune_result *out)
{
    struct channel channel = {.output = -1, .reasons = -1, .errors = -1};
    struct library library = {NULL, NULL};
    int state = 0, code = load(&library, task->llvm);

    if (code != 0)
        return code;
    if (!open_channel(&channel)) {
        code = failed(&verb_prune, "cannot allocate shared memory: %s", strerror(errno));
        close_channel(&channel);
        return code;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        work(&library, task, &channel);
    while (child > 0 && waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    if (child < 0)
        code = failed(&verb_prune, "cannot create a process: %s", strerror(errno));
    else
        code = collect(task, &channel, state, out);
    close_channel(&channel);
    return code;
}

void prune_result_free(struct prune_result *result)
{
    free(result->output);
    free(result->reasons);
}
