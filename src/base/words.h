/* words.h -- what was said last on a thread: its failure and its warning. */
#ifndef TARN_BASE_WORDS_H
#define TARN_BASE_WORDS_H

#include <tarn/status.h>

struct tarn__words {
    tarn_error error;
    char warning[480];
};

/* This thread's, made at its first use; NULL: no host memory. */
struct tarn__words *tarn__words_get(void);
/* The same, or NULL where there is none yet. */
const struct tarn__words *tarn__words_look(void);

#endif
