/* aot.h -- functions that code compiled by Numba calls in a program without Python.
 *
 * tarn.nrt.aot compiles functions of arrays ahead of time. The compiled code calls
 * functions of Numba's `_helperlib`. The AOT support library has those of them that use
 * no Python:
 *
 *   group     | functions
 *   ----------+----------------------------------------------------------------------
 *   calls     | read an exception; pass arrays of one or two dimensions
 *   lists     | typed lists, dicts and sets, under Numba's names only
 *   integers  | division and remainder; floating-point numbers to unsigned integers
 *   floats    | frexp, ldexp, gamma, erf and others; complex power
 *   arrays    | reshape without a copy
 *   random    | the Mersenne Twister states of a thread; Poisson numbers
 *   debugger  | a place for a breakpoint
 *
 * It is the static library libtarn_aot.a. It has three sets of names:
 *
 *   - `tarn_aot_...`: the names of this header;
 *   - `numba_...`: Numba's functions among them, under Numba's names, and the secret of
 *     the hashes of texts;
 *   - `NRT_...`: the functions of the runtime in libtarn.
 *
 * A program links all of them so:
 *
 *     cc main.c kernels.o $(tarn nrt config --cflags --libs)
 *
 * The library is static because no shared one may export Numba's names. Numba's own
 * extension in the same process exports some of them.
 */
#ifndef TARN_AOT_H
#define TARN_AOT_H

#include <stddef.h>
#include <stdint.h>
#include <tarn/nrt_external.h>
#include <tarn/status.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_aot
 * @{ */

/* --- calling compiled functions ----------------------------------------------------- */

/** The status that a compiled function returns.
 *
 * The result of the function is valid only with TARN_AOT_OK. */
enum {
    TARN_AOT_OK = 0,              /**< The result is valid. */
    TARN_AOT_FAILED = -1,         /**< The function failed without a reason. */
    TARN_AOT_NONE = -2,           /**< The optional result is Python's None. */
    TARN_AOT_STOP_ITERATION = -3, /**< An iterator has reached its end. */
    /** This value or a larger one: an exception, which a `tarn_aot_error` describes. */
    TARN_AOT_EXCEPTION = 1
};

/** An exception as compiled code leaves it.
 *
 * It holds a Python pickle of (class, arguments, place). The bytes belong to the
 * compiled code and stay valid. */
typedef struct tarn_aot_error {
    const void *pickle;   /**< The pickle. */
    int32_t pickle_bytes; /**< Number of bytes at `pickle`. */
    /** Arguments of the exception that are known at run time alone. */
    void *arguments;
    /** Compiled code's function for `arguments`; NULL after its call. */
    void *(*unwrap)(void *arguments);
    /** Above 0: the exception has such arguments, and belongs to the caller. */
    int32_t is_dynamic;
} tarn_aot_error;

/** Write the class and the arguments of an exception as a message.
 *
 * The message is such as `ValueError: empty` or `IndexError: ('text', 7)`: the last line
 * of Python's traceback. Arguments that are neither numbers, texts, None nor tuples of
 * them are shown as `...`. The message has at most 64 arguments.
 *
 * Thread-safety: one thread at a time for one exception.
 *
 * @param error    the exception; may be NULL.
 * @param[out] out receives the message, cut to fit, with a NUL behind it.
 * @param bytes    size of `out` in bytes, the NUL included.
 * @return `out`.
 * @since 0.2
 */
const char *tarn_aot_error_message(const tarn_aot_error *error, char *out, size_t bytes);

/** Free an exception that has values of the run as arguments.
 *
 * Exceptions without such values are constants of the compiled code. The function leaves
 * them unchanged.
 *
 * Thread-safety: one thread for one exception, once.
 *
 * @param error the exception; may be NULL.
 * @since 0.2
 */
void tarn_aot_error_release(const tarn_aot_error *error);

/** An array of one dimension, as compiled code returns it. */
typedef struct tarn_aot_array1 {
    /** The counted memory; NULL if the runtime does not own the memory.
     *
     * An array that a compiled function returns has one reference for the caller. */
    NRT_MemInfo *meminfo;
    void *parent;       /**< Python object; NULL without Python. */
    int64_t items;      /**< Number of items. */
    int64_t item_bytes; /**< Bytes of an item. */
    void *data;         /**< The first item. */
    int64_t shape[1];   /**< Items of each dimension. */
    int64_t strides[1]; /**< Bytes from one item of a dimension to the next. */
} tarn_aot_array1;

/** An array of two dimensions, as compiled code returns it. */
typedef struct tarn_aot_array2 {
    /** The counted memory; NULL if the runtime does not own the memory.
     *
     * An array that a compiled function returns has one reference for the caller. */
    NRT_MemInfo *meminfo;
    void *parent;       /**< Python object; NULL without Python. */
    int64_t items;      /**< Number of items. */
    int64_t item_bytes; /**< Bytes of an item. */
    void *data;         /**< The first item. */
    int64_t shape[2];   /**< Items of each dimension. */
    int64_t strides[2]; /**< Bytes from one item of a dimension to the next. */
} tarn_aot_array2;

/** Declare the parameters of a compiled function for an array of one dimension.
 *
 * `name` begins each parameter's name. The function borrows the caller's reference. */
#define TARN_AOT_ARRAY1_PARAMETERS(name)                                     \
    NRT_MemInfo *name##_meminfo, void *name##_parent, int64_t name##_items,  \
        int64_t name##_item_bytes, void *name##_data, int64_t name##_shape0, \
        int64_t name##_stride0
/** Declare the parameters of a compiled function for an array of two dimensions.
 *
 * `name` begins each parameter's name. The function borrows the caller's reference. */
#define TARN_AOT_ARRAY2_PARAMETERS(name)                                     \
    NRT_MemInfo *name##_meminfo, void *name##_parent, int64_t name##_items,  \
        int64_t name##_item_bytes, void *name##_data, int64_t name##_shape0, \
        int64_t name##_shape1, int64_t name##_stride0, int64_t name##_stride1
/** List the arguments for TARN_AOT_ARRAY1_PARAMETERS from a `tarn_aot_array1`.
 *
 * The macro evaluates `array` several times. */
#define TARN_AOT_ARRAY1(array)                                                        \
    (array).meminfo, (array).parent, (array).items, (array).item_bytes, (array).data, \
        (array).shape[0], (array).strides[0]
/** List the arguments for TARN_AOT_ARRAY2_PARAMETERS from a `tarn_aot_array2`.
 *
 * The macro evaluates `array` several times. */
#define TARN_AOT_ARRAY2(array)                                                        \
    (array).meminfo, (array).parent, (array).items, (array).item_bytes, (array).data, \
        (array).shape[0], (array).shape[1], (array).strides[0], (array).strides[1]

/** Return an array of doubles that compiled code can borrow.
 *
 * Thread-safety: any thread.
 *
 * @param meminfo the counted memory; borrowed. NULL: the caller owns the memory, and it
 *                must outlive everything that is made of it.
 * @param data    the first double; borrowed.
 * @param items   number of doubles.
 * @return the array, without a reference of its own.
 * @since 0.2
 */
tarn_aot_array1 tarn_aot_array1_of(NRT_MemInfo *meminfo, double *data, int64_t items);

/* --- integers: operations without an instruction on 32-bit machines ----------------- */

/** Divide two signed integers and truncate the quotient.
 *
 * Compiled code checks for a division by 0 before it calls.
 *
 * Thread-safety: any thread.
 *
 * @param a the dividend.
 * @param b the divisor.
 * @return the quotient; 0 if `b` is 0. The smallest integer divided by -1 wraps.
 * @since 0.2
 */
int64_t tarn_aot_sdiv(int64_t a, int64_t b);

/** Return the remainder of the truncated division of two signed integers.
 *
 * Compiled code checks for a division by 0 before it calls.
 *
 * Thread-safety: any thread.
 *
 * @param a the dividend.
 * @param b the divisor.
 * @return the remainder; 0 if `b` is 0 or -1.
 * @since 0.2
 */
int64_t tarn_aot_srem(int64_t a, int64_t b);

/** Divide two unsigned integers.
 *
 * Compiled code checks for a division by 0 before it calls.
 *
 * Thread-safety: any thread.
 *
 * @param a the dividend.
 * @param b the divisor.
 * @return the quotient; 0 if `b` is 0.
 * @since 0.2
 */
uint64_t tarn_aot_udiv(uint64_t a, uint64_t b);

/** Return the remainder of the division of two unsigned integers.
 *
 * Compiled code checks for a division by 0 before it calls.
 *
 * Thread-safety: any thread.
 *
 * @param a the dividend.
 * @param b the divisor.
 * @return the remainder; 0 if `b` is 0.
 * @since 0.2
 */
uint64_t tarn_aot_urem(uint64_t a, uint64_t b);

/** Convert a double to an unsigned integer, truncated towards 0.
 *
 * Thread-safety: any thread.
 *
 * @param x the number.
 * @return the integer. Negative numbers from -2^63 on wrap. Numbers below -2^63,
 *         numbers from 2^64 on and NaN give 0.
 * @since 0.2
 */
uint64_t tarn_aot_fptoui(double x);

/** Convert a float to an unsigned integer, truncated towards 0.
 *
 * Thread-safety: any thread.
 *
 * @param x the number.
 * @return the integer. Negative numbers from -2^63 on wrap. Numbers below -2^63,
 *         numbers from 2^64 on and NaN give 0.
 * @since 0.2
 */
uint64_t tarn_aot_fptouif(float x);

/* --- floats ------------------------------------------------------------------------- */

/** Split a double into a fraction and a power of 2, as C's frexp().
 *
 * Thread-safety: any thread.
 *
 * @param x             the number.
 * @param[out] exponent the exponent of 2; 0 if `x` is not finite.
 * @return the fraction; `x` if it is not finite.
 * @since 0.2
 */
double tarn_aot_frexp(double x, int *exponent);

/** Split a float into a fraction and a power of 2, as C's frexpf().
 *
 * Thread-safety: any thread.
 *
 * @param x             the number.
 * @param[out] exponent the exponent of 2; 0 if `x` is not finite.
 * @return the fraction; `x` if it is not finite.
 * @since 0.2
 */
float tarn_aot_frexpf(float x, int *exponent);

/** Multiply a double by a power of 2, as C's ldexp().
 *
 * Thread-safety: any thread.
 *
 * @param x        the number.
 * @param exponent the exponent of 2.
 * @return the product; `x` if it is not finite.
 * @since 0.2
 */
double tarn_aot_ldexp(double x, int exponent);

/** Multiply a float by a power of 2, as C's ldexpf().
 *
 * Thread-safety: any thread.
 *
 * @param x        the number.
 * @param exponent the exponent of 2.
 * @return the product; `x` if it is not finite.
 * @since 0.2
 */
float tarn_aot_ldexpf(float x, int exponent);

/** Return the gamma function of a double, as C's tgamma().
 *
 * Thread-safety: any thread.
 *
 * @param x the number.
 * @return the value of the gamma function at `x`.
 * @since 0.2
 */
double tarn_aot_gamma(double x);

/** Return the gamma function of a float, as C's tgammaf().
 *
 * Thread-safety: any thread.
 *
 * @param x the number.
 * @return the value of the gamma function at `x`.
 * @since 0.2
 */
float tarn_aot_gammaf(float x);

/** Return the logarithm of the gamma function of a double, as C's lgamma().
 *
 * Thread-safety: any thread.
 *
 * @param x the number.
 * @return the logarithm of the gamma function's absolute value at `x`.
 * @since 0.2
 */
double tarn_aot_lgamma(double x);

/** Return the logarithm of the gamma function of a float, as C's lgammaf().
 *
 * Thread-safety: any thread.
 *
 * @param x the number.
 * @return the logarithm of the gamma function's absolute value at `x`.
 * @since 0.2
 */
float tarn_aot_lgammaf(float x);

/** Return the error function of a double, as C's erf().
 *
 * Thread-safety: any thread.
 *
 * @param x the number.
 * @return the value of the error function at `x`.
 * @since 0.2
 */
double tarn_aot_erf(double x);

/** Return the error function of a float, as C's erff().
 *
 * Thread-safety: any thread.
 *
 * @param x the number.
 * @return the value of the error function at `x`.
 * @since 0.2
 */
float tarn_aot_erff(float x);

/** Return the complementary error function of a double, as C's erfc().
 *
 * Thread-safety: any thread.
 *
 * @param x the number.
 * @return the value of the complementary error function at `x`.
 * @since 0.2
 */
double tarn_aot_erfc(double x);

/** Return the complementary error function of a float, as C's erfcf().
 *
 * Thread-safety: any thread.
 *
 * @param x the number.
 * @return the value of the complementary error function at `x`.
 * @since 0.2
 */
float tarn_aot_erfcf(float x);

/** Return the next double after a number in a direction, as C's nextafter().
 *
 * Thread-safety: any thread.
 *
 * @param a the number.
 * @param b gives the direction.
 * @return the next double after `a` towards `b`.
 * @since 0.2
 */
double tarn_aot_nextafter(double a, double b);

/** Return the next float after a number in a direction, as C's nextafterf().
 *
 * Thread-safety: any thread.
 *
 * @param a the number.
 * @param b gives the direction.
 * @return the next float after `a` towards `b`.
 * @since 0.2
 */
float tarn_aot_nextafterf(float a, float b);

/** A complex number of two doubles. */
typedef struct tarn_aot_complex {
    double real, /**< Real part. */
        imag;    /**< Imaginary part. */
} tarn_aot_complex;

/** A complex number of two floats. */
typedef struct tarn_aot_complexf {
    float real, /**< Real part. */
        imag;   /**< Imaginary part. */
} tarn_aot_complexf;

/** Raise a complex number of doubles to a complex power, as Python does.
 *
 * Python rejects 0 to a negative or complex power. Here both parts of the result are NaN.
 *
 * Thread-safety: any thread.
 *
 * @param a        the base; not NULL.
 * @param b        the power; not NULL.
 * @param[out] out the result; not NULL.
 * @since 0.2
 */
void tarn_aot_cpow(const tarn_aot_complex *a, const tarn_aot_complex *b,
                   tarn_aot_complex *out);

/** Raise a complex number of floats to a complex power, as Python does.
 *
 * Python rejects 0 to a negative or complex power. Here both parts of the result are NaN.
 *
 * Thread-safety: any thread.
 *
 * @param a        the base; not NULL.
 * @param b        the power; not NULL.
 * @param[out] out the result; not NULL.
 * @since 0.2
 */
void tarn_aot_cpowf(const tarn_aot_complexf *a, const tarn_aot_complexf *b,
                    tarn_aot_complexf *out);

/* --- arrays ------------------------------------------------------------------------- */

/** Find the strides that give an array another shape without a copy.
 *
 * The items keep their order. An array without items can have any shape without items.
 *
 * Thread-safety: any thread.
 *
 * @param nd               number of dimensions.
 * @param shape            `nd` lengths.
 * @param strides          `nd` strides in bytes.
 * @param new_nd           number of dimensions of the new shape.
 * @param new_shape        `new_nd` lengths.
 * @param[out] new_strides receives `new_nd` strides in bytes; unchanged with result 0.
 * @param item_bytes       bytes of an item.
 * @param fortran          0: the last dimension varies fastest in the order of the items;
 *                         otherwise the first.
 * @return 1 if there are such strides; 0 if the new shape needs a copy or has another
 *         number of items.
 * @since 0.2
 */
int tarn_aot_attempt_nocopy_reshape(intptr_t nd, const intptr_t *shape,
                                    const intptr_t *strides, intptr_t new_nd,
                                    const intptr_t *new_shape, intptr_t *new_strides,
                                    intptr_t item_bytes, int fortran);

/* --- random numbers ----------------------------------------------------------------- */

/** The number of 32-bit words in the state of a Mersenne Twister. */
enum { TARN_AOT_RANDOM_WORDS = 624 /**< Words of `tarn_aot_random`. */ };

/** A Mersenne Twister, with the layout that compiled code changes. */
typedef struct tarn_aot_random {
    /** Index of the next word; TARN_AOT_RANDOM_WORDS if none is left. */
    int32_t index;
    uint32_t words[TARN_AOT_RANDOM_WORDS]; /**< The 32-bit words of the state. */
    int32_t has_gauss; /**< Nonzero: compiled code keeps a normal number in `gauss`. */
    double gauss;      /**< Every second normal number. */
    int32_t is_seeded; /**< Nonzero: the state has a seed. */
} tarn_aot_random;

/** Return the calling thread's random state for `random`.
 *
 * The system seeds the state at its first use, and anew in a forked child.
 *
 * Thread-safety: any thread; each thread has its own state.
 *
 * @return the state, never NULL; valid until the thread ends.
 * @since 0.2
 */
tarn_aot_random *tarn_aot_get_py_random_state(void);

/** Return the calling thread's random state for `np.random`.
 *
 * The system seeds the state at its first use, and anew in a forked child.
 *
 * Thread-safety: any thread; each thread has its own state.
 *
 * @return the state, never NULL; valid until the thread ends.
 * @since 0.2
 */
tarn_aot_random *tarn_aot_get_np_random_state(void);

/** Return the calling thread's random state for Numba itself.
 *
 * The system seeds the state at its first use, and anew in a forked child.
 *
 * Thread-safety: any thread; each thread has its own state.
 *
 * @return the state, never NULL; valid until the thread ends.
 * @since 0.2
 */
tarn_aot_random *tarn_aot_get_internal_random_state(void);

/** Begin the sequence of a seed.
 *
 * It is the sequence that the Mersenne Twister of NumPy and Python has for that seed.
 *
 * Thread-safety: one thread at a time for one state.
 *
 * @param[out] state the state; not NULL.
 * @param seed       the seed.
 * @since 0.2
 */
void tarn_aot_rnd_init(tarn_aot_random *state, uint32_t seed);

/** Make the next 624 words of a state.
 *
 * Compiled code takes them from `words` itself. The function does not change `index`.
 *
 * Thread-safety: one thread at a time for one state.
 *
 * @param state the state; not NULL.
 * @since 0.2
 */
void tarn_aot_rnd_shuffle(tarn_aot_random *state);

/** Draw a number from a Poisson distribution, as NumPy's legacy generator does.
 *
 * Thread-safety: one thread at a time for one state.
 *
 * @param state the state to draw from; not NULL.
 * @param mean  mean of the distribution; 10 or more.
 * @return the number.
 * @since 0.2
 */
int64_t tarn_aot_poisson_ptrs(tarn_aot_random *state, double mean);

/* --- debugger ----------------------------------------------------------------------- */

/** Do nothing: a place where a debugger can stop.
 *
 * Thread-safety: any thread.
 *
 * @since 0.2
 */
void tarn_aot_gdb_breakpoint(void);

/** @} */

TARN_END_DECLS
#endif
