/* workspace.c -- what a guard has on a device: streams, events, pinned memory.
 *
 * A reset of the context ends all of it. Then the next use makes a new workspace. The old
 * one stays in host memory until the guard ends, because another thread may look at it.
 * Pinned memory is allocated for several checks at once, since an allocation is
 * slow.
 *
 * There are two streams. The own stream waits for streams of the program, and has the work
 * of freed blocks. It is registered, so that a pool can record its event fences at any
 * time. The fill stream waits for nothing, so that new blocks have their red zones soon.
 */
#include "guard/workspace.h"
#include "base/mutex_assert.h"
#include "driver/quiesce.h"
#include <stdlib.h>

enum {
    EVENTS = 256, /* kept for reuse */
    CHUNKS = 64,  /* most pieces of pinned memory of each kind */
    SLOTS_IN_CHUNK = 64,
    WINDOW_SLOTS_IN_CHUNK = 4
};

/* A piece of pinned memory. */
struct chunk {
    struct chunk *next;
    void *memory;
    struct tarn__workspace_slot slots[SLOTS_IN_CHUNK];
};

struct tarn__workspace {
    struct tarn__workspace *older; /* of a context that was reset */
    uint64_t context_generation;
    CUstream_ handle, fill_handle;
    tarn_stream registered;
    CUevent_ events[EVENTS];
    size_t event_count;
    struct tarn__workspace_slot *slots[2]; /* free ones, by has_window */
    struct chunk *chunks;
    unsigned chunk_count[2];
};

/* --- the streams --- */

static void destroy_stream(const struct tarn__scope *scope, CUstream_ handle)
{
    if (handle && scope->calls->stream_destroy(handle) != CUDA_SUCCESS_)
        scope->calls->stream_destroy(handle);
}

static void end_streams(const struct tarn__scope *scope,
                        struct tarn__workspace *workspace)
{
    if (workspace->registered)
        tarn_stream_unregister(workspace->registered);
    destroy_stream(scope, workspace->handle);
    destroy_stream(scope, workspace->fill_handle);
    workspace->registered = NULL;
}

/* On failure some streams may exist. */
static tarn_status make_streams(const struct tarn__scope *scope, int device,
                                struct tarn__workspace *workspace)
{
    CUresult_ result =
        scope->calls->stream_create(&workspace->handle, CU_STREAM_NON_BLOCKING_);

    if (result == CUDA_SUCCESS_)
        result =
            scope->calls->stream_create(&workspace->fill_handle, CU_STREAM_NON_BLOCKING_);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("guard", "cuStreamCreate", result, "device %d",
                                   device);
    return tarn_stream_register(device, (tarn_stream)workspace->handle,
                                &workspace->registered);
}

/* --- the workspace --- */

/* Return the workspace of this generation, or NULL. `lock` held. */
static struct tarn__workspace *find(const struct tarn__guard *guard, int device,
                                    uint64_t context_generation)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    struct tarn__workspace *found = guard->workspaces[device];

    return found && found->context_generation == context_generation ? found : NULL;
}

static tarn_status make(struct tarn__guard *guard, int device,
                        const struct tarn__scope *scope, struct tarn__workspace **out)
{
    struct tarn__workspace *made = calloc(1, sizeof *made);

    if (!made)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "guard: no host memory");
    tarn_status status = make_streams(scope, device, made);
    if (status != TARN_OK) {
        end_streams(scope, made);
        free(made);
        return status;
    }
    made->context_generation = scope->context_generation;
    tarn__mutex_lock(&guard->lock);
    struct tarn__workspace *found = find(guard, device, scope->context_generation);
    if (!found) {
        made->older = guard->workspaces[device];
        guard->workspaces[device] = made;
    }
    tarn__mutex_unlock(&guard->lock);
    if (found) { /* another thread was faster */
        end_streams(scope, made);
        free(made);
        made = found;
    }
    *out = made;
    return TARN_OK;
}

tarn_status tarn__workspace_enter(struct tarn__guard *guard, int device,
                                  struct tarn__workspace_use *out)
{
    struct tarn__workspace_use use = {.device = device};
    tarn_status status = tarn__scope_enter_relaxed(device, &use.scope);

    if (status != TARN_OK)
        return status;
    tarn__mutex_lock(&guard->lock);
    use.workspace = find(guard, device, use.scope.context_generation);
    tarn__mutex_unlock(&guard->lock);
    if (!use.workspace)
        status = make(guard, device, &use.scope, &use.workspace);
    if (status != TARN_OK) {
        tarn__scope_leave(&use.scope);
        return status;
    }
    *out = use;
    return TARN_OK;
}

void tarn__workspace_leave(struct tarn__workspace_use *use)
{
    tarn__scope_leave(&use->scope);
}

CUstream_ tarn__workspace_stream(const struct tarn__workspace_use *use)
{
    return use->workspace->handle;
}

CUstream_ tarn__workspace_fill_stream(const struct tarn__workspace_use *use)
{
    return use->workspace->fill_handle;
}

tarn_stream tarn__workspace_registered(const struct tarn__workspace_use *use)
{
    return use->workspace->registered;
}

/* --- events --- */

CUevent_ tarn__workspace_take_event(struct tarn__guard *guard,
                                    struct tarn__workspace_use *use)
{
    struct tarn__workspace *workspace = use->workspace;
    CUevent_ event = NULL;

    tarn__mutex_lock(&guard->lock);
    if (workspace->event_count > 0)
        event = workspace->events[--workspace->event_count];
    tarn__mutex_unlock(&guard->lock);
    if (!event &&
        use->scope.calls->event_create(&event, CU_EVENT_DISABLE_TIMING_) != CUDA_SUCCESS_)
        event = NULL;
    return event;
}

void tarn__workspace_put_event(struct tarn__guard *guard, struct tarn__workspace_use *use,
                               CUevent_ event)
{
    struct tarn__workspace *workspace = use->workspace;

    if (!event)
        return;
    tarn__mutex_lock(&guard->lock);
    bool is_kept = workspace->event_count < EVENTS;
    if (is_kept)
        workspace->events[workspace->event_count++] = event;
    tarn__mutex_unlock(&guard->lock);
    if (!is_kept && use->scope.calls->event_destroy(event) != CUDA_SUCCESS_)
        use->scope.calls->event_destroy(event);
}

/* --- pinned memory --- */

static size_t slot_bytes(const struct tarn__guard *guard, bool has_window)
{
    size_t zones = 2 * (guard->options.zone_bytes + 2 * (size_t)TARN_ALIGNMENT);

    return zones + (has_window ? TARN__WORKSPACE_WINDOW : 0);
}

/* Allocate a chunk. NULL: there is no memory. */
static struct chunk *make_chunk(const struct tarn__guard *guard,
                                const struct tarn__scope *scope, bool has_window,
                                size_t count)
{
    struct chunk *chunk = calloc(1, sizeof *chunk);
    size_t each = slot_bytes(guard, has_window);

    if (!chunk)
        return NULL;
    if (scope->calls->mem_host_alloc(&chunk->memory, count * each,
                                     CU_MEMHOSTALLOC_PORTABLE_) != CUDA_SUCCESS_) {
        free(chunk);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        chunk->slots[i] = (struct tarn__workspace_slot){
            .bytes = (unsigned char *)chunk->memory + i * each, .has_window = has_window};
    return chunk;
}

/* Take a free slot. `lock` held. */
static struct tarn__workspace_slot *take_free_slot(struct tarn__guard *guard,
                                                   struct tarn__workspace *workspace,
                                                   bool has_window)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    struct tarn__workspace_slot *slot = workspace->slots[has_window];

    if (slot)
        workspace->slots[has_window] = slot->next;
    return slot;
}

struct tarn__workspace_slot *tarn__workspace_take_slot(struct tarn__guard *guard,
                                                       struct tarn__workspace_use *use,
                                                       bool has_window)
{
    struct tarn__workspace *workspace = use->workspace;
    size_t count = has_window ? WINDOW_SLOTS_IN_CHUNK : SLOTS_IN_CHUNK;

    tarn__mutex_lock(&guard->lock);
    struct tarn__workspace_slot *slot = take_free_slot(guard, workspace, has_window);
    bool can_grow = !slot && workspace->chunk_count[has_window] < CHUNKS;
    workspace->chunk_count[has_window] += can_grow;
    tarn__mutex_unlock(&guard->lock);
    if (!can_grow)
        return slot;
    struct chunk *chunk = make_chunk(guard, &use->scope, has_window, count);
    tarn__mutex_lock(&guard->lock);
    if (chunk) {
        chunk->next = workspace->chunks;
        workspace->chunks = chunk;
        for (size_t i = 0; i < count; i++) {
            chunk->slots[i].next = workspace->slots[has_window];
            workspace->slots[has_window] = &chunk->slots[i];
        }
    } else {
        workspace->chunk_count[has_window]--;
    }
    slot = take_free_slot(guard, workspace, has_window);
    tarn__mutex_unlock(&guard->lock);
    return slot;
}

void tarn__workspace_put_slot(struct tarn__guard *guard, struct tarn__workspace_use *use,
                              struct tarn__workspace_slot *slot)
{
    tarn__mutex_lock(&guard->lock);
    slot->next = use->workspace->slots[slot->has_window];
    use->workspace->slots[slot->has_window] = slot;
    tarn__mutex_unlock(&guard->lock);
}

/* --- the end --- */

static void free_pinned(const struct tarn__scope *scope, void *memory)
{
    if (scope->calls->mem_free_host(memory) != CUDA_SUCCESS_)
        scope->calls->mem_free_host(memory);
}

/* Release what the driver has of a workspace; the context is that of the scope. */
static void release(const struct tarn__scope *scope, struct tarn__workspace *workspace)
{
    tarn__quiesce_device(scope->calls);
    for (struct chunk *chunk = workspace->chunks; chunk; chunk = chunk->next)
        free_pinned(scope, chunk->memory);
    for (size_t i = 0; i < workspace->event_count; i++)
        if (scope->calls->event_destroy(workspace->events[i]) != CUDA_SUCCESS_)
            scope->calls->event_destroy(workspace->events[i]);
    end_streams(scope, workspace);
}

static void free_workspace(struct tarn__workspace *workspace)
{
    if (workspace->registered)
        tarn_stream_unregister(workspace->registered);
    while (workspace->chunks) {
        struct chunk *chunk = workspace->chunks;
        workspace->chunks = chunk->next;
        free(chunk);
    }
    free(workspace);
}

void tarn__workspace_end_all(struct tarn__guard *guard)
{
    for (int i = 0; i < TARN__DEVICES_MAX; i++) {
        struct tarn__workspace *workspace = guard->workspaces[i];
        struct tarn__scope scope;
        if (workspace && (tarn__scope_enter_relaxed(i, &scope) == TARN_OK ||
                          tarn__scope_enter_relaxed(i, &scope) == TARN_OK)) {
            if (scope.context_generation == workspace->context_generation)
                release(&scope, workspace);
            tarn__scope_leave(&scope);
        }
        while (workspace) {
            struct tarn__workspace *older = workspace->older;
            free_workspace(workspace);
            workspace = older;
        }
        guard->workspaces[i] = NULL;
    }
}

bool tarn__workspace_is_used(struct tarn__guard *guard, int device)
{
    tarn__mutex_lock(&guard->lock);
    bool is_found = guard->workspaces[device] != NULL;
    tarn__mutex_unlock(&guard->lock);
    return is_found;
}
