/* mutated.c -- which rule the test build of libtarn breaks in this process: the part of
 * src/resource/pool/mutations.h that is compiled into libtarn_mutated alone. */
#define _POSIX_C_SOURCE 200809L
#include "resource/pool/mutations.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
#define X(name, what) #name,
    TARN__MUTATIONS(X)
#undef X
};

static int chosen = -1;
static atomic_ulong asked;

__attribute__((constructor)) static void choose(void)
{
    const char *name = getenv("TARN_MUTATION");

    for (int i = 0; name && i < TARN__MUTATION_COUNT; i++)
        if (strcmp(name, names[i]) == 0)
            chosen = i;
    if (name && *name && chosen < 0) {
        fprintf(stderr, "TARN_MUTATION=%s: there is no such rule to break\n", name);
        exit(2);
    }
}

/* The test reads this line: a rule that nobody asks for proves nothing. */
__attribute__((destructor)) static void tell(void)
{
    if (chosen >= 0)
        fprintf(stderr, "mutation %s: reached %lu times\n", names[chosen],
                atomic_load(&asked));
}

bool tarn__mutation(enum tarn__mutation which)
{
    if ((int)which != chosen)
        return false;
    atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed);
    return true;
}
