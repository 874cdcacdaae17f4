/* graph_pools.h -- the memory of PyTorch's pools of graphs. */
#ifndef TARN_TORCH_GRAPH_POOLS_H
#define TARN_TORCH_GRAPH_POOLS_H

#include <tarn/torch.h>

/* Return true if a capture into a pool of graphs may be under way, on any device. */
bool tarn__graph_pools_is_open(void);

/* Relate the capture of `stream`, which has just allocated, to the open pools of graphs of
 * the device. Returns true if the stream captures. */
bool tarn__graph_pools_note(int device, tarn_stream stream);

#endif
