/* sim.h -- the controls of the stand-in, for tests. The functions live in the stand-in
 * (`libcuda.so.1` of Tarn), not in libtarn: look them up there with dlsym, by the name of
 * the type without `_fn`.
 *
 * The same options come from the environment: TARN_SIM="devices=2,memory=8GiB,fail=nth:17".
 * docs/sim.md lists them.
 */
#ifndef TARN_SIM_H
#define TARN_SIM_H

#ifdef __cplusplus
extern "C" {
#endif

/** `int tarn_sim_configure(const char *options)`: set all options anew and count calls from
 *  0 again. What is not named gets its default (NULL or "": all of them), but for `devices`,
 *  which may change only before cuInit and stays as it is afterwards. 0 on success; 1 where
 *  the text does not parse or may not be had any more: nothing has changed then, and
 *  tarn_sim_error() has the words. Any thread. */
typedef int tarn_sim_configure_fn(const char *options);
/** What the calling thread's last tarn_sim_configure() refused; "" where it took it. */
typedef const char *tarn_sim_error_fn(void);
/** How many calls, and requests of the stand-in for host memory, the fault options have
 * made fail since the last configure. */
typedef unsigned long long tarn_sim_faults_fn(void);
/** With dead=error: how many calls were given a destroyed or unknown stream. */
typedef unsigned long long tarn_sim_misuses_fn(void);
/** With races=on: how many pairs of operations on the same bytes nothing ordered. */
typedef unsigned long long tarn_sim_races_fn(void);
/** The words of the last one, as on stderr; "" where there was none. Valid until the next
 * one is found. */
typedef const char *tarn_sim_race_fn(void);
/** Driver calls since the last configure, failed ones included. Not those that cannot fail:
 *  names of errors, the driver's version, finding calls. */
typedef unsigned long long tarn_sim_calls_fn(void);
/** Bytes that were asked for and not given back: device memory, that of pools, managed and
 *  pinned memory, of all devices. A leak shows here. */
typedef unsigned long long tarn_sim_live_bytes_fn(void);

#ifdef __cplusplus
}
#endif
#endif
