/* tensor_map.c -- tensor maps: descriptions of tensors for kernels. The arguments are
 * checked as documented, except for the alignment of the map itself: clients keep it in
 * objects that are aligned to 16 bytes. The bytes are not those of a device: only kernels read them. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include <string.h>

enum {
    RANK_MAX = 5,
    TYPE_PACKED_4_8 = 13, /* types of packed numbers */
    TYPE_PACKED_4_16,
    TYPE_PACKED_6_16,
    TYPES,
    INTERLEAVE_32 = 2,
    SWIZZLE_32 = 1,
    SWIZZLES = 7,
    PROMOTIONS = 4,
    BOX_MAX = 256,
    STRIDE_MAX = 8,
    COLUMN_MAX = 1024,
};
static const uint64_t magic = 0x7461726e2d746d61; /* of a map that was encoded here */

/* What all kinds of maps describe. */
struct tensor {
    int type;
    uint32_t rank;
    uint64_t address;
    const uint64_t *dims, *strides;
    const uint32_t *steps; /* of elements */
    int interleave, swizzle, promotion, fill;
};

/* Bytes of eight elements. */
static unsigned eight_bytes(int type)
{
    static const unsigned char bytes[TYPES] = {8,  16, 32, 32, 64, 64, 16, 32,
                                               64, 16, 32, 32, 32, 4,  4,  6};
    return bytes[type];
}

static bool is_packed_in_16(int type)
{
    return type == TYPE_PACKED_4_16 || type == TYPE_PACKED_6_16;
}

static bool is_floating(int type)
{
    return type >= 6 && type < TYPE_PACKED_4_8;
}

static unsigned alignment_of(const struct tensor *tensor)
{
    return tensor->interleave == INTERLEAVE_32 || is_packed_in_16(tensor->type) ? 32 : 16;
}

static bool are_modes(const struct tensor *tensor)
{
    if (tensor->type < 0 || tensor->type >= TYPES || tensor->interleave < 0 ||
        tensor->interleave > INTERLEAVE_32 || tensor->swizzle < 0 ||
        tensor->swizzle >= SWIZZLES || tensor->promotion < 0 ||
        tensor->promotion >= PROMOTIONS || tensor->fill < 0 || tensor->fill > 1)
        return false;
    return !(tensor->fill == 1 && !is_floating(tensor->type)) &&
           !(tensor->interleave == INTERLEAVE_32 && tensor->swizzle != SWIZZLE_32) &&
           !(tensor->interleave != 0 && tensor->type == TYPE_PACKED_6_16);
}

static bool are_dims(const struct tensor *tensor)
{
    unsigned alignment = alignment_of(tensor);

    for (uint32_t i = 0; i < tensor->rank; i++)
        if (tensor->dims[i] == 0 || tensor->dims[i] > (uint64_t)1 << 32)
            return false;
    for (uint32_t i = 0; i + 1 < tensor->rank; i++)
        if (tensor->strides[i] % alignment != 0 ||
            tensor->strides[i] >= (uint64_t)1 << 40 || tensor->strides[i] == 0)
            return false;
    /* The first step has no effect without interleaving. */
    for (uint32_t i = tensor->interleave == 0; i < tensor->rank; i++)
        if (tensor->steps[i] == 0 || tensor->steps[i] > STRIDE_MAX)
            return false;
    if (is_packed_in_16(tensor->type))
        return tensor->dims[0] % 128 == 0;
    return tensor->type != TYPE_PACKED_4_8 || tensor->dims[0] % 2 == 0;
}

static bool is_tensor(const struct tensor *tensor)
{
    if (tensor->rank == 0 || tensor->rank > RANK_MAX || !tensor->dims ||
        (tensor->rank > 1 && !tensor->strides) || !tensor->steps || !are_modes(tensor))
        return false;
    return tensor->address != 0 && tensor->address % alignment_of(tensor) == 0 &&
           (tensor->interleave == 0 || tensor->rank >= 3) && are_dims(tensor);
}

/* The bytes of the innermost dimension of a box must fit a swizzle's. */
static bool is_inner(const struct tensor *tensor, uint32_t elements)
{
    unsigned bytes = elements * eight_bytes(tensor->type) / 8;
    unsigned most = tensor->swizzle == SWIZZLE_32 ? 32 : tensor->swizzle == 2 ? 64 : 128;

    if (is_packed_in_16(tensor->type))
        return elements == 128;
    return tensor->interleave != 0 || tensor->swizzle == 0 || bytes <= most;
}

static void write_map(CUtensorMap *map, const struct tensor *tensor)
{
    *map = (CUtensorMap){{magic, tensor->address, (uint64_t)tensor->type, tensor->rank,
                          (uint64_t)tensor->interleave, (uint64_t)tensor->swizzle}};
    memcpy(&map->opaque[6], tensor->dims, tensor->rank * sizeof *tensor->dims);
    if (tensor->rank > 1)
        memcpy(&map->opaque[11], tensor->strides,
               (tensor->rank - 1) * sizeof *tensor->strides);
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int type, uint32_t rank, void *address,
                                const uint64_t *dims, const uint64_t *strides,
                                const uint32_t *box, const uint32_t *steps,
                                int interleave, int swizzle, int promotion, int fill)
{
    const struct tensor tensor = {type,      rank,  (uintptr_t)address, dims,
                                  strides,   steps, interleave,         swizzle,
                                  promotion, fill};

    ENTER(CALL_PLAIN);
    if (!map || !is_tensor(&tensor) || !box)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < rank; i++)
        if (box[i] == 0 || box[i] > BOX_MAX)
            return CUDA_ERROR_INVALID_VALUE;
    if ((interleave == 0 && box[0] * eight_bytes(type) / 8 % 16 != 0) ||
        !is_inner(&tensor, box[0]))
        return CUDA_ERROR_INVALID_VALUE;
    write_map(map, &tensor);
    return CUDA_SUCCESS;
}

/* The offsets of the corners of a box have fewer bits, the more there are. */
static bool are_corners(uint32_t rank, const int *lower, const int *upper)
{
    const int most = rank == 3 ? 32768 : rank == 4 ? 128 : 16;

    if (!lower || !upper)
        return false;
    for (uint32_t i = 0; i < rank - 2; i++)
        if (lower[i] < -most || lower[i] >= most || upper[i] < -most || upper[i] >= most)
            return false;
    return true;
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, int type, uint32_t rank, void *address,
                                 const uint64_t *dims, const uint64_t *strides,
                                 const int *lower, const int *upper, uint32_t channels,
                                 uint32_t pixels, const uint32_t *steps, int interleave,
                                 int swizzle, int promotion, int fill)
{
    const struct tensor tensor = {type,      rank,  (uintptr_t)address, dims,
                                  strides,   steps, interleave,         swizzle,
                                  promotion, fill};

    ENTER(CALL_PLAIN);
    if (!map || !is_tensor(&tensor) || rank < 3 || !are_corners(rank, lower, upper) ||
        channels == 0 || channels > BOX_MAX || pixels == 0 || pixels > COLUMN_MAX ||
        !is_inner(&tensor, channels))
        return CUDA_ERROR_INVALID_VALUE;
    write_map(map, &tensor);
    return CUDA_SUCCESS;
}

/* Only maps that were encoded here are accepted. */
CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    ENTER(CALL_PLAIN);
    if (!map || map->opaque[0] != magic || !address || (uintptr_t)address % 16 != 0)
        return CUDA_ERROR_INVALID_VALUE;
    map->opaque[1] = (uintptr_t)address;
    return CUDA_SUCCESS;
}
