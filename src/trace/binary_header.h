/* binary_header.h -- the header of a binary log: the process that writes it. */
#ifndef TARN_TRACE_BINARY_HEADER_H
#define TARN_TRACE_BINARY_HEADER_H

#include "trace/binary.h"

/* A header as it is in the file. */
struct tarn__binary_head {
    struct tarn__binary_header header;
    char text[TARN__BINARY_HEADER_BYTES - sizeof(struct tarn__binary_header)];
};

/* Describe this process: host, command line, versions, and the GPUs if the driver is open.
 * Time 0 of the log is now; `made_ns` is that time of CLOCK_MONOTONIC. */
void tarn__binary_header_describe(struct tarn__binary_head *head, uint64_t made_ns);

/* Begin a file: its id, the process ids, and then the CRC. */
void tarn__binary_header_begin(struct tarn__binary_head *head);

#endif
