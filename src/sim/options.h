/* options.h -- what TARN_SIM and tarn_sim_configure() can say. One table is the parser,
 * the error message and (held together by a test) docs/sim.md.
 */
#ifndef TARN_SIM_OPTIONS_H
#define TARN_SIM_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_DEVICES_MAX = 16 };

struct sim_options {
    uint64_t devices;
    uint64_t memory_bytes; /* a device */
    uint64_t fail_nth;     /* 0: none */
    uint64_t seed;
};

/* X(name, how the value is written, how it is read, field, default, meaning) */
/* clang-format off */
#define SIM_OPTIONS(X) \
    X(devices, "1..16", sim_parse_devices, devices, "2", \
      "how many devices there are; may change only before cuInit") \
    X(memory, "BYTES with KiB, MiB, GiB", sim_parse_memory, memory_bytes, "8GiB", \
      "memory of each device; from 2MiB to 1024GiB, counted in steps of 2MiB") \
    X(fail, "nth:N", sim_parse_fail, fail_nth, "", \
      "the N-th driver call from now on fails, having changed nothing") \
    X(seed, "N", sim_parse_seed, seed, "0", \
      "kept for the seeded scheduler that is to come; changes nothing yet")
/* clang-format on */

/* Parse `text` (NULL is "") over the defaults. False: `words` says what and what is
 * allowed, and `out` is untouched. */
bool sim_options_parse(const char *text, struct sim_options *out, char *words,
                       size_t words_bytes);

#endif
