/* helper.h -- what compiled code calls besides the runtime, with no Python in the process.
 *
 * Functions of arrays that Numba compiled ahead of time (tarn.nrt.aot) call helpers of
 * Numba's `_helperlib`: reshape, complex power, random numbers. Those that touch no Python
 * are here, as code of its own, in the static library libtarn_helper.a. The same library
 * has them under Numba's names (numba_...), and the runtime's functions under theirs
 * (NRT_...), so that an object file links:
 *
 *     cc main.c kernels.o -ltarn_helper -ltarn -lm
 *
 * A static library, because no shared one may export Numba's names: Numba's own extension
 * in the same process exports some of them. Source: seed 004, F39 and F40.
 */
#ifndef TARN_AOT_H
#define TARN_AOT_H

#include <stddef.h>
#include <stdint.h>
#include <tarn/nrt_external.h>
#include <tarn/status.h>

TARN_BEGIN_DECLS

/* --- calling compiled functions ------------------------------------------------------- */

/** What a compiled function returns. Its result is valid with OK alone; NONE is Python's
 *  None where the result is optional. */
enum {
    TARN_AOT_OK = 0,
    TARN_AOT_FAILED = -1, /**< without a reason */
    TARN_AOT_NONE = -2,
    TARN_AOT_STOP_ITERATION = -3,
    TARN_AOT_EXCEPTION = 1 /**< this or more: raised; `tarn_aot_error` says what */
};

/** An exception as compiled code leaves it: bytes that Python's pickle understands, of
 *  (class, arguments, place). They belong to the compiled code and stay. */
typedef struct tarn_aot_error {
    const void *pickle;
    int32_t pickle_bytes;
    const void *unwrap;    /* for exceptions with values of the run, which need Python */
    const void *arguments; /* of those; NULL here */
    int32_t is_dynamic;
} tarn_aot_error;

/** The class and the first text argument of an exception, `ValueError: empty`, as far as
 *  they can be read from its bytes. At most `bytes` with the final 0. Returns `out`. */
const char *tarn_aot_error_words(const tarn_aot_error *error, char *out, size_t bytes);

/** An array of one or two dimensions, as compiled code returns it. */
typedef struct tarn_aot_array1 {
    NRT_MemInfo *meminfo; /**< one reference, the caller's; NULL: of no runtime */
    void *parent;         /**< NULL without Python */
    int64_t items;
    int64_t item_bytes;
    void *data;
    int64_t shape[1];
    int64_t strides[1]; /**< in bytes */
} tarn_aot_array1;

typedef struct tarn_aot_array2 {
    NRT_MemInfo *meminfo;
    void *parent;
    int64_t items;
    int64_t item_bytes;
    void *data;
    int64_t shape[2];
    int64_t strides[2];
} tarn_aot_array2;

/** The parameters of a compiled function for one array argument; a reference is lent. */
#define TARN_AOT_ARRAY1_PARAMETERS(name)                                     \
    NRT_MemInfo *name##_meminfo, void *name##_parent, int64_t name##_items,  \
        int64_t name##_item_bytes, void *name##_data, int64_t name##_shape0, \
        int64_t name##_stride0
#define TARN_AOT_ARRAY2_PARAMETERS(name)                                     \
    NRT_MemInfo *name##_meminfo, void *name##_parent, int64_t name##_items,  \
        int64_t name##_item_bytes, void *name##_data, int64_t name##_shape0, \
        int64_t name##_shape1, int64_t name##_stride0, int64_t name##_stride1
/** And the arguments, from one of the structures above. */
#define TARN_AOT_ARRAY1(array)                                                        \
    (array).meminfo, (array).parent, (array).items, (array).item_bytes, (array).data, \
        (array).shape[0], (array).strides[0]
#define TARN_AOT_ARRAY2(array)                                                        \
    (array).meminfo, (array).parent, (array).items, (array).item_bytes, (array).data, \
        (array).shape[0], (array).shape[1], (array).strides[0], (array).strides[1]

/** `items` doubles at `data` as an array that compiled code may borrow. `meminfo` may be
 *  NULL: the memory is the caller's and outlives all that is made of it. */
tarn_aot_array1 tarn_aot_array1_of(NRT_MemInfo *meminfo, double *data, int64_t items);

/* --- integers: what 32-bit machines have no instruction for --------------------------- */

/** Truncated division and its remainder. Division by 0 gives 0, and the smallest number
 *  by -1 wraps: compiled code has asked before. */
int64_t tarn_aot_sdiv(int64_t a, int64_t b);
int64_t tarn_aot_srem(int64_t a, int64_t b);
uint64_t tarn_aot_udiv(uint64_t a, uint64_t b);
uint64_t tarn_aot_urem(uint64_t a, uint64_t b);
/** Towards 0; negative numbers wrap. What fits neither is 0. */
uint64_t tarn_aot_fptoui(double x);
uint64_t tarn_aot_fptouif(float x);

/* --- floats --------------------------------------------------------------------------- */

/** Of what is not finite the exponent is 0. */
double tarn_aot_frexp(double x, int *exponent);
float tarn_aot_frexpf(float x, int *exponent);
double tarn_aot_ldexp(double x, int exponent);
float tarn_aot_ldexpf(float x, int exponent);
double tarn_aot_gamma(double x);
float tarn_aot_gammaf(float x);
double tarn_aot_lgamma(double x);
float tarn_aot_lgammaf(float x);
double tarn_aot_erf(double x);
float tarn_aot_erff(float x);
double tarn_aot_erfc(double x);
float tarn_aot_erfcf(float x);
double tarn_aot_nextafter(double a, double b);
float tarn_aot_nextafterf(float a, float b);

/** a ** b as Python's complex numbers have it; what Python refuses (0 to a negative or
 *  complex power) is NaN in both parts. */
typedef struct tarn_aot_complex {
    double real, imag;
} tarn_aot_complex;
typedef struct tarn_aot_complexf {
    float real, imag;
} tarn_aot_complexf;
void tarn_aot_cpow(const tarn_aot_complex *a, const tarn_aot_complex *b,
                   tarn_aot_complex *out);
void tarn_aot_cpowf(const tarn_aot_complexf *a, const tarn_aot_complexf *b,
                    tarn_aot_complexf *out);

/* --- arrays --------------------------------------------------------------------------- */

/** Strides under which the items of an array (`nd` dimensions) are those of another shape
 *  in the same order, without a copy: 1, and `new_strides`; or 0, and it stays as it was.
 *  `fortran` says in which order items are counted. */
int tarn_aot_attempt_nocopy_reshape(intptr_t nd, const intptr_t *shape,
                                    const intptr_t *strides, intptr_t new_nd,
                                    const intptr_t *new_shape, intptr_t *new_strides,
                                    intptr_t item_bytes, int fortran);

/* --- random numbers ------------------------------------------------------------------- */

enum { TARN_AOT_RANDOM_WORDS = 624 };

/** A Mersenne Twister, laid out as compiled code changes it. */
typedef struct tarn_aot_random {
    int32_t index; /**< of the next word; TARN_AOT_RANDOM_WORDS: none is left */
    uint32_t words[TARN_AOT_RANDOM_WORDS];
    int32_t has_gauss; /**< compiled code keeps every second normal number */
    double gauss;
    int32_t is_seeded;
} tarn_aot_random;

/** The state of this thread behind random.*, np.random.* and Numba itself. Seeded by the
 *  system at first use, in a forked child anew. */
tarn_aot_random *tarn_aot_get_py_random_state(void);
tarn_aot_random *tarn_aot_get_np_random_state(void);
tarn_aot_random *tarn_aot_get_internal_random_state(void);
/** Begin the sequence of a seed, the one that NumPy's and Python's twister has. */
void tarn_aot_rnd_init(tarn_aot_random *state, uint32_t seed);
/** Make the next words; compiled code takes them from `words` itself. */
void tarn_aot_rnd_shuffle(tarn_aot_random *state);
/** A Poisson number for a mean of 10 or more (NumPy's legacy generator). */
int64_t tarn_aot_poisson_ptrs(tarn_aot_random *state, double mean);

/* --- the rest ------------------------------------------------------------------------- */

/** Does nothing: where a debugger stops. */
void tarn_aot_gdb_breakpoint(void);

TARN_END_DECLS
#endif
