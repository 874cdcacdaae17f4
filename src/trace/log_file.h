/* log_file.h -- the file of a log. */
#ifndef TARN_TRACE_LOG_FILE_H
#define TARN_TRACE_LOG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tarn__log_file {
    int descriptor; /* -1: there is none */
    uint64_t bytes; /* written so far */
};

/* Create a file, or empty an existing one. On failure errno has the reason. */
bool tarn__log_file_open(const char *path, struct tarn__log_file *out);

/* Append whole lines. On failure errno has the reason. The file then ends with a line that
 * says so, if it is a regular file, and nothing may be appended to it. */
bool tarn__log_file_append(struct tarn__log_file *file, const char *lines, size_t count);

/* Close the file, if there is one. On failure errno has the reason: some file systems
 * report only here that they had no space. */
bool tarn__log_file_close(struct tarn__log_file *file);

#endif
