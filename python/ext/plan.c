/* plan.c -- plans from files, for pools. */
#include "plan.h"
#include <errno.h>
#include <stdio.h>

static long read_file(void *data, char *buffer, size_t capacity)
{
    FILE *file = data;
    size_t count = fread(buffer, 1, capacity, file);

    return count == 0 && ferror(file) ? -1 : (long)count;
}

int tarn__plan_read_file(const char *path, tarn_plan **out, tarn_status *status)
{
    FILE *file = fopen(path, "rbe");

    if (file == NULL)
        return -1;
    *status = tarn_plan_read(path, read_file, file, out);
    fclose(file);
    return 0;
}
