/* external.c -- verbs that are programs of their own: tarn-VERB on the PATH.
 *
 * This is the scheme of git and cargo. So the Python package, or any other project, can
 * add verbs without a second command. Empty entries of the PATH mean the current folder.
 * A tool that runs whatever lies there is a trap, so they are skipped.
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

/* Copy the next folder of the PATH into `directory`; false at the end. Entries that are
 * empty or too long are skipped. */
static bool next_directory(const char **at, char directory[PATH_MAX])
{
    while (*at && **at) {
        size_t count = strcspn(*at, ":");
        const char *entry = *at;
        *at += count + (entry[count] == ':');
        if (count == 0 || count >= PATH_MAX)
            continue;
        memcpy(directory, entry, count);
        directory[count] = 0;
        return true;
    }
    return false;
}

bool run_external(const char *name, char **argv)
{
    const char *at = getenv("PATH");
    char directory[PATH_MAX], path[2 * PATH_MAX];

    if (!*name || *name == '-' || strchr(name, '/'))
        return false;
    while (next_directory(&at, directory)) {
        int length = snprintf(path, sizeof path, "%s/tarn-%s", directory, name);
        if (length >= (int)sizeof path || !is_program(path))
            continue;
        argv[0] = path;
        execv(path, argv);
    }
    return false;
}

void list_external(FILE *file, const char *indent)
{
    const char *at = getenv("PATH");
    char directory[PATH_MAX], path[2 * PATH_MAX];

    while (next_directory(&at, directory)) {
        DIR *list = opendir(directory);
        struct dirent *entry;
        while (list && (entry = readdir(list)) != NULL) {
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
            if (strncmp(entry->d_name, "tarn-", 5) != 0 || !is_program(path))
                continue;
            fputs(indent, file);
            print_text(file, entry->d_name + 5);
            fputc('\n', file);
        }
        if (list)
            closedir(list);
    }
}
