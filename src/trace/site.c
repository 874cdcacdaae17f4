/* site.c -- the place in the user's program where the calling thread is.
 *
 * Only the language runtime above knows which line of the user's program requests memory,
 * and only the logger below records it. The resources in between know neither. So the
 * plugin sets the place for the thread, and the logger reads it. Or the logger calls a
 * finder for it, just before it writes the row.
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
