/* site.c -- where in the user's program the calling thread is.
 *
 * Only the language above knows which line of the user's program asks for memory, and
 * only the logger beneath writes it down; in between lie resources that know nothing of
 * either. So the plugin leaves the place with the thread, and the logger picks it up.
 */
#include <tarn/trace.h>

static _Thread_local tarn_site current_site;

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
