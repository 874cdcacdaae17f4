"""An image pipeline (DALI, CV-CUDA, nvJPEG): decode and augment on some streams, use on another.

The streams but the last decode: the file, a decoder's buffer, an image of its own height and
width, then crops. The last stream makes batches, frees on itself the crops that others
allocated, and holds each batch until its training step is over.

What matters: AHEAD images wait before the consumer; a quarter of the decoded images goes to
the consumer as well (FULL_SHARE), so that memory of every size is freed on another stream.
"""

from .sizes import log_normal
from .trace import interleave

AHEAD = 300
BATCHES_HELD = 2
BATCH = [96, 128, 192]
CROPS = [160, 192, 224, 224, 256]  # multi-scale training
FULL_SHARE = 0.25


def decoder(trace, rng, stream, queue):
    while True:
        while len(queue) >= AHEAD:
            yield
        height = log_normal(rng, 460, 0.35, 3000)
        width = height * rng.choice([3, 4, 5, 6]) // rng.choice([3, 4])
        file = trace.allocate(log_normal(rng, 110_000, 0.6), stream)
        coefficients = trace.allocate(height * width * 3 + rng.randrange(64, 4096), stream)
        image = trace.allocate(height * width * 3, stream)
        yield
        trace.free_all([file, coefficients])
        side = rng.choice(CROPS)
        crop = trace.allocate(side * side * 3, stream)
        parameters = trace.allocate(rng.choice([24, 48, 96]), stream)
        yield
        floats = trace.allocate(side * side * 3 * 4, stream)
        trace.free_all([crop, parameters])
        if rng.random() < FULL_SHARE:
            queue.append([floats, image])
        else:
            trace.free(image)
            queue.append([floats])
        yield


def consumer(trace, rng, stream, queue):
    weights = [trace.allocate(log_normal(rng, 900_000, 1.2), stream) for _ in range(60)]
    held = []
    while weights:
        size = rng.choice(BATCH)
        while len(queue) < size:
            yield
        images = [queue.pop(0) for _ in range(size)]
        most = max(floats.nominal for floats, *_ in images)
        batch = trace.allocate(most * size, stream)
        for blocks in images:
            trace.free_all(blocks, stream)
        yield
        activations = []
        for divisor in (1, 2, 4, 8):
            activations.append(trace.allocate(batch.nominal * 5 // divisor, stream))
            yield
        trace.free_all(reversed(activations))
        held.append(batch)
        if len(held) > BATCHES_HELD:
            trace.free(held.pop(0))


def generate(trace, rng):
    queue = []
    last = trace.streams - 1
    tasks = [decoder(trace, rng, stream, queue) for stream in range(max(last, 1))]
    interleave(trace, rng, [consumer(trace, rng, last, queue), *tasks])
