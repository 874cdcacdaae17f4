/* Check offsets that compiled programs contain: they never change, and tables only grow.
 *
 * Compiled code reads a MemInfo without a call. Plugins contain tables of operations that
 * were compiled with the header of their time.
 */
#include "test.h"
#include "nrt/block.h"

#define OFFSET(type, field, wanted) CHECK_EQUAL(wanted, offsetof(type, field))

TEST(meminfo_is_laid_out_as_numbas)
{
    CHECK_EQUAL(48, sizeof(struct MemInfo));
    OFFSET(struct MemInfo, refct, 0);
    OFFSET(struct MemInfo, dtor, 8);
    OFFSET(struct MemInfo, dtor_info, 16);
    OFFSET(struct MemInfo, data, 24);
    OFFSET(struct MemInfo, size, 32);
    OFFSET(struct MemInfo, external_allocator, 40);
    CHECK_EQUAL(8, sizeof(atomic_size_t));
}

TEST(meminfo_with_its_header_is_one_cache_line)
{
    CHECK_EQUAL(16, sizeof(struct tarn__block));
    CHECK_EQUAL(64, TARN__HEADER + sizeof(struct MemInfo));
    CHECK_EQUAL(64, TARN__HEAD);
    /* the links of a free block do not overlap the count, and fit into the smallest */
    OFFSET(struct tarn__free_block, refct,
           TARN__HEADER + offsetof(struct MemInfo, refct));
    CHECK(sizeof(struct tarn__free_block) <= 64);
}

TEST(resource_operations_stay_where_they_are)
{
    OFFSET(tarn_resource_ops, size, 0);
    OFFSET(tarn_resource_ops, name, 8);
    OFFSET(tarn_resource_ops, allocate, 16);
    OFFSET(tarn_resource_ops, deallocate, 24);
    OFFSET(tarn_resource_ops, destroy, 32);
    OFFSET(tarn_resource_ops, memory_info, 40);
    OFFSET(tarn_resource_ops, is_equal, 48);
    OFFSET(tarn_resource_ops, supports_streams, 56);
    OFFSET(tarn_resource_ops, deallocate_synchronizes, 64);
    OFFSET(tarn_resource_ops, trim, 72);
    OFFSET(tarn_resource_ops, requested_bytes, 80);
    OFFSET(tarn_resource_ops, live_blocks, 88);
    OFFSET(tarn_resource_ops, supports_no_stream, 96);
}

TEST(manager_operations_stay_where_they_are)
{
    OFFSET(tarn_manager_ops, size, 0);
    OFFSET(tarn_manager_ops, name, 8);
    OFFSET(tarn_manager_ops, interface_version, 16);
    OFFSET(tarn_manager_ops, create, 24);
    OFFSET(tarn_manager_ops, destroy, 32);
    OFFSET(tarn_manager_ops, initialize, 40);
    OFFSET(tarn_manager_ops, reset, 48);
    OFFSET(tarn_manager_ops, memalloc, 56);
    OFFSET(tarn_manager_ops, memhostalloc, 64);
    OFFSET(tarn_manager_ops, mempin, 72);
    OFFSET(tarn_manager_ops, memallocmanaged, 80);
    OFFSET(tarn_manager_ops, get_ipc_handle, 88);
    OFFSET(tarn_manager_ops, get_memory_info, 96);
    OFFSET(tarn_manager_ops, defer_cleanup_begin, 104);
    OFFSET(tarn_manager_ops, defer_cleanup_end, 112);
    OFFSET(tarn_manager_ops, context_lost, 120);
}

TEST(pool_manager_options_stay_where_they_are)
{
    OFFSET(tarn_pool_manager_options, size, 0);
    OFFSET(tarn_pool_manager_options, make, 8);
    OFFSET(tarn_pool_manager_options, data, 16);
    OFFSET(tarn_pool_manager_options, keep_bytes, 24);
}

TEST(pointer_options_stay_where_they_are)
{
    OFFSET(tarn_pointer_options, size, 0);
    OFFSET(tarn_pointer_options, kind, 8);
    OFFSET(tarn_pointer_options, device, 12);
    OFFSET(tarn_pointer_options, address, 16);
    OFFSET(tarn_pointer_options, host, 24);
    OFFSET(tarn_pointer_options, bytes, 32);
    OFFSET(tarn_pointer_options, finalizer, 40);
    OFFSET(tarn_pointer_options, finalizer_data, 48);
    OFFSET(tarn_pointer_options, owner, 56);
    OFFSET(tarn_pointer_options, owner_release, 64);
}

TEST(ipc_handle_stays_as_it_is)
{
    CHECK_EQUAL(64, sizeof(((tarn_ipc_handle *)0)->reserved));
    OFFSET(tarn_ipc_handle, reserved, 0);
    OFFSET(tarn_ipc_handle, bytes, 64);
    OFFSET(tarn_ipc_handle, offset, 72);
    OFFSET(tarn_ipc_handle, device, 80);
}

TEST(streams_are_one_word)
{
    CHECK_EQUAL(sizeof(void *), sizeof(tarn_stream));
    CHECK(tarn_stream_handle(TARN_STREAM_NONE) == NULL);
    CHECK(tarn_stream_handle(TARN_STREAM_PER_THREAD) == (void *)(uintptr_t)2);
}
