/* vmm_peer.c -- access of other devices to a pool's memory.
 *
 * Access is set for each mapping, so a new mapping needs it as well. A peer without
 * access hangs or fails much later. The list of devices with access lies beside the
 * range, and every mapping gets access for the whole list.
 */
#include "pool/backing/vmm_peer.h"
#include "pool/backing/vmm_alias.h"
#include "pool/backing/vmm_table.h"

/* Return the peer's position in the list, or the list's end. */
static size_t find(const struct tarn__vmm *vmm, int peer)
{
    size_t i = 1;

    while (i < vmm->access_count && vmm->access[i].location.id != peer)
        i++;
    return i;
}

/* Check that the pool's device and the peer can reach each other. In a scope. */
static tarn_status check(const struct tarn__pages *pages, const struct tarn__calls *calls,
                         int peer)
{
    CUdevice_ device = 0, other = 0;
    int can = 0;
    CUresult_ result;

    if (peer == pages->device)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pool: device %d owns the pool, it is not a peer", peer);
    if (!calls->device_can_access_peer)
        return tarn_error_set(TARN_NOT_SUPPORTED, "pool: the driver has no peer access");
    result = calls->device_get(&device, pages->device);
    if (result == CUDA_SUCCESS_)
        result = calls->device_get(&other, peer);
    if (result == CUDA_SUCCESS_)
        result = calls->device_can_access_peer(&can, other, device);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuDeviceCanAccessPeer", result,
                                   "device %d to memory of device %d", peer,
                                   pages->device);
    if (!can)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "pool: device %d cannot access memory of device %d", peer,
                              pages->device);
    return TARN_OK;
}

static CUmemAccessDesc_ describe(int peer, bool access)
{
    return (CUmemAccessDesc_){
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE_, .id = peer},
        .flags =
            access ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE_ : CU_MEM_ACCESS_FLAGS_PROT_NONE_,
    };
}

/* Restore the access of the runs before `end`; tried again once, since no caller can be
 * notified. */
static void revoke(const struct tarn__vmm *vmm, const struct tarn__calls *calls,
                   size_t end, int peer, bool access)
{
    CUmemAccessDesc_ before = describe(peer, access);
    struct tarn__span run;

    for (size_t cursor = 0; cursor < end && tarn__vmm_table_next_run(vmm, &cursor, &run);)
        if (TARN__COUNTED(vmm, calls->mem_set_access(run.address, run.bytes, &before,
                                                     1)) != CUDA_SUCCESS_)
            TARN__COUNTED(vmm, calls->mem_set_access(run.address, run.bytes, &before, 1));
}

/* Set access for everything that is mapped, or for nothing of it. In a scope. */
static tarn_status set_all(const struct tarn__vmm *vmm, const struct tarn__calls *calls,
                           int peer, bool access)
{
    CUmemAccessDesc_ wanted = describe(peer, access);
    struct tarn__span run;

    for (size_t cursor = 0, done = 0; tarn__vmm_table_next_run(vmm, &cursor, &run);
         done = cursor) {
        CUresult_ result =
            TARN__COUNTED(vmm, calls->mem_set_access(run.address, run.bytes, &wanted, 1));
        if (result == CUDA_SUCCESS_)
            continue;
        revoke(vmm, calls, done, peer, !access);
        return tarn__driver_failed("pool", "cuMemSetAccess", result,
                                   "%zu bytes at 0x%llx for device %d", run.bytes,
                                   (unsigned long long)run.address, peer);
    }
    return TARN_OK;
}

/* Set a peer's access, in a scope. While the pool is suspended nothing is mapped:
 * resuming maps for all devices in the list. */
static tarn_status set_peer(struct tarn__pages *pages, const struct tarn__calls *calls,
                            int peer, bool access)
{
    struct tarn__vmm *vmm = &pages->vmm;
    size_t place = find(vmm, peer);
    bool has = place < vmm->access_count;
    tarn_status status = check(pages, calls, peer);

    if (status != TARN_OK || has == access)
        return status;
    if (access && vmm->access_count == TARN__ACCESS_MAX)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "pool: the maximum of %d devices with access is reached",
                              TARN__ACCESS_MAX);
    if (!access) { /* through its retired and retiring mappings, too */
        tarn__vmm_alias_unmap_all(vmm, calls);
        tarn__vmm_alias_unlink_retiring(vmm);
    }
    if (!atomic_load(&pages->is_suspended))
        status = set_all(vmm, calls, peer, access);
    if (status != TARN_OK)
        return status;
    if (access)
        vmm->access[vmm->access_count++] = describe(peer, true);
    else
        vmm->access[place] = vmm->access[--vmm->access_count];
    return TARN_OK;
}

tarn_status tarn__vmm_peer_set(struct tarn__pages *pages, int peer, bool access)
{
    struct tarn__scope scope;
    tarn_status status = tarn__device_check("pool", peer);

    if (status == TARN_OK)
        status = tarn__backing_enter(pages, &scope);
    if (status != TARN_OK)
        return status;
    status = set_peer(pages, scope.calls, peer, access);
    tarn__scope_leave(&scope);
    return status;
}
