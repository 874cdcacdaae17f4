/* fork.c -- hold all locks of this module over a fork, so that a child finds them free
 * and the lists consistent.
 */
#include "nrt/alloc_site.h"
#include "nrt/memsys.h"
#include "nrt/registry.h"

static void lock_all(void)
{
    tarn__memsys_lock();
    tarn__registry_lock();
    for (unsigned i = 0; i < TARN__RUNTIMES; i++)
        if (tarn__registry_at(i))
            pthread_mutex_lock(&tarn__registry_at(i)->lock);
    tarn__alloc_site_lock();
}

static void unlock_all(void)
{
    tarn__alloc_site_unlock();
    for (unsigned i = 0; i < TARN__RUNTIMES; i++)
        if (tarn__registry_at(i))
            pthread_mutex_unlock(&tarn__registry_at(i)->lock);
    tarn__registry_unlock();
    tarn__memsys_unlock();
}

/* When the library is loaded: some calls take a lock and use no shard. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(lock_all, unlock_all, unlock_all);
}
