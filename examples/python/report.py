"""A program whose memory has a shape: `tarn run --log FILE` logs it, `tarn report FILE` draws it.

Weights live from the start, activations rise and fall in each step, and a cache grows. In the end
an allocation is too large for the pool.
"""

import time

import tarn

MIB = 1 << 20
HISTORY = []  # nobody empties it

tarn.use(tarn.mr.PoolMemoryResource(maximum_pool_size="512MiB"))


def load_weights():
    return [tarn.DeviceBuffer(size=size * MIB) for size in (48, 32, 16)]


def forward(batch):
    activations = []
    for layer in range(8):
        activations.append(tarn.DeviceBuffer(size=batch * (1 + layer) * MIB // 4))
        time.sleep(0.001)
    return activations


def backward(activations):
    gradients = []
    while activations:
        gradients.append(tarn.DeviceBuffer(size=activations.pop().size // 2))
        time.sleep(0.001)


def remember(step):
    HISTORY.append(tarn.DeviceBuffer(size=(1 + step % 3) * MIB))


weights = load_weights()
for step in range(60):
    backward(forward(batch=4 + step % 5))
    remember(step)
try:
    evaluation = tarn.DeviceBuffer(size=384 * MIB)
except MemoryError as error:
    print(error)
