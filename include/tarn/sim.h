/* sim.h -- the controls of the driver simulator, for tests.
 *
 * The driver simulator is Tarn's own `libcuda.so.1`: a CUDA driver without a GPU. It, and
 * not libtarn, has the functions that these types describe. A test looks them up there
 * with dlsym(). The name of a function is the name of its type without `_fn`:
 *
 *     tarn_sim_calls_fn *calls = (tarn_sim_calls_fn *)dlsym(library, "tarn_sim_calls");
 *
 * The environment sets the same options: TARN_SIM="devices=2,memory=8GiB,fail=nth:17".
 * docs/sim.md lists them.
 */
#ifndef TARN_SIM_H
#define TARN_SIM_H

#ifdef __cplusplus
extern "C" {
#endif

/** @addtogroup tarn_sim
 * @{ */

/** Sets all options of the simulator and restarts its counters from 0.
 *
 * `options` has the form of the environment variable TARN_SIM. An option that it does
 * not name gets its default. NULL or "" names none. The exception is `devices`: it can
 * change only before cuInit() and keeps its value afterwards. After cuInit() `memory`
 * cannot exceed the addresses that the simulator has reserved.
 *
 * The function returns 0 on success. It returns 1 if the text does not parse or an
 * option can no longer change. Then nothing has changed, and tarn_sim_error() has the
 * message.
 *
 * If the simulator is in the seeded mode, or enters it, the call first waits for all
 * queued work. Any thread may call the function. */
typedef int tarn_sim_configure_fn(const char *options);

/** Returns the message of the calling thread's last failed tarn_sim_configure().
 *
 * It is "" if that call succeeded. The string is valid until the thread's next call of
 * tarn_sim_configure(). Any thread may call the function. */
typedef const char *tarn_sim_error_fn(void);

/** Returns the number of faults that the fault options have caused since the last
 * configure.
 *
 * A fault is a failed driver call or a failed request of the simulator for host memory.
 * Any thread may call the function. */
typedef unsigned long long tarn_sim_faults_fn(void);

/** Returns the number of calls with a destroyed or unknown stream, with `dead=error`.
 *
 * The count starts at the last configure. Any thread may call the function. */
typedef unsigned long long tarn_sim_misuses_fn(void);

/** Returns the number of data races found, with `races=on`.
 *
 * A race is a pair of operations on the same bytes that nothing orders. The count starts
 * at the last configure. Any thread may call the function. */
typedef unsigned long long tarn_sim_races_fn(void);

/** Returns the message of the last race; "" if there was none.
 *
 * It is the line on stderr without its prefix. The string is valid until the simulator
 * finds the next race, on any thread, or until the next configure. */
typedef const char *tarn_sim_race_fn(void);

/** Returns the number of copies to the host of bytes that an ignored launch may have
 * written, with `launches=ignore`.
 *
 * The count starts at the last configure. Any thread may call the function. */
typedef unsigned long long tarn_sim_unknown_reads_fn(void);

/** Returns the number of driver calls since the last configure, failed ones included.
 *
 * It leaves out calls that cannot fail: names of errors, the driver's version, looking up
 * functions. It also leaves out calls that fail because the simulator is not initialized
 * or has ended. Any thread may call the function. */
typedef unsigned long long tarn_sim_calls_fn(void);

/** Returns the bytes that are allocated and not yet freed, on all devices.
 *
 * They are device memory, memory of pools, managed memory and pinned memory. A leak
 * shows here. Any thread may call the function. */
typedef unsigned long long tarn_sim_live_bytes_fn(void);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
