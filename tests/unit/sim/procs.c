/* Test finding calls, error messages, device data, times of events, pointers and modules.
 */
#include "driver.h"

TEST(procs_are_found_by_name_and_version)
{
    void *function;
    CUdriverProcAddressQueryResult status;

    CU(cuGetProcAddress_v2("cuMemAlloc", &function, 3020, 0, &status));
    CHECK(function == *(void **)(void *)&driver.cuMemAlloc_v2);
    CHECK_EQUAL(CU_GET_PROC_ADDRESS_SUCCESS, status);
    CU(cuGetProcAddress_v2("cuCtxCreate", &function, 11070, 0, NULL));
    CHECK(function == *(void **)(void *)&driver.cuCtxCreate_v3);
    CU(cuGetProcAddress_v2("cuMemcpyHtoDAsync", &function, 13000, 2, NULL));
    CHECK(function == *(void **)(void *)&driver.cuMemcpyHtoDAsync_v2_ptsz);
}

/* numba-cuda-mlir requests these versions; the headers do not contain them any more. */
TEST(procs_of_primary_contexts_are_found_by_their_first_version)
{
    void *function;

    CU(cuGetProcAddress_v2("cuDevicePrimaryCtxRelease", &function, 7000, 0, NULL));
    CHECK(function == *(void **)(void *)&driver.cuDevicePrimaryCtxRelease_v2);
    CU(cuGetProcAddress_v2("cuDevicePrimaryCtxSetFlags", &function, 10000, 0, NULL));
    CHECK(function == *(void **)(void *)&driver.cuDevicePrimaryCtxSetFlags_v2);
    CU(cuGetProcAddress_v2("cuDevicePrimaryCtxReset", &function, 7000, 0, NULL));
    CHECK(function == *(void **)(void *)&driver.cuDevicePrimaryCtxReset_v2);
}

TEST(procs_that_do_not_exist_are_null)
{
    CUdriverProcAddressQueryResult status;
    void *function = &status;

    CU(cuGetProcAddress_v2("cuNonsense", &function, 13000, 0, &status));
    CHECK(function == NULL);
    CHECK_EQUAL(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, status);
    function = &status;
    CU(cuGetProcAddress_v2("cuCtxGetId", &function, 11000, 0, &status));
    CHECK(function == NULL);
    CHECK_EQUAL(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, status);
    function = &status;
    CU(cuGetProcAddress_v2("cuNonsense", &function, 13000, 0, NULL));
    CHECK(function == NULL);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", NULL, 13000, 0, NULL));
}

TEST(procs_undocumented_tables_do_not_exist)
{
    CUuuid id = {{0}};
    const void *table = &id;

    CU_IS(CUDA_ERROR_NOT_FOUND, cuGetExportTable(&table, &id));
    CHECK(table == NULL);
}

TEST(procs_errors_have_names_and_messages)
{
    const char *text;

    CU(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK_TEXT("CUDA_ERROR_OUT_OF_MEMORY", text);
    CU(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK_TEXT("out of memory", text);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)998, &text));
    CHECK(text == NULL);
}

TEST(procs_devices_report_their_identity)
{
    char name[64], bus[2][16];
    CUdevice device;
    CUuuid uuid[2];
    int major, number;

    use_device(0);
    CU(cuDeviceGetName(name, sizeof name, 0));
    CHECK_TEXT("Tarn simulated GPU", name);
    CU(cuDeviceGetAttribute(&major, 75, 0));
    CHECK_EQUAL(9, major);
    for (int i = 0; i < 2; i++) {
        CU(cuDeviceGetUuid_v2(&uuid[i], i));
        CU(cuDeviceGetPCIBusId(bus[i], sizeof bus[i], i));
        CU(cuDeviceGetByPCIBusId(&device, bus[i]));
        CHECK_EQUAL(i, device);
        CU(cuDeviceGetAttribute(&number, 33, i));
        CHECK_EQUAL(strtol(bus[i] + 5, NULL, 16), number);
    }
    CHECK(memcmp(&uuid[0], &uuid[1], sizeof *uuid) != 0);
    CU_IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetUuid_v2(&uuid[0], 99));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&number, 9999, 0));
}

TEST(procs_events_measure_time_only_with_timing)
{
    CUevent first, second, untimed;
    float milliseconds = -1;

    use_device(0);
    CU(cuEventCreate(&first, 0));
    CU(cuEventCreate(&second, CU_EVENT_BLOCKING_SYNC));
    CU(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    CU_IS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, first, second));
    CU(cuEventRecord(first, NULL));
    CU(cuEventRecord(second, NULL));
    CU(cuEventRecord(untimed, NULL));
    CU(cuEventSynchronize(second));
    CU(cuEventElapsedTime(&milliseconds, first, second));
    CHECK(milliseconds >= 0);
    CU_IS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, first, untimed));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&first, 64));
    CU(cuEventDestroy_v2(first));
    CU_IS(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy_v2(NULL));
    CU(cuEventDestroy_v2(second));
    CU(cuEventDestroy_v2(untimed));
}

TEST(procs_pointers_report_their_memory)
{
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    unsigned type = 9;
    int ordinal = 9;
    size_t size = 9;
    void *values[] = {&type, &ordinal, &size};
    CUdeviceptr address;
    CUcontext context;

    use_device(1);
    CU(cuMemAlloc_v2(&address, 1234));
    CU(cuPointerGetAttributes(3, attributes, values, address + 3));
    CHECK_EQUAL(CU_MEMORYTYPE_DEVICE, type);
    CHECK_EQUAL(1, ordinal);
    CHECK_EQUAL(1234, size);
    CU(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address));
    CU(cuMemFree_v2(address));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
    CU(cuPointerGetAttributes(3, attributes, values, address));
    CHECK_EQUAL(0, type);
    CHECK_EQUAL(CU_DEVICE_INVALID, ordinal);
    CHECK_EQUAL(0, size);
}

static const char ptx[] =
    "// comment\n.version 8.0\n.target sm_90\n.entry kernel() { ret; }\n";

TEST(procs_modules_load_and_launches_fail)
{
    CUfunction function;
    CUmodule module;
    int registers;

    use_device(0);
    CU_IS(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "nothing of the kind"));
    CU_IS(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, ""));
    CU_IS(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/nowhere"));
    CU(cuModuleLoadData(&module, ptx));
    CU(cuModuleGetFunction(&function, module, "kernel"));
    CU(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
    CHECK(registers > 0);
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuLaunchKernel(function, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL));
    CU_IS(CUDA_ERROR_NOT_SUPPORTED,
          cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    CU(cuModuleUnload(module));
    CU_IS(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
    CU_IS(CUDA_ERROR_INVALID_HANDLE,
          cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
}
