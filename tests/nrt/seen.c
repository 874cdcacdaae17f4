/* What a tool that watches the program has to see; run under Valgrind or built with ASan
 * by CMakeLists.txt, which expects the tool's words.
 *
 *     seen late    a byte written into a block that was released, and is in quarantine
 *     seen slab    ... into a small block of a chunk
 *     seen leak    a block that nobody releases
 */
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

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";

    if (!strcmp(what, "late"))
        return write_late(TARN_NRT_QUARANTINE);
    if (!strcmp(what, "slab"))
        return write_late(TARN_NRT_SLABS);
    if (!strcmp(what, "leak"))
        return NRT_MemInfo_alloc(200) == NULL;
    fprintf(stderr, "usage: seen late | slab | leak\n");
    return 2;
}
