/* nrt_names.c -- the runtime's functions under the names that object files refer to.
 *
 * libtarn does not export them (tarn/nrt_names.h gives the reason). Here they are hidden
 * symbols of the program that links this library. Each is one jump.
 */
#define TARN_NRT_NO_NAMES
#include <tarn/nrt.h>

#define NAME(result, name, parameters, arguments) \
    result NRT_##name parameters;                 \
    result NRT_##name parameters                  \
    {                                             \
        return tarn_nrt_##name arguments;         \
    }

NAME(NRT_MemInfo *, MemInfo_alloc, (size_t size), (size))
NAME(NRT_MemInfo *, MemInfo_alloc_safe, (size_t size), (size))
NAME(NRT_MemInfo *, MemInfo_alloc_aligned, (size_t size, unsigned align), (size, align))
NAME(NRT_MemInfo *, MemInfo_alloc_safe_aligned, (size_t size, unsigned align),
     (size, align))
NAME(NRT_MemInfo *, MemInfo_alloc_safe_aligned_external,
     (size_t size, unsigned align, NRT_ExternalAllocator *allocator),
     (size, align, allocator))
NAME(NRT_MemInfo *, MemInfo_alloc_dtor, (size_t size, NRT_dtor_function dtor),
     (size, dtor))
NAME(NRT_MemInfo *, MemInfo_alloc_dtor_safe, (size_t size, NRT_dtor_function dtor),
     (size, dtor))
NAME(NRT_MemInfo *, MemInfo_new_varsize, (size_t size), (size))
NAME(NRT_MemInfo *, MemInfo_new_varsize_dtor, (size_t size, NRT_dtor_function dtor),
     (size, dtor))
NAME(void *, MemInfo_varsize_alloc, (NRT_MemInfo * meminfo, size_t size), (meminfo, size))
NAME(void *, MemInfo_varsize_realloc, (NRT_MemInfo * meminfo, size_t size),
     (meminfo, size))
NAME(void, MemInfo_varsize_free, (NRT_MemInfo * meminfo, void *memory), (meminfo, memory))
NAME(void, MemInfo_call_dtor, (NRT_MemInfo * meminfo), (meminfo))
NAME(void, MemInfo_acquire, (NRT_MemInfo * meminfo), (meminfo))
NAME(void, MemInfo_release, (NRT_MemInfo * meminfo), (meminfo))
NAME(void *, MemInfo_data, (NRT_MemInfo * meminfo), (meminfo))
NAME(void *, Allocate, (size_t size), (size))
NAME(void, Free, (void *memory), (memory))
NAME(const NRT_api_functions *, get_api, (void), ())
