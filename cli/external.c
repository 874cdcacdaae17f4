/* external.c -- verbs that are programs of their own: tarn-VERB beside the command, or on
 * the PATH.
 *
 * This is the scheme of git and cargo. So the Python package, or any other project, can
 * add verbs without a second command. The folder of the command comes first: the package
 * of a virtual environment works without its activation. Empty entries of the PATH mean
 * the current folder. A tool that runs whatever lies there is a trap, so they are skipped.
 */
#define _GNU_SOURCE
#include "tool.h"
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_program(const char *path)
{
    struct stat facts;

    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && access(path, X_OK) == 0;
}

/* The folders that are searched. */
struct folders {
    bool is_begun;
    char own[PATH_MAX]; /* the folder of this command; "" if it is unknown */
    const char *path;   /* what is left of the PATH */
};

/* Begin the search with the folder of this command. */
static void begin(struct folders *folders)
{
    ssize_t count = readlink("/proc/self/exe", folders->own, PATH_MAX - 1);

    folders->is_begun = true;
    folders->path = getenv("PATH");
    folders->own[count > 0 ? count : 0] = 0;
    char *end = strrchr(folders->own, '/');
    if (end)
        *end = 0;
}

/* Copy the next folder into `directory`; false at the end. Entries of the PATH that are
 * empty or too long are skipped, and the one of this command, which comes first. */
static bool next_directory(struct folders *folders, char directory[PATH_MAX])
{
    if (!folders->is_begun) {
        begin(folders);
        if (*folders->own) {
            strcpy(directory, folders->own);
            return true;
        }
    }
    while (folders->path && *folders->path) {
        const char *entry = folders->path;
        size_t count = strcspn(entry, ":");
        folders->path += count + (entry[count] == ':');
        if (count == 0 || count >= PATH_MAX)
            continue;
        memcpy(directory, entry, count);
        directory[count] = 0;
        if (strcmp(directory, folders->own) == 0)
            continue;
        return true;
    }
    return false;
}

bool run_external(const char *name, char **argv)
{
    struct folders folders = {.is_begun = false};
    char directory[PATH_MAX], path[2 * PATH_MAX];

    if (!*name || *name == '-' || strchr(name, '/'))
        return false;
    while (next_directory(&folders, directory)) {
        int length = snprintf(path, sizeof path, "%s/tarn-%s", directory, name);
        if (length >= (int)sizeof path || !is_program(path))
            continue;
        argv[0] = path;
        execv(path, argv);
    }
    return false;
}

/* The verbs of the Python package. */
static const struct {
    const char *name, *summary;
} known[] = {
    {"metrics", "prints the figures of running processes"},
    {"nrt", "prints the compiler options for programs with the runtime of Numba"},
    {"top", "shows the pools of running processes"},
};

/* Return what a verb does; "" if this is not known. */
static const char *summary_of(const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].summary;
    return "";
}

static void print_external(FILE *file, const char *name)
{
    const char *summary = summary_of(name);

    fputs("  ", file);
    print_text(file, name);
    if (*summary)
        fprintf(file, "%*s %s", 8 - (int)strlen(name), "", summary);
    fputc('\n', file);
}

void list_external(FILE *file)
{
    struct folders folders = {.is_begun = false};
    char directory[PATH_MAX], path[2 * PATH_MAX];

    while (next_directory(&folders, directory)) {
        DIR *list = opendir(directory);
        struct dirent *entry;
        while (list && (entry = readdir(list)) != NULL) {
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
            if (strncmp(entry->d_name, "tarn-", 5) != 0 || !is_program(path))
                continue;
            print_external(file, entry->d_name + 5);
        }
        if (list)
            closedir(list);
    }
}
