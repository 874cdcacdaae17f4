/* sim.h -- setting the stand-in's options from a test. The function lives in the stand-in
 * (`libcuda.so.1` of Tarn), not in libtarn: look it up there with dlsym.
 *
 * The same options come from the environment:
 * TARN_SIM="devices=2,memory=8GiB,fail=nth:17".
 */
#ifndef TARN_SIM_H
#define TARN_SIM_H

#ifdef __cplusplus
extern "C" {
#endif

/** `int tarn_sim_configure(const char *options)`: set all options anew (those not named
 * get their defaults, NULL or "" all of them) and count calls from 0 again. 0 on success,
 * 1 where the text does not parse (tarn_sim_error() has the words). devices= may change
 * only before cuInit; else 1. */
typedef int tarn_sim_configure_fn(const char *options);
typedef const char *tarn_sim_error_fn(void);
/** How many calls the fault options have made fail since the last configure. */
typedef unsigned long long tarn_sim_faults_fn(void);
/** Driver calls since the last configure, failed ones included. */
typedef unsigned long long tarn_sim_calls_fn(void);
/** Bytes of device memory allocated now, all devices, all kinds that cuMemGetInfo counts.
 */
typedef unsigned long long tarn_sim_live_bytes_fn(void);

#ifdef __cplusplus
}
#endif
#endif
