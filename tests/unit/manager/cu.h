/* cu.h -- driver calls that Tarn itself has no use for, by name. */
#ifndef TEST_MANAGER_CU_H
#define TEST_MANAGER_CU_H

#include "test.h"
#include <dlfcn.h>

static inline void *cu(const char *name)
{
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    void *library = dlopen(info.path, RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library ? dlsym(library, name) : NULL;
    if (!symbol)
        fail_msg("%s has no %s", info.path, name);
    dlclose(library);
    return symbol;
}

/* The context that is current on this thread, NULL if none. */
static inline void *current_context(void)
{
    int (*get)(void **) = (int (*)(void **))cu("cuCtxGetCurrent");
    void *context = NULL;

    CHECK_EQUAL(0, get(&context));
    return context;
}

/* Make device 0's primary context current, and put back what was. */
static inline void enter_context(void)
{
    int (*retain)(void **, int) = (int (*)(void **, int))cu("cuDevicePrimaryCtxRetain");
    int (*push)(void *) = (int (*)(void *))cu("cuCtxPushCurrent_v2");
    void *context;

    CHECK_EQUAL(0, retain(&context, 0));
    CHECK_EQUAL(0, push(context));
}

static inline void leave_context(void)
{
    int (*pop)(void **) = (int (*)(void **))cu("cuCtxPopCurrent_v2");
    int (*release)(int) = (int (*)(int))cu("cuDevicePrimaryCtxRelease_v2");
    void *context;

    CHECK_EQUAL(0, pop(&context));
    CHECK_EQUAL(0, release(0));
}

#endif
