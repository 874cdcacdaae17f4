/* hooks.h -- functions that the host gives, each with an argument, process-wide. */
#ifndef TARN_NRT_HOOKS_H
#define TARN_NRT_HOOKS_H

#include <tarn/nrt.h>

typedef void tarn__any_function(void);

/* One that may be set; all zeros is none. */
struct tarn__hook {
    tarn__any_function *function;
    void *data;
};

void tarn__hook_set(struct tarn__hook *hook, tarn__any_function *function, void *data);
struct tarn__hook tarn__hook_get(const struct tarn__hook *hook);

/* For fork. */
void tarn__hooks_lock(void);
void tarn__hooks_unlock(void);

#endif
