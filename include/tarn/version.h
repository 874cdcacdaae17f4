/* version.h -- which Tarn this is; CMake and Python read the numbers from here. */
#ifndef TARN_VERSION_H
#define TARN_VERSION_H

#include <tarn/status.h>

/** The major version. */
#define TARN_VERSION_MAJOR 0
/** The minor version. Before 1.0 a new one may change the interface. */
#define TARN_VERSION_MINOR 2
/** The patch version. */
#define TARN_VERSION_PATCH 0

TARN_BEGIN_DECLS

/**
 * Returns the version of the library that the process loaded.
 *
 * Thread-safety: any thread.
 *
 * @return for example "0.2.0"; static storage
 * @since 0.1
 */
TARN_API const char *tarn_version(void);

TARN_END_DECLS
#endif
