/* event_share.c -- the page of an event that other processes may open. */
#define _GNU_SOURCE
#include "sim/work/event_share.h"
#include "sim/core/foreign_file.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EVENT_MAGIC 0x346d69736e726174u /* "tarnsim4" */
#define FILE_NAME "tarn-sim-event"

enum {
    PAGE_BYTES = 4096,
    RECORDS = 64, /* kept separately: a record is complete when the one 64 later is */
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    /* interval at which a waiting thread checks that the other process lives */
    POLL_INTERVAL_NS = 20000000,
};

/* The shared page. Any process that has it may write anything into it, so a process
 * trusts it only for whether a record is complete. */
struct page {
    uint64_t magic;
    uint64_t id;
    atomic_ullong recorded; /* the last record's number */
    atomic_uint changes;    /* counts completed records; a futex */
    struct {
        atomic_ullong done; /* the highest completed number */
        atomic_int process; /* the process of the last record here */
    } records[RECORDS];
};
_Static_assert(sizeof(struct page) <= PAGE_BYTES, "it fits a page");

struct sim_event_share {
    unsigned references;
    int file; /* of the creating process; else -1 */
    uint64_t inode;
    struct page *page;
};

/* The content of a handle. */
struct encoding {
    uint64_t magic;
    uint64_t id;
    uint64_t inode;
    int32_t process;
    int32_t file; /* the descriptor's number in that process */
};
_Static_assert(sizeof(struct encoding) <= sizeof(CUipcEventHandle), "it fits a handle");

/* --- creation and destruction --- */

/* Create a share for `file`, which the caller keeps. NULL: no memory. */
static struct sim_event_share *map_file(int file)
{
    struct sim_event_share *share = calloc(1, sizeof *share);
    void *page;

    if (!share)
        return NULL;
    page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        free(share);
        return NULL;
    }
    share->references = 1;
    share->file = -1;
    share->page = page;
    return share;
}

static bool fill_file(int file, uint64_t id)
{
    struct page page = {.magic = EVENT_MAGIC, .id = id};

    return ftruncate(file, PAGE_BYTES) == 0 &&
           pwrite(file, &page, sizeof page, 0) == (ssize_t)sizeof page &&
           fcntl(file, F_ADD_SEALS, SEALS) == 0;
}

CUresult sim_event_share_create(struct sim_event_share **out)
{
    int file = memfd_create(FILE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct sim_event_share *share;
    struct stat status;
    uint64_t id;

    if (file < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id || !fill_file(file, id) ||
        fstat(file, &status) != 0) {
        close(file);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    share = map_file(file);
    if (!share) {
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    share->file = file;
    share->inode = status.st_ino;
    *out = share;
    return CUDA_SUCCESS;
}

CUresult sim_event_share_open(const CUipcEventHandle *handle,
                              struct sim_event_share **out)
{
    struct sim_event_share *share = NULL;
    struct encoding encoding;
    int file, seals;

    memcpy(&encoding, handle, sizeof encoding);
    if (encoding.magic != EVENT_MAGIC)
        return CUDA_ERROR_MAP_FAILED;
    if (encoding.process == (int32_t)getpid())
        /* the real driver rejects the creating process too */
        return CUDA_ERROR_INVALID_CONTEXT;
    file =
        sim_foreign_file_open(encoding.process, encoding.file, encoding.inode, FILE_NAME);
    if (file < 0)
        return CUDA_ERROR_MAP_FAILED;
    seals = fcntl(file, F_GET_SEALS);
    if (seals >= 0 && (seals & SEALS) == SEALS && lseek(file, 0, SEEK_END) == PAGE_BYTES)
        share = map_file(file);
    close(file);
    if (!share)
        return CUDA_ERROR_MAP_FAILED;
    if (share->page->magic != EVENT_MAGIC || share->page->id != encoding.id) {
        sim_event_share_release(share);
        return CUDA_ERROR_MAP_FAILED;
    }
    *out = share;
    return CUDA_SUCCESS;
}

void sim_event_share_retain(struct sim_event_share *share)
{
    share->references++;
}

void sim_event_share_release(struct sim_event_share *share)
{
    if (--share->references > 0)
        return;
    munmap(share->page, PAGE_BYTES);
    if (share->file >= 0)
        close(share->file);
    free(share);
}

bool sim_event_share_handle(const struct sim_event_share *share, CUipcEventHandle *out)
{
    struct encoding encoding = {
        .magic = EVENT_MAGIC,
        .id = share->page->id,
        .inode = share->inode,
        .process = (int32_t)getpid(),
        .file = share->file,
    };

    if (share->file < 0)
        return false;
    memset(out, 0, sizeof *out);
    memcpy(out, &encoding, sizeof encoding);
    return true;
}

/* --- records --- */

uint64_t sim_event_share_record(struct sim_event_share *share)
{
    uint64_t number = atomic_fetch_add(&share->page->recorded, 1) + 1;

    atomic_store(&share->page->records[number % RECORDS].process, (int)getpid());
    return number;
}

static bool has_reached(const struct sim_event_share *share, uint64_t number)
{
    return number == 0 ||
           atomic_load(&share->page->records[number % RECORDS].done) >= number;
}

void sim_event_share_complete(struct sim_event_share *share, uint64_t number)
{
    struct page *page = share->page;
    unsigned long long before = atomic_load(&page->records[number % RECORDS].done);

    while (before < number && !atomic_compare_exchange_weak(
                                  &page->records[number % RECORDS].done, &before, number))
        ;
    atomic_fetch_add(&page->changes, 1);
    syscall(SYS_futex, &page->changes, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

uint64_t sim_event_share_last(const struct sim_event_share *share)
{
    return atomic_load(&share->page->recorded);
}

/* Return true if the process is gone, or a zombie. */
static bool has_process_ended(int process)
{
    char path[64], target[8];

    if (process <= 0)
        return false; /* it is about to store its id */
    snprintf(path, sizeof path, "/proc/%d/exe", process);
    return readlink(path, target, sizeof target) < 0 && errno == ENOENT;
}

bool sim_event_share_is_done(struct sim_event_share *share, uint64_t number)
{
    if (has_reached(share, number))
        return true;
    if (!has_process_ended(atomic_load(&share->page->records[number % RECORDS].process)))
        return false;
    sim_event_share_complete(share, number);
    return true;
}

void sim_event_share_wait(struct sim_event_share *share, uint64_t number)
{
    unsigned changes = atomic_load(&share->page->changes);

    if (!has_reached(share, number))
        syscall(SYS_futex, &share->page->changes, FUTEX_WAIT, changes,
                &(struct timespec){0, POLL_INTERVAL_NS}, NULL, 0);
}
