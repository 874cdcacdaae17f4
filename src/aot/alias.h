/* alias.h -- a support function under Numba's name too: `numba_sdiv` is `tarn_aot_sdiv`.
 */
#ifndef TARN_AOT_ALIAS_H
#define TARN_AOT_ALIAS_H

#define TARN__ALIAS(name)                           \
    extern __typeof__(tarn_aot_##name) numba_##name \
        __attribute__((alias("tarn_aot_" #name)))

#endif
