/* A program with Tarn as a static library. */
#include <stdio.h>
#include <tarn/tarn.h>

int main(void)
{
    tarn_meminfo *meminfo = NRT_MemInfo_alloc(64);

    printf("tarn %s, %zu bytes\n", tarn_version(), NRT_MemInfo_size(meminfo));
    NRT_MemInfo_release(meminfo);
    return 0;
}
