/* alias.h -- a helper under Numba's name too: `numba_sdiv` is `tarn_helper_sdiv`. */
#ifndef TARN_HELPER_ALIAS_H
#define TARN_HELPER_ALIAS_H

#define TARN__ALIAS(name)                              \
    extern __typeof__(tarn_helper_##name) numba_##name \
        __attribute__((alias("tarn_helper_" #name)))

#endif
