/* library.h -- the owner of a frame's code: the program, a library or the interpreter. */
#ifndef TARN_CLI_REPORT_LIBRARY_H
#define TARN_CLI_REPORT_LIBRARY_H

#include <stdbool.h>

/* The flags of a frame in the data block (docs/design/report-data.md). */
enum {
    LIBRARY_CODE = 1,
    LIBRARY_NATIVE = 2,
    LIBRARY_INTERPRETER = 4, /* the interpreter or its import system */
    LIBRARY_TARN = 8         /* not in the data block: never a framework */
};

struct library {
    unsigned flags;
    const char *name; /* begins in the file's path, or is "" */
    int length;       /* of the name */
};

/* Return the owner of a file's code: "cupy" for
 * ".../site-packages/cupy/_core/core.py". */
struct library library_of(const char *file, bool is_native);

#endif
