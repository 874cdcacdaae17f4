/* binary_file.h -- the file of a binary log: space in it, and its parts in memory. */
#ifndef TARN_TRACE_BINARY_FILE_H
#define TARN_TRACE_BINARY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tarn__binary_file {
    int descriptor;     /* -1: there is none */
    uint64_t allocated; /* bytes for which the file system has reserved space */
    uint64_t filled;    /* bytes into which something was written, or zeros */
};

/* Create a file in the place of an existing one. On failure errno has the reason. */
bool tarn__binary_file_open(const char *path, struct tarn__binary_file *out);

/* Write the first bytes of a new file. On failure errno has the reason. */
bool tarn__binary_file_begin(struct tarn__binary_file *file, const void *bytes,
                             size_t count);
/* Reserve space up to `end`, and fill it with zeros. On failure errno has the reason. */
bool tarn__binary_file_reserve(struct tarn__binary_file *file, uint64_t end);

/* Return true if the file still has all bytes up to `end`: no other program has cut it. */
bool tarn__binary_file_has(const struct tarn__binary_file *file, uint64_t end);

/* Map bytes, which the file need not have yet. A forked child does not have the memory.
 * NULL: errno has the reason. */
void *tarn__binary_file_map(const struct tarn__binary_file *file, uint64_t offset,
                            size_t bytes);
void tarn__binary_file_unmap(void *memory, size_t bytes);
/* Make the pages of mapped bytes for which there is space. A store into them is no SIGBUS
 * then. On failure errno has the reason. */
bool tarn__binary_file_make(const struct tarn__binary_file *file, uint64_t offset,
                            void *memory, size_t bytes);

/* Read or write all of `count` bytes. On failure errno has the reason. */
bool tarn__binary_file_read(const struct tarn__binary_file *file, uint64_t offset,
                            void *bytes, size_t count);
bool tarn__binary_file_write(const struct tarn__binary_file *file, uint64_t offset,
                             const void *bytes, size_t count);

/* Return the space behind `end` to the file system. */
bool tarn__binary_file_trim(struct tarn__binary_file *file, uint64_t end);
/* Close the file, if there is one. On failure errno has the reason. */
bool tarn__binary_file_close(struct tarn__binary_file *file);

#endif
