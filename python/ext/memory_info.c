/* memory_info.c -- the device's free memory, for the rows of the log.
 *
 * A query of the driver takes longer than an allocation, so most rows count from the last
 * one.
 */
#include "memory_info.h"

enum { FRESH_NS = 1000000 };

static void note_blocking_call(tarn_blocking_hook *self)
{
    struct tarn__hook_probe *hook_probe = (struct tarn__hook_probe *)self;

    hook_probe->was_called = true;
    if (hook_probe->outer)
        hook_probe->outer->call(hook_probe->outer);
}

void tarn__memory_info_probe_begin(struct tarn__hook_probe *hook_probe)
{
    *hook_probe = (struct tarn__hook_probe){.before = {note_blocking_call}};
    hook_probe->outer = tarn_set_blocking_hook(&hook_probe->before);
}

bool tarn__memory_info_probe_end(const struct tarn__hook_probe *hook_probe)
{
    tarn_set_blocking_hook(hook_probe->was_called ? NULL : hook_probe->outer);
    return hook_probe->was_called;
}

static void query_memory(tarn__manager_object *manager, uint64_t now)
{
    const tarn_error kept = *tarn_error_last();
    size_t free_bytes = 0, total_bytes = 0;

    if (tarn_manager_get_memory_info(manager->manager, &free_bytes, &total_bytes) !=
        TARN_OK)
        free_bytes = total_bytes = 0;
    atomic_store(&manager->known_free, free_bytes);
    atomic_store(&manager->known_total, total_bytes);
    atomic_store(&manager->known_ns, now);
    /* Keep the error message of the call that the row is about, whatever failed here. */
    if (kept.status != TARN_OK)
        tarn_error_set_native(kept.status, kept.native, "%s", kept.message);
}

/* A pool's cached memory counts as free, so a block that it allocates or frees changes
 * the number. Only a pool answers without the driver, and rounds up to its quantum. For a
 * slab, whose blocks are longer, the number is right after the next query. */
static void count_block(tarn__manager_object *manager, const struct tarn__log_call *call)
{
    uint64_t taken = (call->bytes + TARN_POOL_QUANTUM - 1) & ~(TARN_POOL_QUANTUM - 1);

    if (call->action == TARN_ACTION_ALLOCATE)
        atomic_fetch_sub(&manager->known_free, taken);
    else if (call->action == TARN_ACTION_FREE)
        atomic_fetch_add(&manager->known_free, taken);
}

void tarn__memory_info_update(tarn__manager_object *manager, bool may_have_changed,
                              struct tarn__log_call *call)
{
    uint64_t known = atomic_load(&manager->known_ns), now = call->end_ns;

    if (may_have_changed || known == 0 || now - known > FRESH_NS)
        query_memory(manager, now);
    else if (atomic_load(&manager->known_total) > 0)
        count_block(manager, call);
    call->free_bytes = atomic_load(&manager->known_free);
    call->total_bytes = atomic_load(&manager->known_total);
}
