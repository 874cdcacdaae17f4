/* hash.h -- hashing with numbers that only this process knows.
 *
 * Other parties choose some keys: the addresses and places of a log, the handles of
 * another process, the text of a module. If they knew the hash, they could choose keys
 * that all fall into one slot of a table. Each lookup would then walk past all of
 * them.
 */
#ifndef TARN_BASE_HASH_H
#define TARN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Return this process's number, which is odd; its first use draws it. Its products with
 * consecutive numbers are spread evenly. */
uint64_t tarn__hash_factor(void);
/* Make such a number of 64 random bits. */
uint64_t tarn__hash_make_factor(uint64_t bits);

/* Hash a number. A table of 2^n slots uses the top n bits. One product of 64 bits spreads
 * keys of some distances badly: where their low bits are 0, the factor's upper bits are
 * lost. So both halves of the product of 128 bits count, and are multiplied again. */
static inline uint64_t tarn__hash_number(uint64_t factor, uint64_t key)
{
    __extension__ typedef unsigned __int128 uint128;
    uint128 product = (uint128)key * factor;

    return ((uint64_t)(product >> 64) ^ (uint64_t)product) * 0x9e3779b97f4a7c15u;
}

/* Hash bytes with SipHash-1-3 and a key of this process. All bits of the result are
 * equally good. Without the key nobody can choose strings with equal hashes. */
uint64_t tarn__hash_bytes(const void *bytes, size_t count);
/* The same with a key of the caller's. */
uint64_t tarn__hash_sip(const uint64_t key[2], const void *bytes, size_t count);

#endif
