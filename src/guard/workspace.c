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
    MOST_IN_CHUNK = 64
};

/* A piece of pinned memory. */
struct chunk {
    struct chunk *next;
    void *memory;
    struct tarn__workspace_buffer buffers[MOST_IN_CHUNK];
};

/* How many buffers of a kind a piece has, and how many pieces there are at most. */
static const struct {
    unsigned in_chunk, chunks;
} sizes[TARN__WORKSPACE_KINDS] = {{MOST_IN_CHUNK, 64}, {4, 64}, {1, 8}};

struct tarn__workspace {
    struct tarn__workspace *older; /* of a context that was reset */
    uint64_t context_generation;
    CUstream_ handle, fill_handle;
    tarn_stream registered;
    CUevent_ events[EVENTS];
    size_t event_count;
    struct tarn__workspace_buffer *buffers[TARN__WORKSPACE_KINDS]; /* free ones */
    struct chunk *chunks;
    unsigned chunk_count[TARN__WORKSPACE_KINDS];
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

bool tarn__workspace_is_mapped(const struct tarn__workspace_use *use,
                               tarn_device_ptr address)
{
    CUdeviceptr_ base;
    size_t bytes;

    return use->scope.calls->mem_get_address_range(&base, &bytes, address) ==
           CUDA_SUCCESS_;
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

static size_t buffer_bytes(const struct tarn__guard *guard,
                           enum tarn__workspace_kind kind)
{
    size_t zones = 2 * (guard->options.zone_bytes + 2 * (size_t)TARN_ALIGNMENT);

    if (kind == TARN__WORKSPACE_FOR_BATCH)
        return TARN__WORKSPACE_BATCH;
    return zones + (kind == TARN__WORKSPACE_FOR_WINDOW ? TARN__WORKSPACE_WINDOW : 0);
}

/* Allocate a chunk. NULL: there is no memory. */
static struct chunk *make_chunk(const struct tarn__guard *guard,
                                const struct tarn__scope *scope,
                                enum tarn__workspace_kind kind)
{
    struct chunk *chunk = calloc(1, sizeof *chunk);
    size_t each = buffer_bytes(guard, kind);

    if (!chunk)
        return NULL;
    if (scope->calls->mem_host_alloc(&chunk->memory, sizes[kind].in_chunk * each,
                                     CU_MEMHOSTALLOC_PORTABLE_) != CUDA_SUCCESS_) {
        free(chunk);
        return NULL;
    }
    for (size_t i = 0; i < sizes[kind].in_chunk; i++)
        chunk->buffers[i] = (struct tarn__workspace_buffer){
            .bytes = (unsigned char *)chunk->memory + i * each, .kind = kind};
    return chunk;
}

/* Take a free buffer. `lock` held. */
static struct tarn__workspace_buffer *take_free_buffer(struct tarn__guard *guard,
                                                       struct tarn__workspace *workspace,
                                                       enum tarn__workspace_kind kind)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    struct tarn__workspace_buffer *buffer = workspace->buffers[kind];

    if (buffer)
        workspace->buffers[kind] = buffer->next;
    return buffer;
}

struct tarn__workspace_buffer *tarn__workspace_take_buffer(
    struct tarn__guard *guard, struct tarn__workspace_use *use,
    enum tarn__workspace_kind kind)
{
    struct tarn__workspace *workspace = use->workspace;

    tarn__mutex_lock(&guard->lock);
    struct tarn__workspace_buffer *buffer = take_free_buffer(guard, workspace, kind);
    bool can_grow = !buffer && workspace->chunk_count[kind] < sizes[kind].chunks;
    workspace->chunk_count[kind] += can_grow;
    tarn__mutex_unlock(&guard->lock);
    if (!can_grow)
        return buffer;
    struct chunk *chunk = make_chunk(guard, &use->scope, kind);
    tarn__mutex_lock(&guard->lock);
    if (chunk) {
        chunk->next = workspace->chunks;
        workspace->chunks = chunk;
        for (size_t i = 0; i < sizes[kind].in_chunk; i++) {
            chunk->buffers[i].next = workspace->buffers[kind];
            workspace->buffers[kind] = &chunk->buffers[i];
        }
    } else {
        workspace->chunk_count[kind]--;
    }
    buffer = take_free_buffer(guard, workspace, kind);
    tarn__mutex_unlock(&guard->lock);
    return buffer;
}

void tarn__workspace_put_buffer(struct tarn__guard *guard,
                                struct tarn__workspace_use *use,
                                struct tarn__workspace_buffer *buffer)
{
    tarn__mutex_lock(&guard->lock);
    buffer->next = use->workspace->buffers[buffer->kind];
    use->workspace->buffers[buffer->kind] = buffer;
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
