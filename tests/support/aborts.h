/* aborts.h -- whether a call ends the program by abort(). */
#ifndef TARN_TEST_ABORTS_H
#define TARN_TEST_ABORTS_H

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

static sigjmp_buf test_aborted;

static inline void test_note_abort(int number)
{
    (void)number;
    siglongjmp(test_aborted, 1);
}

/* Return true if `call` ends the program. One thread at a time may ask. */
static inline bool test_aborts(void (*call)(void))
{
    struct sigaction before, handler = {.sa_handler = test_note_abort};
    volatile bool aborts = true;

    sigaction(SIGABRT, &handler, &before);
    if (sigsetjmp(test_aborted, 1) == 0) {
        call();
        aborts = false;
    }
    sigaction(SIGABRT, &before, NULL);
    return aborts;
}

#endif
