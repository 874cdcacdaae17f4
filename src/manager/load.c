/* load.c -- managers from shared libraries.
 *
 * A plugin is code: the choice of the file decides what runs in this process. So the path
 * must contain a `/`; otherwise the dynamic linker's search path would choose. A program
 * with rights that its user lacks (set-uid, file capabilities) loads no plugin. Error
 * messages say exactly what is wrong with a plugin: their readers have just compiled one.
 */
#include "manager/load.h"
#include "manager/manager.h"
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

bool tarn__load_is_privileged(void)
{
    return getauxval(AT_SECURE) != 0;
}

static tarn_status check_path(const char *path)
{
    struct stat found;

    if (tarn__load_is_privileged())
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "manager: %s is not loaded: the process runs with elevated "
                              "privileges (such as set-uid)",
                              path);
    if (!strchr(path, '/'))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "manager: %s has no /, and no search path is used; ./%s "
                              "names the file in the current directory",
                              path, path);
    if (stat(path, &found) != 0)
        return tarn_error_set_native(
            errno == ENOENT || errno == ENOTDIR ? TARN_NOT_FOUND : TARN_SYSTEM_FAILURE,
            errno, "manager: cannot find the file %s: %s", path, strerror(errno));
    return TARN_OK;
}

/* The function of a plugin. POSIX has functions fit into what dlsym() returns. */
static tarn_status find_function(void *library, const char *path, const char *symbol,
                                 tarn_manager_plugin_fn *out)
{
    void *found = dlsym(library, symbol);

    if (!found)
        return tarn_error_set(TARN_NOT_FOUND, "manager: %s has no symbol %s", path,
                              symbol);
    memcpy(out, &found, sizeof *out);
    return TARN_OK;
}

/* The plugin's table, if it is valid. */
static tarn_status get_table(tarn_manager_plugin_fn function, const char *path,
                             const char *symbol, const tarn_manager_ops **out)
{
    const tarn_manager_ops *ops = function();

    if (!ops)
        return tarn_error_set(TARN_PLUGIN_FAILURE,
                              "manager: %s of %s returned no table of operations", symbol,
                              path);
    tarn_status status = tarn__manager_check_table(ops);
    if (status != TARN_OK)
        return tarn_error_set(status, "%s: %s", path, tarn_error_last()->message);
    *out = ops;
    return TARN_OK;
}

/* The library stays loaded whatever becomes of the manager: its code runs until the last
 * pointer is gone. A second dlopen() of it adds a reference. */
tarn_status tarn_manager_load(const char *path, const char *symbol,
                              const tarn_manager_ops **out)
{
    tarn_manager_plugin_fn function = NULL;

    if (!path || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "manager: load: %s is NULL",
                              path ? "out" : "path");
    if (!symbol)
        symbol = TARN_MANAGER_PLUGIN_SYMBOL;
    tarn_status status = check_path(path);
    if (status != TARN_OK)
        return status;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return tarn_error_set(TARN_BAD_FORMAT, "manager: cannot load %s: %s", path,
                              dlerror());
    status = find_function(library, path, symbol, &function);
    if (status == TARN_OK)
        status = get_table(function, path, symbol, out);
    if (status != TARN_OK)
        dlclose(library);
    return status;
}
