/* nvtx_tool.c -- a tool that attaches by NVTX and writes each call as a line into a log.
 *
 * The log is the file that FAKE_NVTX_LOG names. FAKE_NVTX selects defects, by words:
 * `refuse` (no initialization), `no-memory` (no memory extension), `no-name` (no function for
 * names), `no-heap` (each heap is refused).
 *
 * The types are NVTX's, written down again from its reference, so that the test does not
 * compare Tarn's declarations with themselves.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int asked(const char *word)
{
    const char *words = getenv("FAKE_NVTX");

    return words && strstr(words, word);
}

/* Append a line. Several threads write whole lines. */
static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void note(const char *format, ...)
{
    const char *path = getenv("FAKE_NVTX_LOG");
    char line[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%s\n", line);
        fclose(file);
    }
}

static uint16_t u16_at(const void *from, size_t offset)
{
    uint16_t value;

    memcpy(&value, (const char *)from + offset, sizeof value);
    return value;
}

static uint32_t u32_at(const void *from, size_t offset)
{
    uint32_t value;

    memcpy(&value, (const char *)from + offset, sizeof value);
    return value;
}

static uint64_t u64_at(const void *from, size_t offset)
{
    uint64_t value;

    memcpy(&value, (const char *)from + offset, sizeof value);
    return value;
}

static const void *pointer_at(const void *from, size_t offset)
{
    return (const void *)(uintptr_t)u64_at(from, offset);
}

/* --- domains and ranges --- */

static int the_domain;

static void *create_domain(const char *name)
{
    note("domain %s", name);
    return &the_domain;
}

static _Thread_local int depth;

static int push_range(void *domain, const void *event)
{
    note("push %d %s %s version %u size %u payload %d %llu", depth,
         domain == &the_domain ? "tarn" : "?", (const char *)pointer_at(event, 40),
         u16_at(event, 0), u16_at(event, 2), (int)u32_at(event, 16),
         (unsigned long long)u64_at(event, 24));
    return depth++;
}

static int pop_range(void *domain)
{
    (void)domain;
    note("pop %d", --depth);
    return depth;
}

/* --- memory --- */

static void check(const char *what, const void *batch, size_t size)
{
    if (u16_at(batch, 0) != 0x0102 || u16_at(batch, 2) != size)
        note("WRONG %s: id 0x%x size %u", what, u16_at(batch, 0), u16_at(batch, 2));
}

static void *register_heap(void *domain, const void *heap)
{
    const void *range = pointer_at(heap, 24);

    check("heap", heap, 48);
    if (domain != &the_domain || u32_at(heap, 8) != 1 || u32_at(heap, 12) != 1 ||
        u64_at(heap, 16) != 16)
        note("WRONG heap");
    note("heap %llx %llu", (unsigned long long)u64_at(range, 8),
         (unsigned long long)u64_at(range, 0));
    return asked("no-heap") ? NULL : (void *)(uintptr_t)u64_at(range, 8);
}

static void unregister_heap(void *domain, void *heap)
{
    (void)domain;
    note("unheap %llx", (unsigned long long)(uintptr_t)heap);
}

static void register_regions(void *domain, const void *batch)
{
    const char *ranges = pointer_at(batch, 32);

    (void)domain;
    check("regions", batch, 48);
    if (u32_at(batch, 4) != 1 || u64_at(batch, 24) != 16)
        note("WRONG regions");
    for (uint64_t i = 0; i < u64_at(batch, 16); i++)
        note("region %llx %llu in %llx", (unsigned long long)u64_at(ranges + 16 * i, 8),
             (unsigned long long)u64_at(ranges + 16 * i, 0),
             (unsigned long long)u64_at(batch, 8));
}

static void unregister_regions(void *domain, const void *batch)
{
    const char *references = pointer_at(batch, 24);

    (void)domain;
    check("references", batch, 32);
    if (u32_at(batch, 4) != 1 || u64_at(batch, 16) != 8)
        note("WRONG references");
    for (uint64_t i = 0; i < u64_at(batch, 8); i++)
        note("unregion %llx", (unsigned long long)u64_at(references + 8 * i, 0));
}

static void name_regions(void *domain, const void *batch)
{
    const char *names = pointer_at(batch, 24);

    (void)domain;
    check("names", batch, 40);
    if (u64_at(batch, 16) != 32)
        note("WRONG names");
    for (uint64_t i = 0; i < u64_at(batch, 8); i++)
        note("name %llx %u %u %s", (unsigned long long)u64_at(names + 32 * i, 8),
             u32_at(names + 32 * i, 0), u32_at(names + 32 * i, 4),
             (const char *)pointer_at(names + 32 * i, 16));
}

/* --- attach --- */

typedef void (*function)(void);

struct callbacks {
    size_t size;
    int (*get)(int module, function ***out, unsigned *count_out);
};

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void *(*get_table)(uint32_t));

int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t))
{
    const struct callbacks *callbacks = get_table(1);
    function **table;
    unsigned count;

    if (asked("refuse") || !callbacks || callbacks->size < sizeof *callbacks)
        return 0;
    /* A tool may set functions of all modules. */
    for (int module = 1; module <= 6; module++) {
        if (!callbacks->get(module, &table, &count))
            note("WRONG module %d", module);
        for (unsigned i = 1; i < count; i++)
            if (!table[i])
                note("WRONG function %d of module %d", i, module);
        if (table[count])
            note("WRONG end of module %d", module);
    }
    if (callbacks->get(0, &table, &count) || callbacks->get(7, &table, &count) ||
        !get_table(3) || get_table(99))
        note("WRONG tables");
    callbacks->get(5, &table, &count);
    *table[12] = (function)create_domain;
    *table[4] = (function)push_range;
    *table[5] = (function)pop_range;
    note("attached");
    return 1;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    const void *extension);

int InitializeInjectionNvtxExtension(const void *extension)
{
    const void *segment = pointer_at(extension, 16);
    intptr_t *slots = (intptr_t *)(uintptr_t)u64_at(segment, 16);

    if (asked("no-memory"))
        return 0;
    if (u16_at(extension, 0) != 3 || u16_at(extension, 2) != 40 ||
        u16_at(extension, 4) != 1 || u16_at(extension, 6) != 0x0102 ||
        u64_at(extension, 8) != 1 || u64_at(segment, 0) != 1 || u64_at(segment, 8) != 63)
        note("WRONG extension");
    slots[0] = (intptr_t)register_heap;
    slots[1] = (intptr_t)unregister_heap;
    slots[3] = (intptr_t)register_regions;
    slots[5] = (intptr_t)unregister_regions;
    slots[6] = asked("no-name") ? 1 : (intptr_t)name_regions;
    note("attached to memory");
    return 1;
}
