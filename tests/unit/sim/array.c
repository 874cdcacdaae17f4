/* Test arrays, mipmapped arrays, textures and surfaces, tensor maps, ranges of managed
 * memory, and counts of the memory of graphs. */
#include "driver.h"

enum { UINT8 = 1, FLOAT = 0x20, LAYERED = 1, SURFACE = 2, CUBE = 4, SPARSE = 0x40 };

static CUresult create(CUarray *out, size_t width, size_t height, size_t depth,
                       int format, unsigned channels, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {width, height, depth, format, channels, flags};

    *out = NULL;
    return driver.cuArray3DCreate_v2(out, &shape);
}

static unsigned next(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 8;
}

/* Random boxes go into an array and come back; a host copy has what it should hold. */
TEST(array_boxes_go_in_and_out)
{
    enum { WIDTH = 24, HEIGHT = 7, DEPTH = 5, ALL = WIDTH * HEIGHT * DEPTH };
    static unsigned char model[ALL], from[ALL], to[ALL];
    unsigned state = 5;
    CUarray array;

    use_device(0);
    CHECK_EQUAL(CUDA_SUCCESS, create(&array, WIDTH, HEIGHT, DEPTH, UINT8, 1, 0));
    CUDA_MEMCPY3D all = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                         .srcHost = model,
                         .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                         .dstArray = array,
                         .WidthInBytes = WIDTH,
                         .Height = HEIGHT,
                         .Depth = DEPTH};
    CU(cuMemcpy3D_v2(&all));
    for (int round = 0; round < 200; round++) {
        size_t x = next(&state) % WIDTH, y = next(&state) % HEIGHT,
               z = next(&state) % DEPTH;
        size_t width = 1 + next(&state) % (WIDTH - x),
               height = 1 + next(&state) % (HEIGHT - y),
               depth = 1 + next(&state) % (DEPTH - z);
        CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                              .srcHost = from,
                              .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                              .dstArray = array,
                              .dstXInBytes = x,
                              .dstY = y,
                              .dstZ = z,
                              .WidthInBytes = width,
                              .Height = height,
                              .Depth = depth};
        for (size_t i = 0; i < width * height * depth; i++)
            from[i] = (unsigned char)next(&state);
        CU(cuMemcpy3D_v2(&copy));
        for (size_t k = 0; k < depth; k++)
            for (size_t j = 0; j < height; j++)
                memcpy(model + ((z + k) * HEIGHT + y + j) * WIDTH + x,
                       from + (k * height + j) * width, width);
    }
    CUDA_MEMCPY3D back = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = array,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = to,
                          .WidthInBytes = WIDTH,
                          .Height = HEIGHT,
                          .Depth = DEPTH};
    CU(cuMemcpy3D_v2(&back));
    CHECK(memcmp(model, to, ALL) == 0);
    back.srcZ = 1;
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&back));
    back.srcZ = 0;
    back.srcXInBytes = SIZE_MAX;
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&back));
    CU(cuArrayDestroy(array));
    back.srcXInBytes = 0;
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&back));
    CU_IS(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(array));
}

TEST(array_rows_are_copied_by_their_own_calls)
{
    unsigned char out[64], in[64] = {0};
    CUdeviceptr memory;
    CUarray array, other;
    CUstream stream;

    use_device(0);
    for (int i = 0; i < 64; i++)
        out[i] = (unsigned char)(i * 3);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc_v2(&memory, 64));
    CHECK_EQUAL(CUDA_SUCCESS, create(&array, 16, 0, 0, FLOAT, 1, 0));
    CHECK_EQUAL(CUDA_SUCCESS, create(&other, 16, 0, 0, FLOAT, 1, 0));
    CU(cuMemcpyHtoA_v2(array, 0, out, 64));
    CU(cuMemcpyAtoA_v2(other, 0, array, 0, 64));
    CU(cuMemcpyAtoD_v2(memory, other, 4, 60));
    CU(cuMemcpyDtoA_v2(array, 0, memory, 60));
    CU(cuCtxSynchronize());
    CU(cuMemcpyAtoHAsync_v2(in, array, 0, 60, stream));
    CU(cuStreamSynchronize(stream));
    CHECK(memcmp(in, out + 4, 60) == 0);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoH_v2(in, array, 8, 60));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoH_v2(in, NULL, 0, 60));
    CU(cuArrayDestroy(array));
    CU(cuArrayDestroy(other));
    CU(cuMemFree_v2(memory));
    CU(cuStreamDestroy_v2(stream));
}

TEST(array_shapes_that_no_device_has_are_rejected)
{
    CUarray array;

    use_device(0);
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, create(&array, 0, 1, 0, UINT8, 1, 0));
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, create(&array, 8, 8, 0, UINT8, 3, 0));
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, create(&array, 8, 8, 0, 7, 1, 0));
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, create(&array, SIZE_MAX, 8, 0, UINT8, 1, 0));
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, create(&array, 8, 0, 8, UINT8, 1, 0));
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, create(&array, 8, 9, 6, UINT8, 1, CUBE));
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, create(&array, 8, 8, 0, UINT8, 1, 0x100));
    CHECK_EQUAL(CUDA_ERROR_NOT_SUPPORTED, create(&array, 8, 8, 0, UINT8, 1, SPARSE));
    CHECK_EQUAL(CUDA_ERROR_OUT_OF_MEMORY,
                create(&array, 16384, 16384, 16384, FLOAT, 4, 0));
    CHECK_EQUAL(CUDA_SUCCESS, create(&array, 8, 0, 8, UINT8, 1, LAYERED));
    CU(cuArrayDestroy(array));
    CHECK_EQUAL(CUDA_SUCCESS, create(&array, 8, 8, 6, UINT8, 1, CUBE));
    CU(cuArrayDestroy(array));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate_v2(&array, NULL));
    CHECK(driver.live_bytes() == 0);
}

TEST(array_mipmaps_have_half_of_a_level_in_the_next)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {20, 6, 0, FLOAT, 2, 0}, got;
    CUmipmappedArray mipmap;
    CUarray level;

    use_device(0);
    CU(cuMipmappedArrayCreate(&mipmap, &shape, 9));
    CU(cuMipmappedArrayGetLevel(&level, mipmap, 2));
    CU(cuArray3DGetDescriptor_v2(&got, level));
    CHECK_EQUAL(5, got.Width);
    CHECK_EQUAL(1, got.Height);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuArrayDestroy(level));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, mipmap, 5));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayCreate(&mipmap, &shape, 0));
    CU(cuMipmappedArrayDestroy(mipmap));
    CU_IS(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayDestroy(mipmap));
    CU_IS(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayGetLevel(&level, mipmap, 0));
    CHECK(driver.live_bytes() == 0);
}

TEST(array_textures_and_surfaces_keep_what_they_show)
{
    CUDA_RESOURCE_DESC resource = {0}, got;
    CUDA_TEXTURE_DESC texture = {.filterMode = 1}, texture_got;
    CUDA_RESOURCE_VIEW_DESC view;
    CUtexObject object;
    CUsurfObject surface;
    CUarray plain, writable;

    use_device(0);
    CHECK_EQUAL(CUDA_SUCCESS, create(&plain, 8, 8, 0, UINT8, 1, 0));
    CHECK_EQUAL(CUDA_SUCCESS, create(&writable, 8, 8, 0, UINT8, 1, SURFACE));
    resource.res.array = plain;
    CU(cuTexObjectCreate(&object, &resource, &texture, NULL));
    CU(cuTexObjectGetResourceDesc(&got, object));
    CHECK(got.res.array == plain);
    CU(cuTexObjectGetTextureDesc(&texture_got, object));
    CHECK_EQUAL(1, texture_got.filterMode);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuTexObjectGetResourceViewDesc(&view, object));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuSurfObjectDestroy(object));
    CU(cuTexObjectDestroy(object));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(object));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate(&surface, &resource));
    resource.res.array = writable;
    CU(cuSurfObjectCreate(&surface, &resource));
    CU(cuSurfObjectDestroy(surface));
    CU(cuArrayDestroy(writable));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate(&surface, &resource));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuTexObjectCreate(&object, &resource, &texture, NULL));
    resource.resType = 2;
    resource.res.linear.devPtr = 512;
    resource.res.linear.sizeInBytes = 64;
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuTexObjectCreate(&object, &resource, &texture, NULL));
    resource.resType = 77;
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuTexObjectCreate(&object, &resource, &texture, NULL));
    CU(cuArrayDestroy(plain));
}

TEST(array_calls_survive_a_failure_of_each)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {64, 64, 0, FLOAT, 1, SURFACE};
    unsigned long long faults = 1;
    char options[64];

    use_device(0);
    for (unsigned kind = 0; kind < 2; kind++, faults = 1)
        for (unsigned nth = 1; faults > 0 && nth < 100; nth++) {
            CUmipmappedArray mipmap = NULL;
            CUDA_RESOURCE_DESC resource = {0};
            CUDA_TEXTURE_DESC texture = {0};
            CUtexObject object = 0;
            CUarray array = NULL;
            snprintf(options, sizeof options,
                     kind ? "host-memory=fail:%u" : "fail=nth:%u", nth);
            driver.configure(options);
            driver.cuArray3DCreate_v2(&array, &shape);
            driver.cuMipmappedArrayCreate(&mipmap, &shape, 4);
            resource.res.array = array;
            driver.cuTexObjectCreate(&object, &resource, &texture, NULL);
            faults = driver.faults();
            driver.configure(NULL);
            if (object)
                CU(cuTexObjectDestroy(object));
            if (mipmap)
                CU(cuMipmappedArrayDestroy(mipmap));
            if (array)
                CU(cuArrayDestroy(array));
            CHECK(driver.live_bytes() == 0);
        }
}

/* --- tensor maps --- */

TEST(array_tensor_maps_are_checked)
{
    uint64_t dims[5] = {64, 32, 8, 8, 8}, strides[4] = {256, 8192, 65536, 524288};
    uint32_t box[5] = {32, 8, 1, 1, 1}, steps[5] = {1, 1, 1, 1, 1};
    int lower[3] = {0}, upper[3] = {0};
    CUdeviceptr memory;
    CUtensorMap map;

    use_device(0);
    CU(cuMemAlloc_v2(&memory, 1 << 20));
    void *address = (void *)(uintptr_t)memory;
#define TILED(type, rank, at, interleave, swizzle)                                      \
    cuTensorMapEncodeTiled(&map, type, rank, at, dims, strides, box, steps, interleave, \
                           swizzle, 0, 0)
    CU(TILED(7, 2, address, 0, 0));
    CU(TILED(7, 2, address, 0, 3));
    CU_IS(CUDA_ERROR_INVALID_VALUE, TILED(7, 2, address, 0, 1)); /* 128 bytes in 32 */
    CU_IS(CUDA_ERROR_INVALID_VALUE, TILED(99, 2, address, 0, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, TILED(-1, 2, address, 0, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, TILED(7, 0, address, 0, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, TILED(7, 6, address, 0, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, TILED(7, 2, (char *)address + 8, 0, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, TILED(7, 2, address, 1, 0)); /* rank 3 or more */
    box[0] = 257;
    CU_IS(CUDA_ERROR_INVALID_VALUE, TILED(7, 2, address, 0, 0));
    box[0] = 32;
    strides[0] = 24;
    CU_IS(CUDA_ERROR_INVALID_VALUE, TILED(7, 2, address, 0, 0));
    strides[0] = 256;
#undef TILED
#define COLUMNS(rank, channels)                                                  \
    cuTensorMapEncodeIm2col(&map, 7, rank, address, dims, strides, lower, upper, \
                            channels, 8, steps, 0, 0, 0, 0)
    CU(COLUMNS(4, 32));
    CU_IS(CUDA_ERROR_INVALID_VALUE, COLUMNS(2, 32));
    CU_IS(CUDA_ERROR_INVALID_VALUE, COLUMNS(4, 257));
    lower[0] = 200;
    CU_IS(CUDA_ERROR_INVALID_VALUE, COLUMNS(4, 32));
#undef COLUMNS
    CU(cuTensorMapReplaceAddress(&map, (char *)address + 64));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuTensorMapReplaceAddress(&map, (char *)address + 8));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuTensorMapReplaceAddress(NULL, address));
    memset(&map, 0, sizeof map);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuTensorMapReplaceAddress(&map, address));
    CU(cuMemFree_v2(memory));
}

/* --- managed memory and memory of graphs --- */

TEST(array_batches_of_ranges_change_all_or_none)
{
    const CUmemLocation locations[2] = {{CU_MEM_LOCATION_TYPE_DEVICE, 1},
                                        {CU_MEM_LOCATION_TYPE_HOST, 0}};
    size_t bytes[3] = {4096, 4096, 4096}, first[2] = {0, 2}, wrong[2] = {0, 0};
    CUdeviceptr blocks[3], bad[3];
    CUmemLocation where[2];
    CUstream stream;
    int value;

    use_device(0);
    memcpy(where, locations, sizeof where);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 3; i++)
        CU(cuMemAllocManaged(&blocks[i], 4096, CU_MEM_ATTACH_GLOBAL));
    memcpy(bad, blocks, sizeof bad);
    bad[2] = 4096;
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemPrefetchBatchAsync(bad, bytes, 3, where, first, 2, 0, stream));
    CU(cuMemRangeGetAttribute(&value, 4, 4, blocks[0], 4096));
    CHECK_EQUAL(-2, value);
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemPrefetchBatchAsync(blocks, bytes, 3, where, wrong, 2, 0, stream));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemPrefetchBatchAsync(blocks, bytes, 3, where, first, 4, 0, stream));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemPrefetchBatchAsync(blocks, bytes, 3, NULL, first, 2, 0, stream));
    CU(cuMemDiscardAndPrefetchBatchAsync(blocks, bytes, 3, where, first, 2, 0, stream));
    CU(cuMemRangeGetAttribute(&value, 4, 4, blocks[1], 4096));
    CHECK_EQUAL(1, value);
    CU(cuMemRangeGetAttribute(&value, 4, 7, blocks[2], 4096));
    CHECK_EQUAL(CU_MEM_LOCATION_TYPE_HOST, value);
    CU(cuMemDiscardBatchAsync(blocks, bytes, 3, 0, stream));
    for (int i = 0; i < 3; i++)
        CU(cuMemFree_v2(blocks[i]));
    CU(cuStreamDestroy_v2(stream));
}

TEST(array_graphs_count_their_memory)
{
    CUDA_MEM_ALLOC_NODE_PARAMS wanted = {.bytesize = 4096}, got;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 1},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUgraph graph;
    CUgraphNode node;
    uint64_t value = 77;

    use_device(0);
    CU(cuGraphCreate(&graph, 0));
    wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    wanted.accessDescCount = 1;
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted));
    wanted.accessDescs = &access;
    CU(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted));
    access.location.id = 0;
    CU(cuGraphMemAllocNodeGetParams(node, &got));
    CHECK_EQUAL(1, got.accessDescs[0].location.id);
    CHECK_EQUAL(4096, got.bytesize);
    CHECK(got.dptr == wanted.dptr);
    CU(cuDeviceGetGraphMemAttribute(0, 0, &value));
    CHECK(value == 0);
    CU(cuDeviceGetGraphMemAttribute(0, 2, &value));
    CHECK(value >= 4096);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetGraphMemAttribute(0, 9, &value));
    CU_IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetGraphMemAttribute(99, 0, &value));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuDeviceSetGraphMemAttribute(0, 3, &value));
    CU(cuGraphDestroy(graph));
    value = 0;
    CU(cuDeviceSetGraphMemAttribute(0, 3, &value));
    CU(cuDeviceGetGraphMemAttribute(0, 3, &value));
    CHECK(value == 0);
}
