/* hungry.c -- a library with static thread-local storage, as OpenMP runtimes and
 * allocators have it; late.c opens several of them. */
char *tarn_hungry(void);

static _Thread_local char words[480] __attribute__((tls_model("initial-exec")));

char *tarn_hungry(void)
{
    words[0] = 1;
    return words;
}
