/* cu.h -- the context of device 0, queried from the driver beside Tarn. */
#ifndef TEST_MANAGER_CU_H
#define TEST_MANAGER_CU_H

#include "driver_calls.h"
#include "test.h"

/* The context that is current on this thread, NULL if none. */
static inline void *current_context(void)
{
    int (*get)(void **) = (int (*)(void **))driver_call("cuCtxGetCurrent");
    void *context = NULL;

    CHECK_EQUAL(0, get(&context));
    return context;
}

/* Make device 0's primary context current, and restore the previous one. */
static inline void enter_context(void)
{
    int (*retain)(void **, int) =
        (int (*)(void **, int))driver_call("cuDevicePrimaryCtxRetain");
    int (*push)(void *) = (int (*)(void *))driver_call("cuCtxPushCurrent_v2");
    void *context;

    CHECK_EQUAL(0, retain(&context, 0));
    CHECK_EQUAL(0, push(context));
}

static inline void leave_context(void)
{
    int (*pop)(void **) = (int (*)(void **))driver_call("cuCtxPopCurrent_v2");
    int (*release)(int) = (int (*)(int))driver_call("cuDevicePrimaryCtxRelease_v2");
    void *context;

    CHECK_EQUAL(0, pop(&context));
    CHECK_EQUAL(0, release(0));
}

#endif
