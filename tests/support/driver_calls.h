/* driver_calls.h -- the driver beside Tarn, as any program has it: calls by name. */
#ifndef TARN_TEST_DRIVER_CALLS_H
#define TARN_TEST_DRIVER_CALLS_H

/* The call of that name of the driver that Tarn has loaded. Ends the program with words
 * where there is none, so that it may be asked on any thread and in a child. */
void *driver_call(const char *name);

/* Put it into `slot`, a pointer to a function. */
void find_call(const char *name, void *slot);

/* Reset the primary context of device 0, as cuda.close() of Numba and cudaDeviceReset() do.
 */
void reset_the_device(void);

#endif
