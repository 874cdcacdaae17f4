/* version.c -- the version as text. */
#include <tarn/version.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *tarn_version(void)
{
    return TEXT(TARN_VERSION_MAJOR) "." TEXT(TARN_VERSION_MINOR) "." TEXT(
        TARN_VERSION_PATCH);
}
