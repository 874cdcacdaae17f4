/* numba_helpers.c -- functions outside of the module that are known to release nothing.
 *
 * The list is that of Numba 0.56 to 0.68: its runtime, its helpers in C, and the math
 * functions of the C library that its code calls. A name belongs here if its source
 * neither lowers a count nor calls Python or a function of the module that may do so. So
 * these are missing on purpose:
 *
 *   - NRT_MemInfo_release, NRT_MemInfo_call_dtor: they release;
 *   - numba_list_setitem, _pop and _delitem, numba_dict_insert, _delitem and _popitem:
 *     they release what they replace or remove;
 *   - numba_dict_lookup: it calls the comparison of the keys, which may be the user's;
 *   - numba_gil_ensure, numba_unpickle and all others that enter Python: its finalizers
 *     may run anything.
 */
#include "prune/numba_helpers.h"
#include <stdlib.h>
#include <string.h>

/* In the order of strcmp(). */
static const char *const helpers[] = {
    "NRT_Allocate",
    "NRT_Allocate_External",
    "NRT_Free",
    "NRT_MemInfo_alloc",
    "NRT_MemInfo_alloc_aligned",
    "NRT_MemInfo_alloc_aligned_external",
    "NRT_MemInfo_alloc_dtor",
    "NRT_MemInfo_alloc_dtor_safe",
    "NRT_MemInfo_alloc_external",
    "NRT_MemInfo_alloc_safe",
    "NRT_MemInfo_alloc_safe_aligned",
    "NRT_MemInfo_alloc_safe_aligned_external",
    "NRT_MemInfo_data",
    "NRT_MemInfo_data_fast",
    "NRT_MemInfo_new",
    "NRT_MemInfo_new_varsize",
    "NRT_MemInfo_new_varsize_dtor",
    "NRT_MemInfo_parent",
    "NRT_MemInfo_refcount",
    "NRT_MemInfo_size",
    "NRT_MemInfo_varsize_alloc",
    "NRT_MemInfo_varsize_free",
    "NRT_MemInfo_varsize_realloc",
    "NRT_Reallocate",
    "NRT_get_api",
    "acos",
    "acosf",
    "acosh",
    "acoshf",
    "asin",
    "asinf",
    "asinh",
    "asinhf",
    "atan",
    "atan2",
    "atan2f",
    "atanf",
    "atanh",
    "atanhf",
    "cbrt",
    "cbrtf",
    "ceil",
    "ceilf",
    "copysign",
    "copysignf",
    "cos",
    "cosf",
    "cosh",
    "coshf",
    "erf",
    "erfc",
    "erfcf",
    "erff",
    "exp",
    "exp2",
    "exp2f",
    "expf",
    "expm1",
    "expm1f",
    "fabs",
    "fabsf",
    "floor",
    "floorf",
    "fmod",
    "fmodf",
    "frexp",
    "frexpf",
    "hypot",
    "hypotf",
    "ldexp",
    "ldexpf",
    "lgamma",
    "lgammaf",
    "log",
    "log10",
    "log10f",
    "log1p",
    "log1pf",
    "log2",
    "log2f",
    "logf",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "nextafter",
    "nextafterf",
    "numba_attempt_nocopy_reshape",
    "numba_cpow",
    "numba_cpowf",
    "numba_dict_iter",
    "numba_dict_iter_next",
    "numba_dict_iter_sizeof",
    "numba_dict_length",
    "numba_erf",
    "numba_erfc",
    "numba_erfcf",
    "numba_erff",
    "numba_fixed_fmod",
    "numba_fixed_fmodf",
    "numba_fptoui",
    "numba_fptouif",
    "numba_frexp",
    "numba_frexpf",
    "numba_gamma",
    "numba_gammaf",
    "numba_get_PyUnicode_ExtendedCase",
    "numba_get_internal_random_state",
    "numba_get_np_random_state",
    "numba_get_py_random_state",
    "numba_gettyperecord",
    "numba_ldexp",
    "numba_ldexpf",
    "numba_lgamma",
    "numba_lgammaf",
    "numba_list_allocated",
    "numba_list_append",
    "numba_list_base_ptr",
    "numba_list_getitem",
    "numba_list_is_mutable",
    "numba_list_iter",
    "numba_list_iter_next",
    "numba_list_iter_sizeof",
    "numba_list_length",
    "numba_list_new",
    "numba_list_set_is_mutable",
    "numba_list_set_method_table",
    "numba_list_size_address",
    "numba_nextafter",
    "numba_nextafterf",
    "numba_rnd_init",
    "numba_rnd_shuffle",
    "numba_sdiv",
    "numba_set_fnclex",
    "numba_srem",
    "numba_udiv",
    "numba_urem",
    "pow",
    "powf",
    "rint",
    "rintf",
    "round",
    "roundf",
    "sin",
    "sinf",
    "sinh",
    "sinhf",
    "sqrt",
    "sqrtf",
    "tan",
    "tanf",
    "tanh",
    "tanhf",
    "tgamma",
    "tgammaf",
    "trunc",
    "truncf",
};

struct key {
    const char *name;
    size_t length;
};

static int compare(const void *left, const void *right)
{
    const struct key *key = left;
    const char *helper = *(const char *const *)right;
    int order = strncmp(key->name, helper, key->length);

    return order != 0 ? order : -(helper[key->length] != 0);
}

bool tarn__numba_helpers_keep(const char *name, size_t length)
{
    struct key key = {name, length};

    return bsearch(&key, helpers, sizeof helpers / sizeof helpers[0], sizeof helpers[0],
                   compare) != NULL;
}
