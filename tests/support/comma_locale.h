/* comma_locale.h -- a locale whose decimal point is a comma. No such locale may be installed. */
#ifndef TARN_TEST_COMMA_LOCALE_H
#define TARN_TEST_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file LC_NUMERIC that localedef of glibc writes for `decimal_point ","`: the magic
 * number, six fields, their offsets, and the fields. */
static const unsigned char comma_locale_numeric[] = {
    0x14, 0x11, 0x03, 0x20, 0x06, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x22,
    0x00, 0x00, 0x00, 0x23, 0x00, 0x00, 0x00, 0x24, 0x00, 0x00, 0x00, 0x28, 0x00,
    0x00, 0x00, 0x2c, 0x00, 0x00, 0x00, 0x2c, 0x00, 0x00, 0x00, 0x2c, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x55, 0x54, 0x46, 0x2d, 0x38, 0x00};

/* Select the locale for the numbers of this process; false: it could not be made. */
static inline bool set_comma_locale(void)
{
    char folder[] = "/tmp/tarn-locale-XXXXXX", path[64];

    if (!mkdtemp(folder))
        return false;
    snprintf(path, sizeof path, "%s/comma", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/comma/LC_NUMERIC", folder);
    FILE *file = fopen(path, "wb");
    if (file) {
        fwrite(comma_locale_numeric, 1, sizeof comma_locale_numeric, file);
        fclose(file);
    }
    setenv("LOCPATH", folder, 1);
    bool is_set =
        setlocale(LC_NUMERIC, "comma") != NULL && *localeconv()->decimal_point == ',';
    unlink(path);
    snprintf(path, sizeof path, "%s/comma", folder);
    rmdir(path);
    rmdir(folder);
    return is_set;
}

#endif
