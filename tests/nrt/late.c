/* late.c -- open libtarn last, when other libraries have used most of the static TLS
 * surplus.
 *
 * That is the thread-local storage that libc reserves for libraries opened late (1,664
 * bytes by default). libtarn needs little of it, and works on every thread.
 *
 * late LIBRARY... libtarn.so
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tarn/nrt.h>

typedef const NRT_api_functions *get_api(void);
typedef const tarn_error *error_last(void);

static union {
    void *address;
    get_api *function;
} api;
static union {
    void *address;
    error_last *function;
} last;

/* Allocate a block; return the message of a failure, or NULL. */
static void *use(void *unused)
{
    const NRT_api_functions *nrt = api.function();
    NRT_MemInfo *mi = nrt->allocate(100);

    (void)unused;
    if (!mi)
        return "no block";
    memset(nrt->get_data(mi), 1, 100);
    nrt->release(mi);
    if (nrt->allocate(SIZE_MAX - 10))
        return "a block that cannot be";
    if (!strstr(last.function()->message, "cannot allocate"))
        return "no words";
    return NULL;
}

int main(int count, char **libraries)
{
    void *library = NULL, *failure = NULL;
    pthread_t thread;

    for (int i = 1; i < count; i++) {
        library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr, "late: number %d: %s\n", i, dlerror());
            return 1;
        }
    }
    api.address = library ? dlsym(library, "tarn_nrt_get_api") : NULL;
    last.address = library ? dlsym(library, "tarn_error_last") : NULL;
    if (!api.address || !last.address || use(NULL) ||
        pthread_create(&thread, NULL, use, NULL) != 0)
        return 1;
    pthread_join(thread, &failure);
    return failure != NULL;
}
