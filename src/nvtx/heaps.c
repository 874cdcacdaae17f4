/* heaps.c -- the heaps of the process, by address. A tool needs the heap of each region.
 *
 * The tool is not called with the lock held: it may wait for the driver.
 */
#include "nvtx/heaps.h"
#include "base/host_checker.h"
#include "base/mutex.h"
#include "base/warn.h"
#include "nvtx/tool.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct heap {
    uint64_t address, end;
    void *handle;    /* the tool's; NULL: it has none */
    bool is_checked; /* it is host memory, and a checker of host memory runs */
};

/* Memory of blocks that have ended, and stays registered. */
struct left {
    struct left *next;
    uint64_t address, end;
};

TARN__STATIC_MUTEX(lock);
static struct heap *heaps; /* by address; they do not overlap */
static size_t heap_count, heap_capacity;
static struct left *first_left;
static atomic_bool is_stopped;

/* Return the tool that wants heaps, or NULL. */
static const struct tarn__tool *tool_of_heaps(void)
{
    const struct tarn__tool *tool = atomic_load(&is_stopped) ? NULL : tarn__tool_get();

    return tool && tool->heap_register ? tool : NULL;
}

bool tarn__heaps_are_wanted(void)
{
    return tool_of_heaps() != NULL;
}

/* --- the table --- */

/* Return the number of the first heap that ends behind `address`. `lock` held. */
static size_t position_of(uint64_t address)
{
    size_t low = 0, high = heap_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (heaps[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Find the first heap that overlaps a range, and take it out of the table if `takes`. */
static bool find(uint64_t address, uint64_t end, bool takes, struct heap *out)
{
    tarn__mutex_lock(&lock);
    size_t place = position_of(address);
    bool is_found = place < heap_count && heaps[place].address < end;
    if (is_found)
        *out = heaps[place];
    if (is_found && takes) {
        heap_count--;
        memmove(&heaps[place], &heaps[place + 1], (heap_count - place) * sizeof *heaps);
    }
    tarn__mutex_unlock(&lock);
    return is_found;
}

static bool enter(const struct heap *heap)
{
    bool has_place = true;

    tarn__mutex_lock(&lock);
    if (heap_count == heap_capacity) {
        size_t capacity = heap_capacity ? 2 * heap_capacity : 16;
        struct heap *larger = realloc(heaps, capacity * sizeof *heaps);
        has_place = larger != NULL;
        if (larger) {
            heaps = larger;
            heap_capacity = capacity;
        }
    }
    if (has_place) {
        size_t place = position_of(heap->address);
        memmove(&heaps[place + 1], &heaps[place], (heap_count - place) * sizeof *heaps);
        heaps[place] = *heap;
        heap_count++;
    }
    tarn__mutex_unlock(&lock);
    return has_place;
}

/* Keep memory registered. Without host memory for the entry the tool gets two registrations
 * later. */
static void add_left(uint64_t address, uint64_t end)
{
    struct left *left = malloc(sizeof *left);

    if (!left)
        return;
    *left = (struct left){.address = address, .end = end};
    tarn__mutex_lock(&lock);
    left->next = first_left;
    first_left = left;
    tarn__mutex_unlock(&lock);
}

/* Take an entry that overlaps a range; the caller frees it. NULL: there is none. */
static struct left *take_left(uint64_t address, uint64_t end)
{
    tarn__mutex_lock(&lock);
    struct left **link = &first_left, *found;
    while (*link && ((*link)->address >= end || (*link)->end <= address))
        link = &(*link)->next;
    found = *link;
    if (found)
        *link = found->next;
    tarn__mutex_unlock(&lock);
    return found;
}

/* --- heaps --- */

static const void *pointer_to(uint64_t address)
{
    return (const void *)(uintptr_t)address;
}

/* Return the tool's handle of a new heap; NULL: the tool did not take it. */
static void *register_heap(const struct tarn__tool *tool, uint64_t address, size_t bytes)
{
    struct tarn__nvtx_range range = {bytes, pointer_to(address)};
    struct tarn__nvtx_heap heap = {.id = TARN__NVTX_MEMORY_ID,
                                   .size = sizeof heap,
                                   .use = TARN__NVTX_SUB_ALLOCATOR,
                                   .type = TARN__NVTX_VIRTUAL_ADDRESS,
                                   .range_size = sizeof range,
                                   .range = &range,
                                   .message_type = TARN__NVTX_ASCII,
                                   .message = {.ascii = "tarn"}};
    void *handle = tool->heap_register(tool->domain, &heap);

    return handle == (void *)UINTPTR_MAX ? NULL : handle;
}

/* Warn once. Without its heap the tool finds no error in this memory. */
static void warn_of_refusal(uint64_t address, size_t bytes)
{
    static atomic_flag was_warned = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&was_warned))
        tarn__warn("nvtx: the tool takes no heap of %zu bytes at 0x%llx: it cannot check "
                   "this memory",
                   bytes, (unsigned long long)address);
}

static bool add(uint64_t address, size_t bytes, bool is_checked)
{
    const struct tarn__tool *tool = tool_of_heaps();
    struct heap heap = {.address = address,
                        .end = address + bytes,
                        .is_checked = is_checked},
                other;

    if (atomic_load(&is_stopped) || (!tool && !is_checked) ||
        find(address, heap.end, false, &other))
        return false;
    if (tool) {
        heap.handle = register_heap(tool, address, bytes);
        if (!heap.handle)
            warn_of_refusal(address, bytes);
    }
    if ((heap.handle || is_checked) && enter(&heap)) {
        if (is_checked)
            tarn__host_checker_forbid(address, bytes);
        return true;
    }
    if (heap.handle)
        tool->heap_unregister(tool->domain, heap.handle);
    return false;
}

bool tarn__heaps_add(uint64_t address, size_t bytes)
{
    return add(address, bytes, false);
}

bool tarn__heaps_add_host(uint64_t address, size_t bytes)
{
    return add(address, bytes, tarn__host_checker_is_present());
}

/* End a heap that was taken out of the table, with its regions. */
static void end_heap(const struct heap *heap)
{
    struct left *left;

    while ((left = take_left(heap->address, heap->end)) != NULL)
        free(left);
    if (heap->is_checked)
        tarn__host_checker_allow(heap->address, heap->end - heap->address);
    if (heap->handle)
        tarn__tool_get()->heap_unregister(tarn__tool_get()->domain, heap->handle);
}

void tarn__heaps_remove(uint64_t address, size_t bytes)
{
    struct heap heap;

    while (find(address, address + bytes, true, &heap))
        end_heap(&heap);
}

void tarn__heaps_stop(void)
{
    struct heap heap;

    atomic_store(&is_stopped, true);
    while (find(0, UINT64_MAX, true, &heap))
        end_heap(&heap);
}

/* --- blocks --- */

/* Find the part of a range that is in its first heap. */
static bool next_part(uint64_t address, uint64_t end, struct heap *heap_out,
                      struct tarn__nvtx_range *out)
{
    if (address >= end || !find(address, end, false, heap_out))
        return false;
    uint64_t first = heap_out->address > address ? heap_out->address : address,
             last = heap_out->end < end ? heap_out->end : end;
    *out = (struct tarn__nvtx_range){last - first, pointer_to(first)};
    return true;
}

static void name_region(const struct tarn__tool *tool, const void *address,
                        const char *text)
{
    struct tarn__nvtx_region_name name = {.reference_type = TARN__NVTX_BY_POINTER,
                                          .message_type = TARN__NVTX_ASCII,
                                          .address = address,
                                          .name = {.ascii = text}};
    struct tarn__nvtx_region_names names = {.id = TARN__NVTX_MEMORY_ID,
                                            .size = sizeof names,
                                            .count = 1,
                                            .name_size = sizeof name,
                                            .names = &name};

    if (tool->regions_name)
        tool->regions_name(tool->domain, &names);
}

static void register_block(uint64_t address, uint64_t end, const char *name)
{
    const struct tarn__tool *tool = tarn__tool_get();
    struct heap heap;
    struct tarn__nvtx_range part;
    struct tarn__nvtx_regions regions = {.id = TARN__NVTX_MEMORY_ID,
                                         .size = sizeof regions,
                                         .type = TARN__NVTX_VIRTUAL_ADDRESS,
                                         .count = 1,
                                         .range_size = sizeof part,
                                         .ranges = &part};

    for (; next_part(address, end, &heap, &part);
         address = (uintptr_t)part.address + part.size) {
        if (heap.is_checked)
            tarn__host_checker_allow((uintptr_t)part.address, part.size);
        if (!heap.handle)
            continue;
        regions.heap = heap.handle;
        tool->regions_register(tool->domain, &regions);
        name_region(tool, part.address, name);
    }
}

static void unregister_block(uint64_t address, uint64_t end)
{
    const struct tarn__tool *tool = tarn__tool_get();
    struct heap heap;
    struct tarn__nvtx_range part;
    struct tarn__nvtx_region_list regions = {.id = TARN__NVTX_MEMORY_ID,
                                             .size = sizeof regions,
                                             .reference_type = TARN__NVTX_BY_POINTER,
                                             .count = 1,
                                             .reference_size = sizeof part.address,
                                             .addresses = &part.address};

    for (; next_part(address, end, &heap, &part);
         address = (uintptr_t)part.address + part.size) {
        if (heap.is_checked)
            tarn__host_checker_forbid((uintptr_t)part.address, part.size);
        if (heap.handle)
            tool->regions_unregister(tool->domain, &regions);
    }
}

/* Regions do not overlap. So a block ends what is left of earlier ones, and one that is left
 * itself has their memory as well. */
void tarn__heaps_begin_block(uint64_t address, size_t bytes, bool is_left,
                             const char *name)
{
    uint64_t end = address + bytes;
    struct left *left;

    while ((left = take_left(address, end)) != NULL) {
        unregister_block(left->address, left->end);
        if (is_left && left->address < address)
            address = left->address;
        if (is_left && left->end > end)
            end = left->end;
        free(left);
    }
    register_block(address, end, name);
    if (is_left && tool_of_heaps())
        add_left(address, end);
}

void tarn__heaps_end_block(uint64_t address, size_t bytes)
{
    unregister_block(address, address + bytes);
}

void tarn__heaps_leave_block(uint64_t address, size_t bytes)
{
    if (tool_of_heaps())
        add_left(address, address + bytes);
}
