/* signature.h -- a hash of the requests of a step, in order. */
#ifndef TARN_POOL_FOLLOW_SIGNATURE_H
#define TARN_POOL_FOLLOW_SIGNATURE_H

#include <stdint.h>

/* Return the signature with one more word. It begins as 0. */
static inline uint64_t tarn__signature_add(uint64_t signature, uint64_t word)
{
    uint64_t mixed = (signature ^ word) * 0x9e3779b97f4a7c15u;

    return mixed ^ mixed >> 29;
}

#endif
