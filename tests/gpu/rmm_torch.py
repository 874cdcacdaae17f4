#!/usr/bin/env python3
"""rmm_torch.py -- PyTorch on tarn.rmm's current resource: equal results, an error, no leak.

It needs PyTorch and a GPU. Exit 1 if a result differs, if running out of memory is no RuntimeError
with the words that programs look for, or if memory is left at the end.
"""

import gc
import sys

import tarn.rmm as rmm
import torch
from tarn.rmm.allocators.torch import rmm_torch_allocator

GIB = 1 << 30


def train(device):
    """Return the losses of a small network, which has 20 steps of training on one batch."""
    torch.manual_seed(1)
    layers = (torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    network = torch.nn.Sequential(*layers).double().to(device)
    batch, wanted = torch.randn(512, 64).double(), torch.randn(512, 8).double()
    batch, wanted = batch.to(device), wanted.to(device)
    optimizer = torch.optim.Adam(network.parameters())
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(network(batch), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def message_of_too_much():
    """Return the text of the error for more memory than there is."""
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        return str(error)
    return "no error"


def main():
    pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), maximum_pool_size=4 * GIB)
    counter = rmm.mr.StatisticsResourceAdaptor(pool)
    rmm.mr.set_current_device_resource(counter)
    torch.cuda.memory.change_current_allocator(rmm_torch_allocator)
    equal = torch.allclose(torch.tensor(train("cuda")), torch.tensor(train("cpu")))
    message = message_of_too_much()
    after = torch.ones(1000, device="cuda").sum().item()
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    gc.collect()
    counts = counter.allocation_counts
    print(f"losses {'equal' if equal else 'DIFFERENT'}, sum {after}, {message!r}")
    print(f"{counts.total_count} allocations, {counts.current_bytes} bytes are left")
    good = equal and after == 1000 and message.startswith("CUDA out of memory. ")
    return 0 if good and counts.total_count > 100 and counts.current_bytes == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
