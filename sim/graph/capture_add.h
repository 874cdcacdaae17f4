/* capture_add.h -- work on a stream that captures becomes a node of the graph. Locked, as
 * are all functions here. */
#ifndef TARN_SIM_CAPTURE_ADD_H
#define TARN_SIM_CAPTURE_ADD_H

#include "sim/core/queue.h"

struct sim_box;
struct sim_fill;
struct sim_host_function;
struct sim_kernel;

/* Add a record of `event`, or a wait for it, to be done at every launch. */
CUresult sim_capture_add_event(struct sim_stream *stream, CUevent event, bool records);

CUresult sim_capture_add_host_function(struct sim_stream *stream,
                                       const struct sim_host_function *host);

/* Pageable memory is read at the launch too: the client must keep it valid. */
CUresult sim_capture_add_copy(struct sim_stream *stream, const struct sim_box *box);
CUresult sim_capture_add_fill(struct sim_stream *stream, const struct sim_fill *fill);
CUresult sim_capture_add_kernel(struct sim_stream *stream,
                                const struct sim_kernel *kernel);

/* Allocate memory in the graph, and free it there. */
CUresult sim_capture_add_allocation(struct sim_stream *stream, CUdevice device,
                                    size_t bytes, CUdeviceptr *out);
CUresult sim_capture_add_free(struct sim_stream *stream, CUdeviceptr address);

#endif
