/* objects.c -- facts about user objects: their references, and the time of their
 * destructor. */
#include "facts.h"

#include <time.h>

static atomic_int destroyed;

static void destroy(void *data)
{
    (void)data;
    atomic_fetch_add(&destroyed, 1);
}

/* The function may run on a thread of the driver. If it has not run after a second, it
 * does not run; if it must not run, the check is after a tenth. */
static int destroyed_so_far(int expected)
{
    int rounds = expected ? 1000 : 100;

    for (int i = 0; i < rounds && (!expected || atomic_load(&destroyed) < expected); i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return atomic_load(&destroyed);
}

static CUuserObject new_object(unsigned int count)
{
    CUuserObject object = NULL;

    atomic_store(&destroyed, 0);
    cuUserObjectCreate(&object, &destroyed, destroy, count, 1);
    return object;
}

static void create_fact(const char *name, CUhostFn function, unsigned int count,
                        unsigned int flags)
{
    CUuserObject object = (CUuserObject)(uintptr_t)7;

    fact_output(name, cuUserObjectCreate(&object, &destroyed, function, count, flags),
                object == (void *)7);
}

static void creating(void)
{
    CUuserObject object = new_object(2);

    fact_result("create.null", cuUserObjectCreate(NULL, &destroyed, destroy, 1, 1));
    create_fact("create.null_function", NULL, 1, 1);
    create_fact("create.count_0", destroy, 0, 1);
    create_fact("create.count_2^31", destroy, 0x80000000u, 1);
    create_fact("create.flags_0", destroy, 1, 0);
    create_fact("create.flags_3", destroy, 1, 3);
    fact_result("retain", cuUserObjectRetain(object, 1));
    fact_result("retain.count_0", cuUserObjectRetain(object, 0));
    fact_result("release.count_0", cuUserObjectRelease(object, 0));
    fact_result("release.two_of_three", cuUserObjectRelease(object, 2));
    fact("release.two_of_three.destroyed", "%d", destroyed_so_far(0));
    fact_result("release.last", cuUserObjectRelease(object, 1));
    fact("release.last.destroyed", "%d", destroyed_so_far(1));
    fact_result("retain.null", cuUserObjectRetain(NULL, 1));
    fact_result("release.null", cuUserObjectRelease(NULL, 1));
}

/* A graph's references are its own, or those that the caller transfers (flags 1). */
static CUgraph graph_with(CUuserObject object)
{
    CUgraph graph = NULL;

    cuGraphCreate(&graph, 0);
    if (object)
        cuGraphRetainUserObject(graph, object, 1, 0);
    return graph;
}

static void in_graphs(void)
{
    CUuserObject object = new_object(1);
    CUgraph graph = graph_with(NULL);

    fact_result("graph.retain", cuGraphRetainUserObject(graph, object, 1, 0));
    fact_result("graph.retain.count_0", cuGraphRetainUserObject(graph, object, 0, 0));
    fact_result("graph.retain.flags_2", cuGraphRetainUserObject(graph, object, 1, 2));
    fact_result("graph.retain.null_graph", cuGraphRetainUserObject(NULL, object, 1, 0));
    fact_result("graph.retain.null", cuGraphRetainUserObject(graph, NULL, 1, 0));
    fact_result("graph.release", cuGraphReleaseUserObject(graph, object, 1));
    fact("graph.release.destroyed", "%d", destroyed_so_far(0));
    fact_result("graph.move", cuGraphRetainUserObject(graph, object, 1, 1));
    fact("graph.move.destroyed", "%d", destroyed_so_far(0));
    cuGraphDestroy(graph);
    fact("graph.destroyed_with_it", "%d", destroyed_so_far(1));
}

/* An H200 takes references from the object that the graph does not have. Calls after that
 * use a freed object, so none follows. */
static void released_too_often(void)
{
    CUuserObject object = new_object(3);

    fact_result("graph.release.too_many",
                cuGraphReleaseUserObject(graph_with(object), object, 2));
    fact("graph.release.too_many.destroyed", "%d", destroyed_so_far(0));
}

static void released_by_others(void)
{
    CUuserObject object = new_object(3);
    CUgraph graph = graph_with(NULL);

    fact_result("graph.release.none_left", cuGraphReleaseUserObject(graph, object, 1));
    fact("graph.release.none_left.destroyed", "%d", destroyed_so_far(0));
}

/* An executable graph keeps the graph's references until its last launch is done. */
static void in_execs(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUuserObject object = new_object(1);
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode node;
    struct gate gate;

    cuGraphCreate(&graph, 0);
    cuGraphAddEmptyNode(&node, graph, NULL, 0);
    cuGraphRetainUserObject(graph, object, 1, 1);
    cuGraphInstantiate(&exec, graph, 0);
    cuGraphDestroy(graph);
    fact("exec.keeps_it.destroyed", "%d", destroyed_so_far(0));
    gate_close(&gate, stream);
    cuGraphLaunch(exec, stream);
    cuGraphExecDestroy(exec);
    fact("exec.gone_while_queued.destroyed", "%d", destroyed_so_far(0));
    gate_open(&gate);
    fact("exec.done.destroyed", "%d", destroyed_so_far(1));
    cuStreamDestroy(stream);
}

static const struct part parts[] = {
    {"creating", creating, TOGETHER},
    {"in_graphs", in_graphs, TOGETHER},
    {"released_too_often", released_too_often, RISKY},
    {"released_by_others", released_by_others, RISKY},
    {"in_execs", in_execs, TOGETHER},
    END_OF_PARTS,
};
const struct theme theme_objects = {"objects", parts, false};
