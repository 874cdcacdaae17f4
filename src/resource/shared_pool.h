/* shared_pool.h -- the driver pools that Tarn created for export, by number.
 *
 * An importer keeps a pool imported and must tell it from the next one. The driver soon
 * reuses the handle of a destroyed pool. So each pool has a number, which is unique in
 * the process. No pool may end while the driver exports it.
 */
#ifndef TARN_RESOURCE_SHARED_POOL_H
#define TARN_RESOURCE_SHARED_POOL_H

#include "driver/driver.h"

/* Enter a pool; returns false without host memory. Remove it before the pool ends, which
 * waits for exports. */
bool tarn__shared_pool_add(CUmemoryPool_ pool);
void tarn__shared_pool_remove(CUmemoryPool_ pool);

/* Take and release the lock. No pool of Tarn ends in between. Held across driver
 * calls. */
void tarn__shared_pool_lock(void);
void tarn__shared_pool_unlock(void);

/* Return the number of a pool. For a foreign pool it is the handle, which is larger than
 * any number. `lock` held. */
uint64_t tarn__shared_pool_number(CUmemoryPool_ pool);

#endif
