"""Training of a transformer with activation checkpointing and sequences of changing length.

Weights and the optimizer's state stay. The forward pass keeps one block a layer and drops the
rest; the backward pass computes a layer's activations again, holds all of them, and frees them
with their gradients. Each step has another batch and length, and attention needs a block that
grows with the square of the length.

What matters: LAYERS, HIDDEN, TOKENS a step, LENGTH with its sigma, and whether gradients are
reduced on streams of their own (all streams but the first).
"""

from .sizes import log_normal

LAYERS, HIDDEN, HEADS, VOCABULARY = 24, 1024, 16, 32000
TOKENS = 8192
LENGTH, LENGTH_SIGMA, LENGTH_MOST = 420, 0.6, 2048
BUCKET_BYTES = 25 << 20


def layer_shapes(batch, length):
    """The temporary blocks of one layer, in the order in which they are computed."""
    row = batch * length * 2
    scores = batch * HEADS * length * length * 2
    return [
        row * HIDDEN,
        row * 3 * HIDDEN,
        scores,
        scores,
        row * HIDDEN,
        row * 4 * HIDDEN,
        row * 4 * HIDDEN,
        batch * length * 8,
    ]


def forward_layer(trace, shapes):
    """Compute a layer and drop all but its result."""
    held = []
    for size in shapes:
        held.append(trace.allocate(size))
        if len(held) > 3:
            trace.free(held.pop(0))
    result = trace.allocate(shapes[0])
    trace.free_all(held)
    return result


def backward_layer(trace, shapes, weights, gradient):
    """Compute a layer again and go back through it: (its gradients, gradient of its input)."""
    held = [trace.allocate(size) for size in shapes]
    gradients = []
    for size in reversed(shapes):
        below = trace.allocate(size)
        trace.free_all([gradient, held.pop()])
        gradient = below
        if len(gradients) < len(weights):
            gradients.append(trace.allocate(weights[len(gradients)]))
    below = trace.allocate(shapes[0])
    trace.free(gradient)
    return gradients, below


def reduce_gradients(trace, rng, gradients):
    """Copy gradients into a bucket, which a communication stream frees."""
    size = sum(block.nominal for block in gradients)
    bucket = trace.allocate(min(size, BUCKET_BYTES))
    trace.free(bucket, rng.randrange(1, trace.streams))


def generate(trace, rng):
    weights = [HIDDEN * HIDDEN * width * 2 for width in (3, 1, 4, 4)] + [HIDDEN * 4] * 4
    for _ in range(LAYERS):
        for size in weights:
            for bytes_each in (1, 2, 2, 2):  # weights, their copy in float, two moments
                trace.allocate(size * bytes_each)
    for bytes_each in (2, 4, 4, 4):
        trace.allocate(VOCABULARY * HIDDEN * bytes_each)
    while not trace.is_done():
        length = (log_normal(rng, LENGTH, LENGTH_SIGMA, LENGTH_MOST) + 7) // 8 * 8
        batch = max(1, TOKENS // length)
        shapes = layer_shapes(batch, length)
        tokens = [trace.allocate(batch * length * 8) for _ in range(3)]
        kept = [trace.allocate(shapes[0])]
        for _ in range(LAYERS):
            kept.append(forward_layer(trace, shapes))
        logits = trace.allocate(batch * length * VOCABULARY * 2)
        losses = [trace.allocate(batch * length * 4), trace.allocate(4)]
        gradient = trace.allocate(batch * length * VOCABULARY * 2)
        trace.free(logits)
        below = trace.allocate(shapes[0])
        trace.free_all([gradient, kept.pop()])
        gradients = []
        while kept:
            if len(kept) <= LAYERS:
                new, below = backward_layer(trace, shapes, weights, below)
                gradients += new
                if trace.streams > 1:
                    reduce_gradients(trace, rng, new)
            trace.free(kept.pop())
        trace.free_all([below, *losses, *tokens])
        norm = trace.allocate(len(gradients) * 4)
        trace.free_all([norm, *gradients])
