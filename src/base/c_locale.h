/* c_locale.h -- numbers with a decimal point, whatever locale the program has set. */
#ifndef TARN_BASE_C_LOCALE_H
#define TARN_BASE_C_LOCALE_H

#include <locale.h>

/* Select the locale "C" for this thread; returns its former locale. glibc has "C" built in,
 * so newlocale() neither allocates nor fails. */
static inline locale_t tarn__c_locale_begin(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

static inline void tarn__c_locale_end(locale_t former)
{
    uselocale(former);
}

#endif
