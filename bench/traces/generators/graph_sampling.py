"""Training of a graph network on sampled neighbours (DGL, PyG, cuGraph): prefetched minibatches.

The streams but the last sample: for each layer a few index arrays, a hash table that removes
doubles, prefix sums of a few bytes; at the end the features of all nodes found, whose number
differs from batch to batch. The last stream trains, and frees on itself what the samplers
allocated.

What matters: PREFETCH batches wait before the trainer, FANOUTS, and FEATURE_BYTES a node.
"""

from .sizes import log_normal
from .trace import interleave

PREFETCH = 4
FANOUTS = [15, 10, 5]
SEEDS = 1024
FEATURE_BYTES = [400, 512, 1204]  # 100, 128 and 301 numbers
HIDDEN_BYTES = 1024
GROWTH_MOST = 900_000  # nodes: batches overlap more, the more nodes they have


def sample(trace, rng, stream):
    """The blocks of one minibatch: (index arrays, features, nodes)."""
    nodes = SEEDS
    arrays = [trace.allocate(nodes * 8, stream)]
    for fanout in FANOUTS:
        edges = nodes * fanout * log_normal(rng, 700, 0.25, 1000) // 1000
        degrees = trace.allocate(nodes * 8, stream)
        offsets = trace.allocate((nodes + 1) * 8, stream)
        scan = trace.allocate(rng.randrange(300, 2500), stream)
        yield
        picked = [trace.allocate(edges * 8, stream) for _ in range(2)]
        trace.free_all([degrees, scan])
        unique = trace.allocate((nodes + edges) * 16, stream)  # the hash table
        flags = trace.allocate((nodes + edges) * 4, stream)
        yield
        new_nodes = log_normal(rng, 620, 0.15, 950) * edges // 1000
        nodes = min(nodes + new_nodes, GROWTH_MOST)
        arrays += [offsets, trace.allocate(nodes * 8, stream)]
        arrays += [trace.allocate(edges * 4, stream) for _ in range(2)]
        trace.free_all([*picked, flags, unique])
        yield
    features = trace.allocate(nodes * rng.choice(FEATURE_BYTES), stream)
    labels = trace.allocate(SEEDS * 8, stream)
    return [*arrays, labels], features, nodes


def sampler(trace, rng, stream, queue):
    while True:
        while len(queue) >= PREFETCH:
            yield
        queue.append((yield from sample(trace, rng, stream)))
        yield


def train(trace, rng, stream, queue):
    weights = [trace.allocate(size * 4, stream) for size in (301 * 256, 256 * 256, 256 * 47)]
    weights += [trace.allocate(block.nominal, stream) for block in weights * 2]
    while True:
        while not queue:
            yield
        arrays, features, nodes = queue.pop(0)
        activations = []
        for fanout in reversed(FANOUTS):
            gathered = trace.allocate(nodes * HIDDEN_BYTES // 2, stream)
            nodes = max(SEEDS, nodes * 3 // (2 * fanout))
            activations.append(trace.allocate(nodes * HIDDEN_BYTES, stream))
            trace.free(gathered)
            yield
        trace.free(features, stream)
        while activations:
            gradient = trace.allocate(activations[-1].nominal, stream)
            small = trace.allocate(rng.choice([1024, 2048, 188]), stream)
            yield
            trace.free_all([activations.pop(), small, gradient])
        trace.free_all(arrays, stream)
        yield


def generate(trace, rng):
    queue = []
    trainer = trace.streams - 1
    tasks = [sampler(trace, rng, stream, queue) for stream in range(max(trainer, 1))]
    interleave(trace, rng, [train(trace, rng, trainer, queue), *tasks])
