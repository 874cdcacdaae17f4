/* tarn.h -- all of Tarn in one include.
 *
 * It includes the headers of libtarn. Headers of other libraries are included separately:
 *
 *   tarn/aot.h   libtarn_aot.a, the support library of ahead-of-time compilation
 *   tarn/prune.h    libtarn_prune.so, the pruner
 *   tarn/sim.h      libcuda.so.1 of Tarn, the driver simulator
 *
 * C++ programs can include tarn/tarn.hpp instead, which includes this header.
 *
 * The groups below are the chapters of the reference.
 */

/** @defgroup tarn_status Status codes and errors
 * Every call that can fail returns a tarn_status and records an error message for its
 * thread. */

/** @defgroup tarn_driver GPU driver and devices
 * These calls load the GPU driver, or the driver simulator, and query its devices. */

/** @defgroup tarn_stream Streams
 * These calls create, register and describe the streams that memory operations name. */

/** @defgroup tarn_resource Memory resources
 * A memory resource allocates and deallocates memory through one set of operations. */

/** @defgroup tarn_resource_kinds Kinds of memory resources
 * These calls create the built-in resources: cuda, async, managed, pinned, host, slab,
 * binning and exportable. */

/** @defgroup tarn_adaptor Resource adaptors
 * An adaptor is a resource that limits, counts or logs the operations of its upstream
 * resource. */

/** @defgroup tarn_guard Guard mode
 *
 * Guard mode finds writes outside of blocks, writes into freed blocks, and second frees. */
/** @defgroup tarn_device Current device resources
 * A registry holds the current memory resource of each device of the process. */

/** @defgroup tarn_pool Memory pool
 * A pool is a memory resource that reuses freed device memory across all streams of a
 * device. */

/** @defgroup tarn_pool_report Pool statistics and reports
 * These calls report pool statistics, pool snapshots and the state behind an
 * out-of-memory failure. */

/** @defgroup tarn_pool_graph Memory of CUDA graphs
 * These calls manage the pool memory that a captured CUDA graph uses. */

/** @defgroup tarn_torch PyTorch
 * PyTorch calls these functions for the memory of its tensors. */

/** @defgroup tarn_pointer Memory pointers
 * A memory pointer is an address and a size with a reference count and a finalizer. */

/** @defgroup tarn_manager Memory managers
 * A memory manager serves the memory requests of a runtime such as Numba. */

/** @defgroup tarn_manager_host_only Host-only manager operations
 * These operations serve host and managed memory in a memory manager that adds device
 * memory. */

/** @defgroup tarn_ipc Interprocess communication
 * These calls export device memory to another process of the same user, and import it
 * there. */
/** @defgroup tarn_fabric Fabric handles
 * Device memory for processes of other nodes: fabric handles, and messages about leases.
 */

/** @defgroup tarn_trace Memory event logs
 * These calls record, write and read logs of memory events. */

/** @defgroup tarn_plan Plans
 * A plan is a layout of recorded work, made in advance. */

/** @defgroup tarn_stack Call stacks
 * These calls capture call stacks, each of which has a number in the process. */

/** @defgroup tarn_replay Log replay
 * A replay repeats the allocations and frees of a log on a memory resource and measures
 * them. */

/** @defgroup tarn_runtime Counted memory
 * A runtime is an instance of Numba's runtime for reference-counted memory blocks. */

/** @defgroup tarn_nrt_names Names of Numba's runtime
 * These names and types are those of Numba's runtime, on the default instance. */

/** @defgroup tarn_aot Ahead-of-time support library
 * These functions serve object files that Numba compiled ahead of time; no Python. */

/** @defgroup tarn_cpp C++ interface
 * These classes own resources, streams and memory, and throw exceptions (tarn.hpp). */

/** @defgroup tarn_prune Reference-count pruning
 * The pruner removes pairs of reference-count increments and decrements from LLVM IR. */

/** @defgroup tarn_sim Driver simulator
 * These functions control the driver simulator, a GPU driver library for tests without a
 * GPU. */

#ifndef TARN_TARN_H
#define TARN_TARN_H

#include <tarn/version.h>
#include <tarn/status.h>
#include <tarn/driver.h>
#include <tarn/guard.h>
#include <tarn/resource.h>
#include <tarn/pool.h>
#include <tarn/plan.h>
#include <tarn/trace.h>
#include <tarn/stack.h>
#include <tarn/adaptor.h>
#include <tarn/device.h>
#include <tarn/torch.h>
#include <tarn/nrt.h>
#include <tarn/nrt_resource.h>
#include <tarn/pointer.h>
#include <tarn/ipc.h>
#include <tarn/fabric.h>
#include <tarn/manager.h>

#endif
