/* modes.h -- debug modes, and what slows an instance down. */
#ifndef TARN_NRT_MODES_H
#define TARN_NRT_MODES_H

#include "nrt/runtime.h"

/* Read the environment and look for Valgrind and ASan, once. */
void tarn__modes_ready(tarn_runtime *runtime);

/* Recompute `word`. `lock` held. */
void tarn__modes_update_word(tarn_runtime *runtime);

/* Does Valgrind or ASan watch this process? Valid after tarn__modes_ready(). */
bool tarn__modes_has_sanitizer(void);

#endif
