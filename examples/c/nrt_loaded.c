/* nrt_loaded.c -- use the runtime without linking it. A program that opens libtarn at run
 * time needs one function from it, and the header with the table alone. */
#include <dlfcn.h>
#include <stdio.h>
#include <tarn/nrt_external.h>

typedef const NRT_api_functions *get_api(void);

int main(int count, char **arguments)
{
    const char *path = count > 1 ? arguments[1] : TARN_LIBRARY;
    void *library = dlopen(path, RTLD_NOW);
    union {
        void *address;
        get_api *function;
    } found = {library ? dlsym(library, "tarn_nrt_get_api") : NULL};

    if (!found.address) {
        fprintf(stderr, "nrt_loaded: %s\n", dlerror());
        return 1;
    }
    const NRT_api_functions *nrt = found.function();
    NRT_MemInfo *mi = nrt->allocate(100);
    if (!mi)
        return 1;
    snprintf(nrt->get_data(mi), 100, "100 bytes of %s", path);
    puts(nrt->get_data(mi));
    nrt->release(mi);
    return 0;
}
