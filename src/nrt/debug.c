/* debug.c -- debug output, and an external allocator for tests. */
#include "nrt/debug.h"
#include "nrt/registry.h"
#include <stdarg.h>
#include <stdlib.h>

void tarn_nrt_debug_print(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
}

void tarn__debug_trace(const char *format, ...)
{
    char line[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "tarn: nrt: %s\n", line);
}

static bool traced(void)
{
    return tarn_runtime_modes(&tarn__default_runtime) & TARN_NRT_TRACE;
}

static void *sample_malloc(size_t size, void *opaque)
{
    (void)opaque;
    if (traced())
        tarn__debug_trace("sample allocator: malloc of %zu bytes", size);
    return malloc(size);
}

static void *sample_realloc(void *ptr, size_t size, void *opaque)
{
    (void)opaque;
    if (traced())
        tarn__debug_trace("sample allocator: realloc of %p to %zu bytes", ptr, size);
    return realloc(ptr, size);
}

static void sample_free(void *ptr, void *opaque)
{
    (void)opaque;
    if (traced())
        tarn__debug_trace("sample allocator: free of %p", ptr);
    free(ptr);
}

NRT_ExternalAllocator *tarn_nrt_sample_external_allocator(void)
{
    static NRT_ExternalAllocator sample = {sample_malloc, sample_realloc, sample_free,
                                           NULL};

    return &sample;
}
