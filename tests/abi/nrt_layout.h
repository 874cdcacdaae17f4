/* nrt_layout.h -- the offsets in nrt_external.h, Tarn's or Numba's: included after it. */
#ifndef TARN_TESTS_NRT_LAYOUT_H
#define TARN_TESTS_NRT_LAYOUT_H

#include <stddef.h>

#define NRT_LAYOUT                                   \
    {sizeof(NRT_api_functions),                      \
     offsetof(NRT_api_functions, allocate),          \
     offsetof(NRT_api_functions, allocate_external), \
     offsetof(NRT_api_functions, manage_memory),     \
     offsetof(NRT_api_functions, acquire),           \
     offsetof(NRT_api_functions, release),           \
     offsetof(NRT_api_functions, get_data),          \
     sizeof(NRT_ExternalAllocator),                  \
     offsetof(NRT_ExternalAllocator, malloc),        \
     offsetof(NRT_ExternalAllocator, realloc),       \
     offsetof(NRT_ExternalAllocator, free),          \
     offsetof(NRT_ExternalAllocator, opaque_data)}

enum { NRT_LAYOUT_COUNT = 12 };

extern const size_t nrt_layout_ours[NRT_LAYOUT_COUNT];

#endif
