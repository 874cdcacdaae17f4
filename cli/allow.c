/* allow.c -- a list of places that may hold memory until exit.
 *
 * Each line is a pattern: `file:line` or `file:function`, where `*`, `?` and `[...]` match
 * as in a shell. A pattern without a slash is for the last part of a path. Lines that
 * begin with # are comments.
 */
#define _GNU_SOURCE
#include "tool.h"
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Remove blanks at both ends. */
static char *trimmed(char *line)
{
    line += strspn(line, " \t");
    for (size_t count = strlen(line); count > 0 && strchr(" \t\r\n", line[count - 1]);)
        line[--count] = 0;
    return line;
}

static bool append(struct allow *allow, const char *pattern)
{
    char **grown = realloc(allow->patterns, (allow->count + 1) * sizeof *allow->patterns);

    if (!grown)
        return false;
    allow->patterns = grown;
    grown[allow->count] = strdup(pattern);
    return grown[allow->count++] != NULL;
}

bool allow_read(struct allow *allow, const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t capacity = 0;
    bool has_space = true;

    if (!file)
        return false;
    while (has_space && getline(&line, &capacity, file) >= 0) {
        const char *pattern = trimmed(line);
        if (*pattern && *pattern != '#')
            has_space = append(allow, pattern);
    }
    int error = has_space ? (ferror(file) ? EIO : 0) : ENOMEM;
    free(line);
    fclose(file);
    errno = error;
    return error == 0;
}

void allow_free(struct allow *allow)
{
    for (size_t i = 0; i < allow->count; i++)
        free(allow->patterns[i]);
    free(allow->patterns);
}

static bool matches(const struct allow *allow, const char *place)
{
    const char *slash = strrchr(place, '/');

    for (size_t i = 0; i < allow->count; i++) {
        const char *pattern = allow->patterns[i];
        if (fnmatch(pattern, place, 0) == 0 ||
            (slash && !strchr(pattern, '/') && fnmatch(pattern, slash + 1, 0) == 0))
            return true;
    }
    return false;
}

bool allow_matches(const struct allow *allow, const char *location, tarn_stack stack)
{
    tarn_stack_frame frames[TARN_STACK_DEPTH_MAX];
    size_t count = tarn_stack_frames(stack, TARN_STACK_DEPTH_MAX, frames);

    if (allow->count == 0)
        return false;
    if (matches(allow, location))
        return true;
    for (size_t i = 0; i < count; i++) {
        char place[4096];
        snprintf(place, sizeof place, "%s:%d", frames[i].file, frames[i].line);
        if (matches(allow, place))
            return true;
        snprintf(place, sizeof place, "%s:%s", frames[i].file, frames[i].function);
        if (matches(allow, place))
            return true;
    }
    return false;
}
