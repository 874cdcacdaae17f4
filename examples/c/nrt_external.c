/* nrt_external.c -- C code that uses the function table of a runtime: existing memory
 * becomes a counted block.
 *
 * my_allocate() also compiles against Numba's nrt_external.h, for calls from jitted code.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tarn/nrt.h>

static int freed;

static void my_dtor(void *ptr)
{
    freed++;
    free(ptr);
}

static NRT_MemInfo *my_allocate(const NRT_api_functions *nrt)
{
    /* heap allocate some memory */
    void *data = malloc(10);
    /* wrap the allocated memory; yield a new reference */
    NRT_MemInfo *mi = nrt->manage_memory(data, my_dtor);
    /* acquire reference */
    nrt->acquire(mi);
    /* release reference */
    nrt->release(mi);
    return mi;
}

int main(void)
{
    const NRT_api_functions *nrt = NRT_get_api();
    NRT_MemInfo *mi = my_allocate(nrt);

    printf("%zu reference to %p\n", NRT_MemInfo_refcount(mi), nrt->get_data(mi));
    if (freed)
        return 1;
    nrt->release(mi);
    printf("freed %d time\n", freed);
    return freed == 1 ? 0 : 1;
}
