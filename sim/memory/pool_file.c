/* pool_file.c -- the file of a pool, its mapping, and the free part of it. */
#define _GNU_SOURCE
#include "sim/memory/pool_file.h"
#include "sim/core/device.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct sim_pool_area {
    struct sim_range range; /* first: the table finds it */
    struct sim_pool_area *next_unused;
};

static struct sim_ranges areas; /* all areas ever made */
static struct sim_pool_area *unused;

bool sim_pool_file_holds(uintptr_t address)
{
    return sim_ranges_find(&areas, address) != NULL;
}

uintptr_t sim_pool_file_start(const struct sim_pool_file *file)
{
    return file->area->range.start;
}

size_t sim_pool_file_bytes(const struct sim_pool_file *file)
{
    return file->area->range.bytes;
}

/* --- areas --- */

static bool map_over(const struct sim_pool_area *area, int flags, int file)
{
    return mmap((void *)area->range.start, area->range.bytes, PROT_READ | PROT_WRITE,
                flags | MAP_FIXED | MAP_NORESERVE, file, 0) != MAP_FAILED;
}

static struct sim_pool_area *new_area(size_t bytes)
{
    struct sim_pool_area *area = calloc(1, sizeof *area);
    void *got;

    if (!area)
        return NULL;
    got = mmap(NULL, bytes + SIM_PIECE_BYTES, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) {
        free(area);
        return NULL;
    }
    area->range.start = ((uintptr_t)got + SIM_PIECE_BYTES - 1) & ~(SIM_PIECE_BYTES - 1);
    area->range.bytes = bytes;
    sim_ranges_insert(&areas, &area->range);
    return area;
}

static struct sim_pool_area *acquire_area(size_t bytes)
{
    struct sim_pool_area **link = &unused, *area;

    while (*link && (*link)->range.bytes != bytes)
        link = &(*link)->next_unused;
    if (!*link)
        return new_area(bytes);
    area = *link;
    *link = area->next_unused;
    return area;
}

/* Replace the file by anonymous memory, so that a late access does no damage. */
static void release_area(struct sim_pool_area *area)
{
    /* If this fails the file stays, which only costs host memory. */
    bool mapped = map_over(area, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    (void)mapped;
    area->next_unused = unused;
    unused = area;
}

/* --- files --- */

/* Map `file`. The pool owns it from then on. */
static CUresult attach(struct sim_pool *pool, int file,
                       const struct sim_shared_page *page)
{
    struct sim_pool_file *made = calloc(1, sizeof *made);
    struct sim_pool_area *area = made ? acquire_area((size_t)page->bytes) : NULL;

    if (!area) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!map_over(area, MAP_SHARED, file)) {
        release_area(area);
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    madvise((void *)area->range.start, area->range.bytes, MADV_DONTDUMP);
    made->file = file;
    made->id = page->id;
    made->kind = pool->kind;
    made->device = pool->device;
    made->area = area;
    pool->file = made;
    return CUDA_SUCCESS;
}

CUresult sim_pool_file_create(struct sim_pool *pool)
{
    struct sim_range *all = calloc(1, sizeof *all);
    struct sim_shared_page page;
    CUresult result;
    int file;

    if (!all)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result =
        sim_shared_file_create(pool->kind == POOL_DEVICE ? SHARED_POOL : SHARED_HOST_POOL,
                               pool->device, sim_device_address_bytes(), &file, &page);
    if (result != CUDA_SUCCESS) {
        free(all);
        return result;
    }
    result = attach(pool, file, &page);
    if (result != CUDA_SUCCESS) {
        close(file);
        free(all);
        return result;
    }
    *all = (struct sim_range){
        .start = sim_pool_file_start(pool->file),
        .bytes = sim_pool_file_bytes(pool->file),
    };
    sim_heap_return(&pool->file->addresses, all);
    return CUDA_SUCCESS;
}

CUresult sim_pool_file_import(struct sim_pool *pool, int file,
                              const struct sim_shared_page *page)
{
    int own = fcntl(file, F_DUPFD_CLOEXEC, 0); /* the caller may close his */
    CUresult result;

    if (own < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    result = attach(pool, own, page);
    if (result != CUDA_SUCCESS) {
        close(own);
        return result;
    }
    pool->file->is_imported = true;
    pool->file->imports = 1;
    return CUDA_SUCCESS;
}

void sim_pool_file_close(struct sim_pool_file *file)
{
    struct sim_range *free_range = sim_ranges_after(&file->addresses.free, 0);

    release_area(file->area);
    close(file->file);
    free(free_range); /* one free range, or none for an import */
    free(file);
}

/* --- the memory --- */

/* Charge memory to a device, or to the host. */
static bool charge(const struct sim_pool_file *file, size_t bytes)
{
    if (file->kind == POOL_DEVICE)
        return sim_device_charge(&sim_devices[file->device], bytes);
    if (!sim_block_fits_host(bytes, file->kind == POOL_MANAGED))
        return false;
    sim_mapped_bytes += bytes;
    return true;
}

static void refund(const struct sim_pool_file *file, size_t bytes)
{
    if (file->kind == POOL_DEVICE)
        sim_device_refund(&sim_devices[file->device], bytes);
    else
        sim_mapped_bytes -= bytes;
}

struct sim_range *sim_pool_file_take(struct sim_pool_file *file, size_t bytes)
{
    struct sim_range *range;

    if (!charge(file, bytes))
        return NULL;
    range = sim_heap_take(&file->addresses, bytes);
    if (!range)
        refund(file, bytes);
    return range;
}

/* If other processes may have the file, its pages stay: such a process may still use
 * memory that was freed here, as memory on a real device stays valid for it. */
void sim_pool_file_return(struct sim_pool_file *file, struct sim_range *range)
{
    if (!file->is_exported) {
        int dropped = fallocate(file->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                (off_t)(range->start - sim_pool_file_start(file)),
                                (off_t)range->bytes);
        (void)dropped;
    }
    refund(file, range->bytes);
    sim_heap_return(&file->addresses, range);
}
