/* digest.h -- SHA-256 and base64, for the content-security policy and the data blocks. */
#ifndef TARN_CLI_REPORT_DIGEST_H
#define TARN_CLI_REPORT_DIGEST_H

#include <stddef.h>
#include <stdio.h>

enum { DIGEST_BYTES = 32, DIGEST_TEXT = 45 }; /* of base64, with its NUL */

/* Write the SHA-256 of `count` bytes in base64. */
void digest_sha256(const void *data, size_t count, char out[DIGEST_TEXT]);
/* Write `count` bytes in base64. */
void digest_base64(FILE *out, const void *data, size_t count);

#endif
