/* binary_chunk.c -- the intact rows and records of a chunk.
 *
 * Nothing before the end of a log can be trusted: the process may have been killed
 * between two stores, and a ring writes over what it had. A check tells what is intact.
 */
#include "trace/binary_chunk.h"

enum tarn__binary_chunk_state tarn__binary_chunk_judge(
    const struct tarn__binary_chunk *chunk, uint64_t id)
{
    static const char none[sizeof chunk->magic];

    if (memcmp(chunk->magic, none, sizeof none) == 0)
        return TARN__BINARY_CHUNK_UNUSED;
    if (memcmp(chunk->magic, "TCHK", sizeof chunk->magic) != 0 || chunk->id != id ||
        chunk->crc !=
            tarn__binary_crc(0, chunk, offsetof(struct tarn__binary_chunk, crc)))
        return TARN__BINARY_CHUNK_DAMAGED;
    return TARN__BINARY_CHUNK_VALID;
}

static bool is_unused(const struct tarn__binary_row *row)
{
    static const struct tarn__binary_row unused;

    return row->check == 0 && memcmp(row, &unused, sizeof unused) == 0;
}

size_t tarn__binary_chunk_rows(const unsigned char *chunk, size_t bytes, bool is_reused,
                               struct tarn__binary_row *rows, uint64_t *torn)
{
    const struct tarn__binary_chunk *header = (const void *)chunk;
    const struct tarn__binary_row *all = (const void *)(chunk + sizeof *header);
    uint64_t seed = tarn__binary_seed(header->id, header->number), doubtful = 0;
    uint64_t last_ns = header->start_ns;
    size_t count = 0;

    for (size_t i = 0; i < (bytes - sizeof *header) / sizeof *all; i++) {
        if (is_unused(&all[i]))
            continue;
        if (all[i].check != tarn__binary_check(seed, i, &all[i])) {
            doubtful++;
            continue;
        }
        *torn += doubtful;
        doubtful = 0;
        rows[count] = all[i];
        if (rows[count].action == TARN__BINARY_THREAD)
            rows[count].time_ns = last_ns;
        last_ns = rows[count++].time_ns;
    }
    *torn += is_reused ? 0 : doubtful;
    return count;
}

bool tarn__binary_chunk_next(struct tarn__binary_walk *walk,
                             const struct tarn__binary_record **record,
                             const unsigned char **payload)
{
    static const struct tarn__binary_record unused;
    const struct tarn__binary_chunk *header = (const void *)walk->chunk;

    if (walk->at == 0)
        walk->at = sizeof *header;
    while (walk->bytes - walk->at >= sizeof unused) {
        const struct tarn__binary_record *found = (const void *)(walk->chunk + walk->at);
        size_t left = walk->bytes - walk->at - sizeof unused;
        if (memcmp(found, &unused, sizeof unused) == 0)
            return false;
        if (found->bytes > left) {
            walk->doubtful++;
            return false;
        }
        size_t space = ((size_t)found->bytes + 7) & ~(size_t)7;
        walk->at += sizeof unused + (space < left ? space : left);
        *payload = (const unsigned char *)(found + 1);
        if (found->check == tarn__binary_record_check(header, found, *payload)) {
            walk->torn += walk->doubtful;
            walk->doubtful = 0;
            *record = found;
            return true;
        }
        walk->doubtful++;
    }
    return false;
}
