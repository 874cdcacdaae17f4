/* segment.h -- allocations made for export. */
#ifndef TARN_IPC_SEGMENT_H
#define TARN_IPC_SEGMENT_H

#include <tarn/ipc.h>

/* The place of a segment in the table, and its length. */
struct tarn__segment_name {
    uint32_t slot;
    uint64_t generation;
    tarn_device_ptr base;
    size_t bytes;
};

/* Find the segment around an address; false: none. */
bool tarn__segment_around(tarn_device_ptr address, struct tarn__segment_name *out);

/* Open a descriptor of the segment's memory; close it with tarn__descriptor_close().
 * `bytes_out` is its length. TARN_NOT_FOUND: the segment is gone. */
tarn_status tarn__segment_open(uint32_t slot, uint64_t generation, size_t *bytes_out,
                               int *file_out);

/* Get the fabric handle of the segment's memory. TARN_NOT_SUPPORTED: it has none.
 * TARN_NOT_FOUND: the segment is gone. */
tarn_status tarn__segment_fabric(uint32_t slot, uint64_t generation,
                                 unsigned char out[64]);

size_t tarn__segment_count(void);

#endif
