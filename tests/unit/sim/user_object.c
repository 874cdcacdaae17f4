/* Test user objects: they exist as long as the graphs that use them.
 *
 * An H200 rejects the same arguments, and its objects end with the executable graph.
 * Retaining without a graph and releasing too often follow the manual.
 */
#include "driver.h"
#include <sched.h>
#include <stdatomic.h>

static _Atomic(int) destroyed;

static void destroy(void *data)
{
    destroyed += *(int *)data;
}

static void wait_until_destroyed(int count)
{
    while (destroyed < count)
        sched_yield();
}

TEST(a_user_object_is_destroyed_with_its_last_reference)
{
    int seven = 7;
    CUuserObject object;

    use_device(0);
    destroyed = 0;
    CU(cuUserObjectCreate(&object, &seven, destroy, 2, 1));
    CU(cuUserObjectRetain(object, 1));
    CU(cuUserObjectRelease(object, 2));
    CHECK_EQUAL(0, destroyed);
    CU(cuUserObjectRelease(object, 1));
    wait_until_destroyed(7);
}

TEST(a_graph_and_its_executable_keep_a_user_object)
{
    int seven = 7;
    CUuserObject object;
    CUgraph graph;
    CUgraphExec exec;

    use_device(0);
    destroyed = 0;
    CU(cuUserObjectCreate(&object, &seven, destroy, 2, 1));
    CU(cuGraphCreate(&graph, 0));
    CU(cuGraphRetainUserObject(graph, object, 1, 1));
    CU(cuGraphRetainUserObject(graph, object, 2, 0));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cuUserObjectRelease(object, 1));
    CU(cuGraphReleaseUserObject(graph, object, 1));
    CU(cuGraphDestroy(graph));
    CHECK_EQUAL(0, destroyed);
    CU(cuGraphExecDestroy(exec));
    wait_until_destroyed(7);
}

TEST(a_user_object_rejects_invalid_arguments)
{
    int seven = 7;
    CUuserObject object = NULL;
    CUgraph graph;

    use_device(0);
    destroyed = 0;
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate(&object, &seven, destroy, 0, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate(&object, &seven, destroy, 1, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate(&object, &seven, destroy, 1, 2));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate(&object, &seven, NULL, 1, 1));
    CHECK(object == NULL);
    CU(cuUserObjectCreate(&object, &seven, destroy, 1, 1));
    CU(cuGraphCreate(&graph, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuUserObjectRetain(object, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphRetainUserObject(graph, object, 0, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphRetainUserObject(graph, object, 1, 2));
    CU(cuGraphDestroy(graph));
    CU(cuUserObjectRelease(object, 1));
    wait_until_destroyed(7);
}
