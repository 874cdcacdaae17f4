/* hash.h -- hashing with a number that nobody outside of the process knows.
 *
 * Addresses and places of a log, handles of another process and text of a module are keys
 * that others choose. With a hash that they know, they could choose keys that all belong
 * into one place of a table, and each lookup would walk past all of them.
 */
#ifndef TARN_BASE_HASH_H
#define TARN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The number of this process, drawn at its first use. It is odd, and the products of it and
 * of numbers that follow each other are spread evenly. A table of 2^n places uses the top n
 * bits of the product: the lower ones depend on the lower bits of the key alone. */
uint64_t tarn__hash_factor(void);

/* A hash of bytes; all bits of it are as good. */
uint64_t tarn__hash_bytes(const void *bytes, size_t count);

#endif
