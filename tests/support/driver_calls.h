/* driver_calls.h -- the driver beside Tarn, as any program uses it: calls by name. */
#ifndef TARN_TEST_DRIVER_CALLS_H
#define TARN_TEST_DRIVER_CALLS_H

/* The call of that name of the driver that Tarn has loaded. Ends the program with a
 * message if there is none, so that any thread and any child may use it. */
void *driver_call(const char *name);

/* Store it in `slot`, a pointer to a function. */
void find_call(const char *name, void *slot);

/* Reset the primary context of device 0, as Numba's cuda.close() and cudaDeviceReset()
 * do. */
void reset_the_device(void);

#endif
