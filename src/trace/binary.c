/* binary.c -- the checksums of binary logs. */
#include "trace/binary.h"
#include <pthread.h>

enum { TABLES = 4, BITS = 8 };

/* tables[0] has the CRC of each byte, tables[k] that of the byte and k zeros behind it. */
static uint32_t tables[TABLES][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int i = 0; i < BITS; i++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        tables[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int k = 1; k < TABLES; k++)
            tables[k][byte] =
                tables[k - 1][byte] >> 8 ^ tables[0][tables[k - 1][byte] & 255];
}

uint32_t tarn__binary_crc(uint32_t crc, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;

    pthread_once(&once, fill_tables);
    crc = ~crc;
    for (; count >= 4; count -= 4, at += 4) {
        crc ^= (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
               (uint32_t)at[3] << 24;
        crc = tables[3][crc & 255] ^ tables[2][crc >> 8 & 255] ^
              tables[1][crc >> 16 & 255] ^ tables[0][crc >> 24];
    }
    for (; count > 0; count--, at++)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 255];
    return ~crc;
}

uint32_t tarn__binary_record_check(const struct tarn__binary_chunk *chunk,
                                   const struct tarn__binary_record *record,
                                   const void *payload)
{
    uint32_t crc = tarn__binary_crc(0, &chunk->id, sizeof chunk->id);

    crc = tarn__binary_crc(crc, &chunk->number, sizeof chunk->number);
    crc = tarn__binary_crc(crc, &record->bytes, sizeof record->bytes);
    crc = tarn__binary_crc(crc, &record->kind, sizeof record->kind);
    crc = tarn__binary_crc(crc, payload, record->bytes);
    return crc ? crc : 1;
}
