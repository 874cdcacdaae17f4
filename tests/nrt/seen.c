/* Cause misuse that a memory checker has to report. CMakeLists.txt runs it under Valgrind
 * or builds it with ASan, and expects the tool's message.
 *
 *     seen late    a byte written into a block that was released, and is in quarantine
 *     seen slab    ... into a small block of a chunk
 *     seen leak    a block that is never released
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tarn/nrt.h>

static int write_late(unsigned modes)
{
    tarn_runtime_set_modes(tarn_runtime_default(), modes);
    NRT_MemInfo *mi = NRT_MemInfo_alloc(200);
    volatile char *data = NRT_MemInfo_data(mi);

    data[100] = 1;
    NRT_MemInfo_release(mi);
    data[100] = 2;
    return 0;
}

/* A thread that ends leaves no copy of the pointer in a register or on a live stack. */
static void *lose(void *unused)
{
    (void)unused;
    return NRT_MemInfo_alloc(200) ? "" : NULL;
}

static int leak(void)
{
    pthread_t thread;
    void *was_made;

    return pthread_create(&thread, NULL, lose, NULL) || pthread_join(thread, &was_made) ||
           !was_made;
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";

    if (!strcmp(what, "late"))
        return write_late(TARN_NRT_QUARANTINE);
    if (!strcmp(what, "slab"))
        return write_late(TARN_NRT_SLABS);
    if (!strcmp(what, "leak"))
        return leak();
    fprintf(stderr, "usage: seen late | slab | leak\n");
    return 2;
}
