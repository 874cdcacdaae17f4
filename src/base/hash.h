/* hash.h -- hashing with a number that only this process knows.
 *
 * Others choose some keys: the addresses and places of a log, the handles of another
 * process, the text of a module. If they knew the hash, they could choose keys that all
 * belong into one place of a table, and each lookup would walk past all of them.
 */
#ifndef TARN_BASE_HASH_H
#define TARN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Return this process's number, which is odd; its first use draws it. Products of it and
 * numbers that follow each other are spread evenly. */
uint64_t tarn__hash_factor(void);

/* Hash a number. A table of 2^n places uses the top n bits. One product spreads keys of some
 * distances badly, by chance (2 MiB, say), so its halves are mixed and multiplied again. */
static inline uint64_t tarn__hash_number(uint64_t factor, uint64_t key)
{
    uint64_t product = key * factor;

    return (product ^ product >> 32) * 0x9e3779b97f4a7c15u;
}

/* Hash bytes. All bits of the result are equally good. */
uint64_t tarn__hash_bytes(const void *bytes, size_t count);

#endif
