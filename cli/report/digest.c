/* digest.c -- SHA-256 (FIPS 180-4) and base64 (RFC 4648). */
#include "digest.h"
#include <stdint.h>
#include <string.h>

static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static uint32_t right(uint32_t value, int by)
{
    return value >> by | value << (32 - by);
}

static void add_chunk(uint32_t state[8], const unsigned char chunk[64])
{
    uint32_t words[64], v[8];

    for (int i = 0; i < 16; i++)
        words[i] = (uint32_t)chunk[4 * i] << 24 | (uint32_t)chunk[4 * i + 1] << 16 |
                   (uint32_t)chunk[4 * i + 2] << 8 | chunk[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = words[i - 15], b = words[i - 2];
        words[i] = words[i - 16] + (right(a, 7) ^ right(a, 18) ^ a >> 3) + words[i - 7] +
                   (right(b, 17) ^ right(b, 19) ^ b >> 10);
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t e = v[4], a = v[0];
        uint32_t first = v[7] + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) +
                         ((e & v[5]) ^ (~e & v[6])) + rounds[i] + words[i];
        uint32_t second = (right(a, 2) ^ right(a, 13) ^ right(a, 22)) +
                          ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += first;
        v[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

static void sha256(const unsigned char *data, size_t count, unsigned char out[32])
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char end[128] = {0};
    size_t left = count % 64, padded = left < 56 ? 64 : 128;
    uint64_t bits = (uint64_t)count * 8;

    for (size_t i = 0; i + 64 <= count; i += 64)
        add_chunk(state, data + i);
    if (left > 0)
        memcpy(end, data + count - left, left);
    end[left] = 0x80;
    for (int i = 0; i < 8; i++)
        end[padded - 1 - (size_t)i] = (unsigned char)(bits >> 8 * i);
    for (size_t i = 0; i < padded; i += 64)
        add_chunk(state, end + i);
    for (int i = 0; i < 32; i++)
        out[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}

/* Encode up to three bytes as four characters. */
static void encode(const unsigned char *data, size_t count, char out[4])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = (uint32_t)data[0] << 16 | (count > 1 ? (uint32_t)data[1] << 8 : 0) |
                    (count > 2 ? data[2] : 0);

    for (size_t i = 0; i < 4; i++)
        out[i] = i <= count ? letters[bits >> (18 - 6 * i) & 63] : '=';
}

void digest_sha256(const void *data, size_t count, char out[DIGEST_TEXT])
{
    unsigned char digest[DIGEST_BYTES];

    sha256(data, count, digest);
    for (size_t i = 0; i < DIGEST_BYTES; i += 3)
        encode(digest + i, DIGEST_BYTES - i < 3 ? DIGEST_BYTES - i : 3, out + i / 3 * 4);
    out[DIGEST_TEXT - 1] = '\0';
}

void digest_base64(FILE *out, const void *data, size_t count)
{
    const unsigned char *at = data;
    char text[4];

    for (size_t i = 0; i < count; i += 3) {
        encode(at + i, count - i < 3 ? count - i : 3, text);
        fwrite(text, 1, sizeof text, out);
    }
}
