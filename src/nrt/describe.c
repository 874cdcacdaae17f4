/* describe.c -- describe an address in code: by the symbolizer, else by the dynamic
 * linker.
 */
#define _GNU_SOURCE
#include "base/hook.h"
#include <tarn/nrt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static struct tarn__hook symbolizer;

void tarn_nrt_set_symbolizer(tarn_nrt_symbolizer function, void *data)
{
    tarn__hook_set(&symbolizer, (tarn__any_function *)function, data);
}

static bool ask(const void *address, char *out, size_t bytes)
{
    struct tarn__hook_call call;

    if (!tarn__hook_begin(&symbolizer, &call))
        return false;
    bool is_known = ((tarn_nrt_symbolizer)call.function)(call.data, address, out, bytes);
    tarn__hook_end(&call);
    return is_known;
}

/* The last part of a path. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

const char *tarn_nrt_describe(const void *address, char *out, size_t bytes)
{
    Dl_info info;

    if (!bytes || ask(address, out, bytes))
        return out;
    if (!address || !dladdr(address, &info) || !info.dli_fname)
        snprintf(out, bytes, "%p", address);
    else if (info.dli_sname)
        snprintf(out, bytes, "%s+0x%zx (%s)", info.dli_sname,
                 (size_t)((const char *)address - (const char *)info.dli_saddr),
                 base_name(info.dli_fname));
    else
        snprintf(out, bytes, "%p (%s+0x%zx)", address, base_name(info.dli_fname),
                 (size_t)((const char *)address - (const char *)info.dli_fbase));
    return out;
}
