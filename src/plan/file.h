/* file.h -- the file format of plans, version 1. Numbers are little-endian.
 *
 *   offset  bytes
 *        0      8   TARNPLAN
 *        8      4   version: 1
 *       12      4   bytes of a quantum: 512
 *       16      8   slots, at most TARN__PLAN_SLOTS_MAX
 *       24      4   operations
 *       28      4   streams
 *       32      4   threads
 *       36      4   lag, in operations
 *       40      4   price of a wait, in quanta
 *       44      4   height, in quanta
 *       48      8   peak live, in bytes
 *       56      8   checksum (FNV-1a, 64 bits) of bytes 0 to 55 and of the slots
 *       64   28 n   slots: start, end, quanta, offset, stream, free_stream and thread of
 *                   plan.h, 4 bytes each
 *
 * A reader takes no memory for slots that it has not read, whatever the header claims.
 * It checks every invariant of plan.h. The checksum finds damage, not forgery.
 */
#ifndef TARN_PLAN_FILE_H
#define TARN_PLAN_FILE_H

#include "plan/plan.h"

enum {
    TARN__FILE_VERSION = 1,
    TARN__FILE_HEADER_BYTES = 64,
    TARN__FILE_CHECKSUM_AT = 56,
    TARN__FILE_SLOT_BYTES = 28
};

#define TARN__FILE_CHECKSUM_START 0xcbf29ce484222325u

/* Continue a checksum. */
static inline uint64_t tarn__file_checksum(uint64_t sum, const unsigned char *bytes,
                                           size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

#endif
