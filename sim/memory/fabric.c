/* fabric.c -- fabric handles: 64 bytes that name physical memory on every node.
 *
 * On a real machine a daemon of each node knows the memory, and a process needs an IMEX
 * channel. Here all nodes are processes of one machine: a handle names a file of its
 * exporter, which the importer opens through /proc (foreign_file.h). A process is on the
 * node of its option `node`, whose devices have UUIDs of their own.
 *
 * A handle is stale once its exporter has closed the file: it has released and unmapped
 * the memory, or has ended. Memory that is imported already stays.
 */
#include "sim/memory/fabric.h"
#include "sim/core/foreign_file.h"
#include "sim/core/options.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDLE_MAGIC 0x336d69736e726174u /* "tarnsim3" */

/* The content of a handle; the rest of the 64 bytes is 0. */
struct encoding {
    uint64_t magic;
    uint64_t id;    /* of the file's page */
    uint64_t inode; /* of the file */
    int32_t process;
    int32_t file; /* the descriptor's number in that process */
};
_Static_assert(sizeof(struct encoding) <= sizeof(CUmemFabricHandle), "it fits a handle");

bool sim_fabric_has_channel(void)
{
    return sim_options.fabric == SIM_FABRIC_ON;
}

CUresult sim_fabric_export(int file, uint64_t id, CUmemFabricHandle *out)
{
    struct encoding encoding = {
        .magic = HANDLE_MAGIC, .id = id, .process = (int32_t)getpid(), .file = file};
    struct stat status;

    if (fstat(file, &status) != 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    encoding.inode = status.st_ino;
    memset(out, 0, sizeof *out);
    memcpy(out, &encoding, sizeof encoding);
    return CUDA_SUCCESS;
}

CUresult sim_fabric_open(const CUmemFabricHandle *handle, int *file,
                         struct sim_shared_page *page)
{
    struct encoding encoding;

    memcpy(&encoding, handle, sizeof encoding);
    if (encoding.magic != HANDLE_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    int opened = sim_foreign_file_open(encoding.process, encoding.file, encoding.inode,
                                       "tarn-sim-memory");
    if (opened < 0)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = sim_shared_file_identify(opened, SHARED_MEMORY, page);
    if (result == CUDA_SUCCESS && page->id != encoding.id)
        result = CUDA_ERROR_INVALID_HANDLE; /* another file has that number now */
    if (result != CUDA_SUCCESS) {
        close(opened);
        return result;
    }
    *file = opened;
    return CUDA_SUCCESS;
}
