/* nvtx_log.c -- what the tool tests/fake/nvtx_tool.c has seen.
 *
 * Failures end the process with a message, so that children may use it, too.
 */
#define _GNU_SOURCE
#include "nvtx_log.h"
#include "child.h"
#include <inttypes.h>
#include <unistd.h>

enum { MOST = 4096 };

static struct nvtx_region heaps[MOST], regions[MOST];
static size_t heap_count, region_count;
static char log_path[128];

static void remove_log(void)
{
    unlink(log_path);
}

void nvtx_use_tool(const char *defects)
{
    const char *build = getenv("TARN_BUILD");
    char tool[4096];

    if (!build)
        child_fail("TARN_BUILD is not set");
    snprintf(tool, sizeof tool, "%s/tests/fake/nvtx_tool.so", build);
    snprintf(log_path, sizeof log_path, "/tmp/tarn-nvtx-%d", (int)getpid());
    unlink(log_path);
    atexit(remove_log);
    setenv("NVTX_INJECTION64_PATH", tool, 1);
    setenv("FAKE_NVTX_LOG", log_path, 1);
    setenv("FAKE_NVTX", defects ? defects : "", 1);
}

/* --- the model --- */

static struct nvtx_region *find(struct nvtx_region *list, size_t count, uint64_t address)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].address <= address && address < list[i].address + list[i].bytes)
            return &list[i];
    return NULL;
}

static void add(struct nvtx_region *list, size_t *count, uint64_t address, uint64_t bytes,
                const char *line)
{
    for (size_t i = 0; i < *count; i++)
        if (list[i].address < address + bytes &&
            address < list[i].address + list[i].bytes)
            child_fail("overlaps: %s", line);
    if (*count == MOST)
        child_fail("too many: %s", line);
    list[(*count)++] = (struct nvtx_region){.address = address, .bytes = bytes};
}

static void drop(struct nvtx_region *list, size_t *count, struct nvtx_region *one,
                 uint64_t address, const char *line)
{
    if (!one || one->address != address)
        child_fail("was not there: %s", line);
    *one = list[--*count];
}

static void drop_heap(uint64_t address, const char *line)
{
    struct nvtx_region *heap = find(heaps, heap_count, address);
    uint64_t end = heap ? heap->address + heap->bytes : 0;

    drop(heaps, &heap_count, heap, address, line);
    for (size_t i = region_count; i-- > 0;) /* regions end with their heap */
        if (address <= regions[i].address && regions[i].address < end)
            regions[i] = regions[--region_count];
}

static void add_region(uint64_t address, uint64_t bytes, uint64_t in, const char *line)
{
    const struct nvtx_region *heap = find(heaps, heap_count, address);

    if (!heap || heap->address != in || address + bytes > heap->address + heap->bytes)
        child_fail("not in its heap: %s", line);
    add(regions, &region_count, address, bytes, line);
}

static void read_line(const char *line)
{
    uint64_t address = 0, bytes = 0, in = 0;
    int at = 0;

    if (strncmp(line, "WRONG", 5) == 0)
        child_fail("%s", line);
    if (sscanf(line, "heap %" SCNx64 " %" SCNu64, &address, &bytes) == 2)
        add(heaps, &heap_count, address, bytes, line);
    else if (sscanf(line, "unheap %" SCNx64, &address) == 1)
        drop_heap(address, line);
    else if (sscanf(line, "region %" SCNx64 " %" SCNu64 " in %" SCNx64, &address, &bytes,
                    &in) == 3)
        add_region(address, bytes, in, line);
    else if (sscanf(line, "unregion %" SCNx64, &address) == 1)
        drop(regions, &region_count, find(regions, region_count, address), address, line);
    else if (sscanf(line, "name %" SCNx64 " 1 1 %n", &address, &at) == 1 && at > 0) {
        struct nvtx_region *region = find(regions, region_count, address);
        if (!region || region->address != address)
            child_fail("names nothing: %s", line);
        snprintf(region->name, sizeof region->name, "%s", line + at);
    }
}

void nvtx_read(void)
{
    char line[1100];
    FILE *file = fopen(log_path, "r");

    heap_count = region_count = 0;
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        read_line(line);
    }
    if (file)
        fclose(file);
}

const struct nvtx_region *nvtx_heap(uint64_t address)
{
    return find(heaps, heap_count, address);
}

const struct nvtx_region *nvtx_region(uint64_t address)
{
    return find(regions, region_count, address);
}

size_t nvtx_heap_count(void)
{
    return heap_count;
}

size_t nvtx_region_count(void)
{
    return region_count;
}

/* --- lines --- */

void nvtx_note(const char *line)
{
    FILE *file = fopen(log_path, "a");

    if (!file)
        child_fail("%s cannot be written", log_path);
    fprintf(file, "%s\n", line);
    fclose(file);
}

size_t nvtx_line(const char *begin, size_t from)
{
    char line[1100];
    size_t number = 0, found = 0;
    FILE *file = fopen(log_path, "r");

    while (file && found == 0 && fgets(line, sizeof line, file))
        if (++number > from && strncmp(line, begin, strlen(begin)) == 0)
            found = number;
    if (file)
        fclose(file);
    return found;
}
