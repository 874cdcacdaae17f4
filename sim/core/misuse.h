/* misuse.h -- calls that would crash the real driver: the simulator names them. */
#ifndef TARN_SIM_MISUSE_H
#define TARN_SIM_MISUSE_H

/* Name the call whose misuse would crash the real driver, and abort. */
_Noreturn void sim_misuse_abort(const char *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Do the same, but release the lock first: a test that catches SIGABRT may continue.
 * `sim_lock_mutex` held. */
_Noreturn void sim_misuse_abort_locked(const char *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same with the option dead=abort. With dead=error the misuse is counted, and the
 * call returns CUDA_ERROR_INVALID_HANDLE. `sim_lock_mutex` held. */
void sim_misuse(const char *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Restart the count at 0; get it. */
void sim_misuse_start(void);
unsigned long long sim_misuse_count(void);

#endif
