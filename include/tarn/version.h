/* version.h -- which Tarn this is; CMake and Python read the numbers from here. */
#ifndef TARN_VERSION_H
#define TARN_VERSION_H

#include <tarn/status.h>

#define TARN_VERSION_MAJOR 0
#define TARN_VERSION_MINOR 1
#define TARN_VERSION_PATCH 0

TARN_BEGIN_DECLS

/** The version of the library at run time, e.g. "0.1.0". Static storage; any thread. */
TARN_API const char *tarn_version(void);

TARN_END_DECLS
#endif
