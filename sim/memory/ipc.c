/* ipc.c -- legacy IPC: a handle is an id, looked up in the process that made it.
 *
 * Each exporting process has a registry, a memfd with one slot for each exported block.
 * A handle names the process, its registry and a slot, and holds the id that the slot
 * must have. Ids are random and never reused, so a handle whose block was freed finds
 * nothing. The importer reads the slot and maps that part of the exporter's device
 * memory (foreign_file.h).
 */
#define _GNU_SOURCE
#include "sim/memory/ipc.h"
#include "sim/core/context.h"
#include "sim/core/device.h"
#include "sim/core/foreign_file.h"
#include "sim/memory/block.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDLE_MAGIC 0x316d69736e726174u /* "tarnsim1" */
enum { SLOTS_MAX = 1 << 20 };

/* The content of a handle. */
struct encoding {
    uint64_t magic;
    uint64_t id;
    uint64_t registry_inode;
    int32_t process;
    int32_t registry_file; /* the descriptor's number in that process */
    uint32_t slot;
    uint32_t zero; /* otherwise padding would make two handles of one block differ */
};
_Static_assert(sizeof(struct encoding) <= sizeof(CUipcMemHandle), "it fits a handle");

/* An entry of the registry. */
struct slot {
    uint64_t id; /* 0: unused */
    uint64_t device_inode;
    uint64_t offset; /* in the device's memory */
    uint64_t bytes;
    int32_t device; /* its number */
    int32_t device_file;
};

static struct {
    int file; /* 0: none yet */
    uint64_t inode;
    uint32_t slots; /* ever used */
    uint32_t *free; /* the unused ones */
    uint32_t free_count;
} registry;

static struct sim_block *opened; /* all BLOCK_OPENED */

struct deferred {
    struct deferred *next;
    CUdevice device;
    struct sim_range *memory;
};
static struct deferred *deferred;

/* --- exporting --- */

static bool inode_of(int file, uint64_t *out)
{
    struct stat status;

    if (fstat(file, &status) != 0)
        return false;
    *out = status.st_ino;
    return true;
}

static bool open_registry(void)
{
    int file;

    if (registry.file > 0)
        return true;
    file = memfd_create("tarn-sim-registry", MFD_CLOEXEC);
    if (file < 0)
        return false;
    if (file == 0 || !inode_of(file, &registry.inode)) {
        close(file);
        return false;
    }
    registry.file = file;
    return true;
}

static bool write_slot(uint32_t number, const struct slot *slot)
{
    return pwrite(registry.file, slot, sizeof *slot, (off_t)(number * sizeof *slot)) ==
           (ssize_t)sizeof *slot;
}

/* Find an unused slot number, and reserve capacity to return it. */
static bool allocate_slot(uint32_t *out)
{
    uint32_t *resized;

    if (registry.free_count > 0) {
        *out = registry.free[--registry.free_count];
        return true;
    }
    if (registry.slots == SLOTS_MAX)
        return false;
    resized = realloc(registry.free, (registry.slots + 1) * sizeof *resized);
    if (!resized)
        return false;
    registry.free = resized;
    *out = registry.slots++;
    return true;
}

static CUresult export_block(struct sim_block *block)
{
    struct sim_device *device = &sim_devices[block->device];
    struct slot slot = {
        .offset = block->range.start - device->base,
        .bytes = block->range.bytes,
        .device = device->number,
        .device_file = device->file,
    };
    uint32_t number;

    if (!open_registry() || !inode_of(device->file, &slot.device_inode) ||
        getrandom(&slot.id, sizeof slot.id, 0) != (ssize_t)sizeof slot.id)
        return CUDA_ERROR_OPERATING_SYSTEM;
    slot.id |= 1; /* not 0 */
    if (!allocate_slot(&number))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!write_slot(number, &slot)) {
        registry.free[registry.free_count++] = number;
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    block->share_id = slot.id;
    block->share_slot = number;
    block->was_shared = true;
    return CUDA_SUCCESS;
}

CUresult sim_ipc_get_handle(struct sim_block *block, CUipcMemHandle *handle)
{
    CUresult result = CUDA_SUCCESS;
    struct encoding encoding;

    if (!block->share_id)
        result = export_block(block);
    if (result != CUDA_SUCCESS)
        return result;
    encoding = (struct encoding){
        .magic = HANDLE_MAGIC,
        .id = block->share_id,
        .registry_inode = registry.inode,
        .process = (int32_t)getpid(),
        .registry_file = registry.file,
        .slot = block->share_slot,
    };
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &encoding, sizeof encoding);
    return CUDA_SUCCESS;
}

static void unlist_opened(struct sim_block *block)
{
    struct sim_block **link = &opened;

    while (*link != block)
        link = &(*link)->next_opened;
    *link = block->next_opened;
}

void sim_ipc_forget(struct sim_block *block)
{
    struct slot none = {0};

    if (block->kind == BLOCK_OPENED) {
        unlist_opened(block);
    } else if (block->share_id && write_slot(block->share_slot, &none)) {
        registry.free[registry.free_count++] = block->share_slot;
    }
}

/* --- deferred frees ---
 *
 * An importer has a lock on the bytes that it has mapped, in the device's file. The
 * system drops the lock with the last descriptor of the mapping, or with the process. */

static bool is_open_in_importer(const struct sim_device *device,
                                const struct sim_range *memory)
{
    struct flock lock = {
        .l_type = F_WRLCK,
        .l_whence = SEEK_SET,
        .l_start = (off_t)(memory->start - device->base),
        .l_len = (off_t)memory->bytes,
    };

    return fcntl(device->file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool sim_ipc_defer_free(CUdevice device, struct sim_range *memory)
{
    struct deferred *entry;

    if (!is_open_in_importer(&sim_devices[device], memory))
        return false;
    entry = malloc(sizeof *entry);
    if (!entry)
        return false; /* without that its bytes may be reused */
    *entry = (struct deferred){deferred, device, memory};
    deferred = entry;
    return true;
}

void sim_ipc_free_deferred(void)
{
    struct deferred **link = &deferred;

    while (*link) {
        struct deferred *entry = *link;
        struct sim_device *device = &sim_devices[entry->device];
        if (is_open_in_importer(device, entry->memory)) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        if (entry->memory->bytes >= SIM_PIECE_BYTES)
            sim_device_drop_pieces(device, entry->memory);
        sim_device_return(device, entry->memory);
        free(entry);
    }
}

/* --- importing --- */

static bool read_slot(const struct encoding *encoding, struct slot *out)
{
    int file = sim_foreign_file_open(encoding->process, encoding->registry_file,
                                     encoding->registry_inode, "tarn-sim-registry");
    bool good;

    if (file < 0)
        return false;
    good = pread(file, out, sizeof *out, (off_t)(encoding->slot * sizeof *out)) ==
               (ssize_t)sizeof *out &&
           out->id == encoding->id;
    close(file);
    return good && out->bytes > 0 && out->offset <= SIZE_MAX / 2 &&
           out->bytes <= SIZE_MAX / 2 && sim_device_of(out->device) >= 0;
}

/* Show the owner that the block is open. A second lock of the same bytes adds nothing.
 */
static bool lock_slot(int file, const struct slot *slot)
{
    struct flock lock = {
        .l_type = F_RDLCK,
        .l_whence = SEEK_SET,
        .l_start = (off_t)slot->offset,
        .l_len = (off_t)slot->bytes,
    };

    return fcntl(file, F_OFD_SETLK, &lock) == 0;
}

/* Map the pages that hold the block. *inside is the offset of the block, *lock_file the
 * descriptor with the lock. */
static void *map_slot(const struct encoding *encoding, const struct slot *slot,
                      size_t *bytes, size_t *inside, int *lock_file)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int file = sim_foreign_file_open(encoding->process, slot->device_file,
                                     slot->device_inode, "tarn-sim-device");
    struct stat status;
    void *mapping = MAP_FAILED;

    if (file < 0)
        return NULL;
    *inside = slot->offset % page;
    *bytes = (*inside + slot->bytes + page - 1) / page * page;
    if (fstat(file, &status) == 0 &&
        slot->offset + slot->bytes <= (uint64_t)status.st_size && lock_slot(file, slot))
        mapping = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                       (off_t)(slot->offset - *inside));
    if (mapping == MAP_FAILED) {
        close(file);
        return NULL;
    }
    *lock_file = file;
    return mapping;
}

/* Return true if the process is gone, or a zombie: a zombie has no program any more. */
static bool has_process_ended(int32_t process)
{
    char path[32], program[1];

    snprintf(path, sizeof path, "/proc/%d/exe", (int)process);
    return readlink(path, program, sizeof program) < 0;
}

static CUresult open_block(const struct encoding *encoding, CUdeviceptr *out)
{
    struct slot slot;
    size_t inside;
    struct sim_block *block;

    if (!read_slot(encoding, &slot))
        return has_process_ended(encoding->process) ? CUDA_ERROR_INVALID_HANDLE
                                                    : CUDA_ERROR_INVALID_VALUE;
    block = sim_block_new(sim_context_current(), BLOCK_OPENED, 0, slot.bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->file = -1;
    block->mapping =
        map_slot(encoding, &slot, &block->mapping_bytes, &inside, &block->file);
    if (!block->mapping) {
        free(block);
        return CUDA_ERROR_MAP_FAILED;
    }
    block->device = sim_device_of(slot.device);
    block->share_id = slot.id;
    block->opens = 1;
    block->range.start = (uintptr_t)block->mapping + inside;
    block->next_opened = opened;
    opened = block;
    sim_block_insert(block);
    *out = block->range.start;
    return CUDA_SUCCESS;
}

CUresult sim_ipc_open_handle(CUdeviceptr *out, const CUipcMemHandle *handle,
                             unsigned flags)
{
    struct encoding encoding;
    struct sim_block *block = opened;

    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&encoding, handle, sizeof encoding);
    if (encoding.magic != HANDLE_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (encoding.process == (int32_t)getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* the real driver rejects the exporter too */
    while (block &&
           (block->share_id != encoding.id || block->context != sim_context_current()))
        block = block->next_opened;
    if (!block)
        return open_block(&encoding, out);
    block->opens++;
    *out = block->range.start;
    return CUDA_SUCCESS;
}
