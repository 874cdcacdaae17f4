/* hash_secret.c -- the secret of the hashes of texts, under the names that object files
 * read.
 *
 * In Python compiled code uses the interpreter's secret. Here the system draws one for each
 * process, so that nobody can prepare texts with equal hashes.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/random.h>

extern uint64_t _numba_hashsecret_siphash_k0, _numba_hashsecret_siphash_k1,
    _numba_hashsecret_djbx33a_suffix;
uint64_t _numba_hashsecret_siphash_k0, _numba_hashsecret_siphash_k1,
    _numba_hashsecret_djbx33a_suffix;

__attribute__((constructor)) static void draw_secret(void)
{
    uint64_t words[3];

    if (getrandom(words, sizeof words, GRND_NONBLOCK) != (ssize_t)sizeof words)
        return; /* early in the boot: hashes without a secret are right as well */
    _numba_hashsecret_siphash_k0 = words[0];
    _numba_hashsecret_siphash_k1 = words[1];
    _numba_hashsecret_djbx33a_suffix = words[2];
}
