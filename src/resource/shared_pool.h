/* shared_pool.h -- the driver's pools that we made for export, by number.
 *
 * An importer keeps a pool of ours imported and has to tell it from the next one, and the
 * handle of a pool that was destroyed is soon another's. So each has a number, which is
 * used once a process. And no pool may end while the driver is asked to export it.
 */
#ifndef TARN_RESOURCE_SHARED_POOL_H
#define TARN_RESOURCE_SHARED_POOL_H

#include "driver/driver.h"

/* Note a pool; false: no host memory. Before it ends, forget it, which waits for exports. */
bool tarn__shared_pool_add(CUmemoryPool_ pool);
void tarn__shared_pool_remove(CUmemoryPool_ pool);

/* Between these no pool of ours ends. Held over driver calls. */
void tarn__shared_pools_lock(void);
void tarn__shared_pools_unlock(void);

/* The number of a pool, under the lock. One that is not ours has its handle, which is
 * larger than any number. */
uint64_t tarn__shared_pool_number(CUmemoryPool_ pool);

#endif
