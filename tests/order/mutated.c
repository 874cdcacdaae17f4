/* mutated.c -- which rule the test build of libtarn breaks in this process: the part of
 * src/pool/mutations.h that is compiled into libtarn_mutated alone. */
#define _POSIX_C_SOURCE 200809L
#include "driver/driver.h"
#include "pool/mutations.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const names[] = {
#define X(name, what) #name,
    TARN__MUTATIONS(X)
#undef X
};

/* Set what runs in a window: NULL is nothing. The harness looks the function up, since
 * libtarn has none. */
void tarn_mutated_on_window(void (*call)(void));

static int chosen = -1;
static atomic_ulong reached;

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

/* The test reads this line: a rule that no code checks proves nothing. */
__attribute__((destructor)) static void print_reached(void)
{
    if (chosen >= 0)
        fprintf(stderr, "mutation %s: reached %lu times\n", names[chosen],
                atomic_load(&reached));
}

/* --- other calls between two holds of the lock --- */

static void (*in_window)(void);

__attribute__((visibility("default"))) void tarn_mutated_on_window(void (*call)(void))
{
    in_window = call;
}

void tarn__mutation_window(bool has_growth)
{
    if (in_window && has_growth)
        in_window();
}

/* --- wider windows ---------------------------------------------------------------------
 * Some rules concern the work of another thread between two steps, which is rare on two
 * cores. So the pool's driver calls are delayed if such a rule is broken: before the call,
 * or after it. */

enum { PAUSE_NS = 400000, LONG_PAUSE_NS = 3000000 };

static struct tarn__calls real;

static void pause_for(long ns, bool wanted)
{
    struct timespec time = {.tv_nsec = ns};

    if (wanted)
        nanosleep(&time, NULL);
}

static CUresult_ slow_record(CUevent_ event, CUstream_ stream)
{
    pause_for(PAUSE_NS, chosen == TARN__MUTATION_fence_published_before_call);
    CUresult_ result = real.event_record(event, stream);
    pause_for(PAUSE_NS, chosen == TARN__MUTATION_epoch_closed_after_record);
    return result;
}

static CUresult_ slow_query(CUstream_ stream)
{
    CUresult_ result = real.stream_query(stream);
    pause_for(LONG_PAUSE_NS, chosen == TARN__MUTATION_epoch_closed_after_query);
    return result;
}

static CUresult_ slow_wait(CUstream_ stream, CUevent_ event, unsigned flags)
{
    pause_for(PAUSE_NS, chosen == TARN__MUTATION_event_recycled_in_use);
    return real.stream_wait_event(stream, event, flags);
}

static void widen(void)
{
    const struct tarn__calls *calls;

    if (tarn__driver(&calls) != TARN_OK)
        return;
    real = *calls;
    struct tarn__calls *table = (struct tarn__calls *)(uintptr_t)calls;
    table->event_record = slow_record;
    table->stream_query = slow_query;
    table->stream_wait_event = slow_wait;
}

bool tarn__mutation(enum tarn__mutation which)
{
    static atomic_bool widened;

    if (chosen < 0)
        return false;
    if (!atomic_exchange(&widened, true))
        widen(); /* the first caller sets it: the driver is open by now */
    if ((int)which != chosen)
        return false;
    atomic_fetch_add_explicit(&reached, 1, memory_order_relaxed);
    return true;
}
