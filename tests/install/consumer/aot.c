/* aot.c -- links the static library beside libtarn, as a project outside Tarn would. */
#include <stdio.h>
#include <tarn/aot.h>

int main(void)
{
    const intptr_t shape[] = {2, 3}, strides[] = {24, 8}, six[] = {6};
    intptr_t stride;
    int fits = tarn_aot_attempt_nocopy_reshape(2, shape, strides, 1, six, &stride, 8, 0);

    printf("reshape %d, stride %td\n", fits, stride);
    return 0;
}
