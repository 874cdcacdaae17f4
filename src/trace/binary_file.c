/* binary_file.c -- the file of a binary log: space in it, and its parts in memory.
 *
 * What a thread stores in a mapped file is in the file, whatever happens to the process.
 * A store into a page without space on the disk would be SIGBUS. So the file has its space,
 * and the pages of a part are made, before a thread stores into it.
 *
 * The file is filled with zeros before its pages are made. A write of 64 KiB makes large
 * pages where the kernel has them. Page faults alone make small ones, one after another.
 *
 * Another program that cuts the file takes pages away that are mapped. The next part that
 * is mapped fails then, but a store before that ends the process. So a log that is written
 * may be renamed and removed, and must not be cut. For the same reason a writer never
 * empties an existing file: another writer may have it mapped. It removes that file and
 * creates a new one.
 */
#define _GNU_SOURCE
#include "trace/binary_file.h"
#include "base/cancellation.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { EXTENT_BYTES = 1 << 20, FILL_BYTES = 64 << 10, TRIES = 100 };

/* Remove an existing file. `real` gets its path, without links, and `*mode` its
 * permissions. */
static bool remove_old(const char *path, char real[PATH_MAX], mode_t *mode)
{
    struct stat old;

    if (stat(path, &old) != 0) {
        snprintf(real, PATH_MAX, "%s", path);
        return errno == ENOENT;
    }
    if (!S_ISREG(old.st_mode)) { /* it cannot be mapped */
        errno = EINVAL;
        return false;
    }
    *mode = old.st_mode & 0777;
    return realpath(path, real) && (unlink(real) == 0 || errno == ENOENT);
}

bool tarn__binary_file_open(const char *path, struct tarn__binary_file *out)
{
    char real[PATH_MAX];
    mode_t mode = 0;
    int descriptor = -1;

    *out = (struct tarn__binary_file){.descriptor = -1};
    for (int i = 0; i < TRIES && descriptor < 0; i++) {
        if (!remove_old(path, real, &mode))
            return false;
        descriptor = open(real, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 && errno != EEXIST) /* another writer has created it */
            return false;
    }
    if (descriptor >= 0 && mode != 0 && fchmod(descriptor, mode) != 0) {
        int why = errno;
        close(descriptor);
        errno = why;
        return false;
    }
    out->descriptor = descriptor;
    return descriptor >= 0;
}

static int allocate(int descriptor, uint64_t offset, uint64_t bytes)
{
    TARN__NOT_CANCELLED;
    int why;

    do
        why = posix_fallocate(descriptor, (off_t)offset, (off_t)bytes);
    while (why == EINTR);
    return why;
}

/* Extend the space up to `end` or more. */
static bool extend(struct tarn__binary_file *file, uint64_t end)
{
    uint64_t needed = end - file->allocated;
    uint64_t bytes = (needed + EXTENT_BYTES - 1) / EXTENT_BYTES * EXTENT_BYTES;
    int why = allocate(file->descriptor, file->allocated, bytes);

    if (why != 0) {
        bytes = needed; /* there may be space for less than an extent */
        why = allocate(file->descriptor, file->allocated, bytes);
    }
    if (why != 0) {
        errno = why;
        return false;
    }
    file->allocated += bytes;
    return true;
}

bool tarn__binary_file_has(const struct tarn__binary_file *file, uint64_t end)
{
    struct stat now;

    return fstat(file->descriptor, &now) == 0 && (uint64_t)now.st_size >= end;
}

/* The bytes from the begin of a page to an offset or an address. */
static size_t within_page(uint64_t place)
{
    return (size_t)(place % (uint64_t)sysconf(_SC_PAGESIZE));
}

/* Make the pages of a mapping. A kernel without that call makes them at the stores. */
static bool make_pages(void *memory, size_t bytes)
{
    return madvise(memory, bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
}

void *tarn__binary_file_map(const struct tarn__binary_file *file, uint64_t offset,
                            size_t bytes)
{
    size_t before = within_page(offset);
    char *memory = mmap(NULL, bytes + before, PROT_READ | PROT_WRITE, MAP_SHARED,
                        file->descriptor, (off_t)(offset - before));
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, bytes + before, MADV_DONTFORK);
    return memory + before;
}

bool tarn__binary_file_make(const struct tarn__binary_file *file, uint64_t offset,
                            void *memory, size_t bytes)
{
    size_t before = within_page(offset);

    if (tarn__binary_file_has(file, offset + bytes) &&
        make_pages((char *)memory - before, bytes + before))
        return true;
    errno = EIO;
    return false;
}

void tarn__binary_file_unmap(void *memory, size_t bytes)
{
    size_t before = within_page((uintptr_t)memory);

    munmap((char *)memory - before, bytes + before);
}

bool tarn__binary_file_read(const struct tarn__binary_file *file, uint64_t offset,
                            void *bytes, size_t count)
{
    TARN__NOT_CANCELLED;
    char *at = bytes;

    while (count > 0) {
        ssize_t done = pread(file->descriptor, at, count, (off_t)offset);
        if (done == 0)
            errno = EIO;
        if (done == 0 || (done < 0 && errno != EINTR))
            return false;
        if (done > 0) {
            at += done;
            offset += (uint64_t)done;
            count -= (size_t)done;
        }
    }
    return true;
}

bool tarn__binary_file_write(const struct tarn__binary_file *file, uint64_t offset,
                             const void *bytes, size_t count)
{
    TARN__NOT_CANCELLED;
    const char *at = bytes;

    while (count > 0) {
        ssize_t done = pwrite(file->descriptor, at, count, (off_t)offset);
        if (done < 0 && errno != EINTR)
            return false;
        if (done > 0) {
            at += done;
            offset += (uint64_t)done;
            count -= (size_t)done;
        }
    }
    return true;
}

/* Write zeros up to `end` or more: whole units of FILL_BYTES, where there is space. */
static bool fill(struct tarn__binary_file *file, uint64_t end)
{
    static char zeros[FILL_BYTES]; /* not const: the library's file need not have them */

    while (file->filled < end) {
        uint64_t next = (file->filled / FILL_BYTES + 1) * FILL_BYTES;
        if (next > file->allocated)
            next = file->allocated;
        if (!tarn__binary_file_write(file, file->filled, zeros,
                                     (size_t)(next - file->filled)))
            return false;
        file->filled = next;
    }
    return true;
}

/* They come before any space: a process that is killed meanwhile leaves a log. */
bool tarn__binary_file_begin(struct tarn__binary_file *file, const void *bytes,
                             size_t count)
{
    if (!tarn__binary_file_write(file, 0, bytes, count) || !extend(file, count))
        return false;
    file->filled = count;
    return true;
}

bool tarn__binary_file_reserve(struct tarn__binary_file *file, uint64_t end)
{
    if (end <= file->filled)
        return true;
    if (!tarn__binary_file_has(file, file->allocated)) { /* another program has cut it */
        errno = EIO;
        return false;
    }
    return (end <= file->allocated || extend(file, end)) && fill(file, end);
}

bool tarn__binary_file_trim(struct tarn__binary_file *file, uint64_t end)
{
    if (file->descriptor < 0 || end >= file->allocated)
        return true;
    if (ftruncate(file->descriptor, (off_t)end) != 0)
        return false;
    file->allocated = end;
    if (file->filled > end)
        file->filled = end;
    return true;
}

bool tarn__binary_file_close(struct tarn__binary_file *file)
{
    bool closed = file->descriptor < 0 || close(file->descriptor) == 0;

    file->descriptor = -1;
    return closed;
}
