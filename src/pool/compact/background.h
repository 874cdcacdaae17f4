/* background.h -- the background thread of a pool: it grows ahead of demand, and returns
 * idle memory when the device's memory is scarce.
 *
 * A pool has at most one such thread, and only with the option `background_thread` on
 * VMM. An upstream is a user's code, which no thread of the pool may call.
 *
 * Growth ahead. A search that grows the pool wakes the thread. For 100 ms after that the
 * thread looks each 200 us. If the peak of live bytes rose since the last look, it maps
 * handles where the pool would grow next, until `reserved / 16` bytes are free, or 64 MiB
 * where that is more. Nothing moves. The thread does not grow ahead in these cases:
 *
 *   - The policy is TARN_POOL_POLICY_TIGHT.
 *   - The pool has half of what it may have, of its maximum or of the device.
 *   - The device would have less free memory than twice the bound of scarcity.
 *   - The thread returned memory during the last 10 s.
 *
 * Scarcity. The device's memory is scarce below 2 GiB free, or a tenth of it where that
 * is more (budget.c). While the pool does not grow, the thread looks each 250 ms. It
 * queries the driver only if the pool has memory that was free at the last look as well,
 * beyond its minimum: `initial_bytes`. If the device's memory is scarce, the thread
 * returns that memory. First it queries all event fences. If no thread used the pool since
 * the last look, it also drains the thread caches. In this case it then waits for the
 * device, if unfenced memory is left and `oom_policy` allows it. A pool that grows within
 * 10 s after a return needed the memory. Each time this happens, the next return comes
 * later: after 0.5 s, doubled each time up to 64 s. Two pools on one device therefore do
 * not take memory from each other again and again. With TARN_POOL_MOVES_NEVER the thread
 * returns nothing.
 *
 * Life. The first growth of a search starts the thread, with all signals blocked, on the
 * CPUs of the device's NUMA node. Where it cannot be created, the pool works without it
 * and tries again at the next such growth. tarn__background_stop() ends it and waits for
 * its end: before a suspend and before the end of the pool. After a reset of the context
 * it ends by itself. Once exit has begun it makes no more driver calls. A forked child
 * has no such thread. There, each call that would wait for the thread returns before it
 * does.
 *
 * Locks. The thread only tries to take `growth` (pool.h), and not while another thread
 * waits for it. So another thread may hold `growth` while it waits for this one to end.
 * The thread holds it for one handle when it maps, and for at most 256 MiB when it unmaps.
 * It waits for the device without `growth`.
 *
 * Captures. The thread's capture mode is relaxed during its calls, so they invalidate no
 * capture.
 */
#ifndef TARN_POOL_BACKGROUND_H
#define TARN_POOL_BACKGROUND_H

#include "pool/pool.h"

/* Note that a search has grown the pool: start the thread, or wake it. Does nothing for a
 * pool without the option. `growth` held. */
void tarn__background_note_growth(struct tarn__pool *pool) TARN__REQUIRES(growth);
/* End the thread, if there is one, and wait for its end. `growth` held. */
void tarn__background_stop(struct tarn__pool *pool) TARN__REQUIRES(growth);

#endif
