/* library.c -- whose code a frame is, from the path of its file. */
#include "library.h"
#include <stddef.h>
#include <string.h>

/* What follows the last `part` in a path, or NULL. */
static const char *behind_last(const char *path, const char *part)
{
    const char *found = NULL;

    for (const char *at = strstr(path, part); at; at = strstr(at + 1, part))
        found = at + strlen(part);
    return found;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static struct library native(const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *name = slash ? slash + 1 : file;

    if (begins(name, "lib"))
        name += 3;
    struct library library = {LIBRARY_CODE | LIBRARY_NATIVE, name,
                              (int)strcspn(name, ".")};
    if (begins(name, "python") || begins(name, "c.so") || begins(name, "pthread") ||
        begins(name, "stdc++"))
        library.flags |= LIBRARY_INTERPRETER;
    if (begins(name, "torch_") || begins(name, "c10"))
        library = (struct library){library.flags, "torch", 5};
    if (begins(name, "tarn"))
        library.flags |= LIBRARY_TARN;
    return library;
}

/* Modules of Tarn that a framework calls without a Python frame of its own. */
static const struct {
    const char *path, *framework;
} allocators[] = {
    {"tarn/cupy.py", "cupy"}, {"tarn/cuda_core.py", "cuda"}, {"tarn/warp.py", "warp"}};

/* The package in a folder of installed packages: its first folder, or its module. */
static struct library package(const char *path)
{
    struct library library = {LIBRARY_CODE, path, (int)strcspn(path, "/.")};

    for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++)
        if (strcmp(path, allocators[i].path) == 0)
            return (struct library){LIBRARY_CODE, allocators[i].framework,
                                    (int)strlen(allocators[i].framework)};
    if (library.length == 4 && begins(path, "tarn"))
        library.flags |= LIBRARY_TARN;
    return library;
}

struct library library_of(const char *file, bool is_native)
{
    const char *inside;

    if (is_native)
        return native(file);
    inside = behind_last(file, "/site-packages/");
    if (!inside)
        inside = behind_last(file, "/dist-packages/");
    if (inside)
        return package(inside);
    if (begins(file, "<frozen ") || strstr(file, "/importlib/"))
        return (struct library){LIBRARY_CODE | LIBRARY_INTERPRETER, "", 0};
    inside = strstr(file, "/lib/python");
    if (inside && inside[11] >= '0' && inside[11] <= '9')
        return (struct library){LIBRARY_CODE | LIBRARY_INTERPRETER, "", 0};
    return (struct library){0, "", 0};
}
