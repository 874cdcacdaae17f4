/* graph_memory_api.c -- the counts of memory that graphs allocate. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/device.h"
#include "sim/memory/graph_memory.h"

/* CUgraphMem_attribute. */
enum { USED_NOW, USED_HIGH, RESERVED_NOW, RESERVED_HIGH };

/* The count that `attribute` names; NULL: it names none. */
static struct sim_graph_memory_use *use_of(CUdevice device,
                                           CUgraphMem_attribute attribute)
{
    if (attribute == USED_NOW || attribute == USED_HIGH)
        return &sim_graph_memory_used[device];
    if (attribute == RESERVED_NOW || attribute == RESERVED_HIGH)
        return &sim_graph_memory_reserved[device];
    return NULL;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                      void *value)
{
    ENTER(CALL_PLAIN);
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    const struct sim_graph_memory_use *use = use_of(device, attribute);
    if (!use || !value)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *(uint64_t *)value =
        attribute == USED_NOW || attribute == RESERVED_NOW ? use->now : use->high;
    return sim_lock_leave(CUDA_SUCCESS);
}

/* Only the highest values can be set, and only to 0. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                      void *value)
{
    ENTER(CALL_PLAIN);
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if ((attribute != USED_HIGH && attribute != RESERVED_HIGH) || !value ||
        *(const uint64_t *)value != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph_memory_use *use = use_of(device, attribute);
    use->high = use->now;
    return sim_lock_leave(CUDA_SUCCESS);
}

/* Memory of graphs that exist keeps its address, and other memory is not kept. */
CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    ENTER(CALL_PLAIN);
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    sim_graph_memory_count_freed(device);
    return sim_lock_leave(CUDA_SUCCESS);
}
