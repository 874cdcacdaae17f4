/* site.c -- where in the user's program the calling thread is.
 *
 * Only the language above knows which line of the user's program asks for memory, and
 * only the logger beneath writes it down; in between lie resources that know nothing of
 * either. So the plugin leaves the place with the thread, and the logger picks it up. Or
 * the logger has it found, when it is about to write it.
 */
#include "trace/site.h"
#include <stdatomic.h>

static _Thread_local tarn_site current_site;
static _Atomic(tarn_site_finder) finder;

tarn_site tarn_site_set(tarn_site site)
{
    tarn_site before = current_site;

    current_site = site;
    return before;
}

tarn_site tarn_site_current(void)
{
    return current_site;
}

void tarn_site_set_finder(tarn_site_finder find)
{
    atomic_store(&finder, find);
}

tarn_site tarn__site_find(bool freeing)
{
    tarn_site_finder find = current_site.file ? NULL : atomic_load(&finder);

    return find ? find(freeing) : current_site;
}
