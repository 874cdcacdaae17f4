"""A server of a language model that pages the state of its requests (vLLM, TensorRT-LLM).

Weights stay. Each request owns blocks of TOKENS tokens, all of one size; it gets another one
whenever its answer fills the last. New requests come in bursts and are prefilled in chunks,
whose activations grow with the number of tokens; between them steps of one token for each
request need small activations. When no block is left, the youngest request gives up its
blocks and starts again.

What matters: KV_BYTES (32 layers, 8 heads of 128, 16 tokens of 2 bytes), WEIGHT_SHARE of the
peak, and the lengths of prompts and answers. With several streams each serves requests of its
own from the same memory. The kind keeps to the requested peak itself.
"""

from .sizes import geometric, log_normal

TOKENS = 16
KV_BYTES = 2 * 32 * 8 * 128 * TOKENS * 2
HIDDEN, QKV, MLP, VOCABULARY = 4096, 6144, 28672, 128256
WEIGHT_SHARE = 0.45
PROMPT, PROMPT_SIGMA, PROMPT_MOST = 900, 0.9, 8000
ANSWER, ANSWER_SIGMA, ANSWER_MOST = 180, 0.9, 2000
RUNNING_MOST = 256


class Request:
    def __init__(self, rng, stream, tokens_most):
        self.stream = stream
        self.prompt = log_normal(rng, PROMPT, PROMPT_SIGMA, min(PROMPT_MOST, tokens_most))
        self.left = log_normal(rng, ANSWER, ANSWER_SIGMA, min(ANSWER_MOST, tokens_most))
        self.tokens = 0
        self.blocks = []


def step_activations(trace, tokens, sequences, stream):
    """What one step of the model needs beside the state: allocated and freed in order."""
    hidden = trace.allocate(tokens * HIDDEN * 2, stream)
    inputs = [trace.allocate(size * 8, stream) for size in (tokens, sequences, sequences + 1)]
    for width in (QKV, MLP, MLP, QKV):
        wide = trace.allocate(tokens * width * 2, stream)
        narrow = trace.allocate(tokens * HIDDEN * 2, stream)
        trace.free_all([hidden, wide])
        hidden = narrow
    logits = trace.allocate(sequences * VOCABULARY * 4, stream)
    trace.free_all([logits, hidden, *inputs])


def generate(trace, rng):
    chunk = max(32, min(2048, trace.target_peak // (1 << 22)))
    reserve = chunk * (MLP + 3 * HIDDEN) * 2
    weights = 0
    while weights < trace.target_peak * WEIGHT_SHARE:
        rows = rng.choice([HIDDEN, QKV, MLP])
        columns = max(64, trace.target_peak >> 20) // 4  # 4096 with the default peak
        weights += trace.allocate(rows * columns * 2, rng.randrange(trace.streams)).bytes
    # Two that are being prefilled, and one that runs, always fit.
    tokens_most = max(1, (trace.room() - reserve) // KV_BYTES * TOKENS // 5)
    sequences_most = max(4, min(RUNNING_MOST, reserve // (VOCABULARY * 4)))
    waiting, running = [], []
    while not trace.is_done():
        if len(waiting) < 4 and rng.random() < 0.2:  # a burst arrives
            for _ in range(geometric(rng, 24)):
                waiting.append(Request(rng, rng.randrange(trace.streams), tokens_most))
        for request in waiting[:2]:
            if trace.room() < reserve + KV_BYTES * (chunk // TOKENS + 1):
                break
            tokens = min(chunk, request.prompt - request.tokens)
            request.tokens += tokens
            extend(trace, request)
            step_activations(trace, tokens, 1, request.stream)
            if request.tokens >= request.prompt:
                waiting.remove(request)
                running.append(request)
        for stream in range(trace.streams):
            batch = [request for request in running if request.stream == stream]
            batch = batch[:sequences_most]
            if batch:
                step_activations(trace, len(batch), len(batch), stream)
            for request in batch:
                answer(trace, request, running, waiting, reserve)


def extend(trace, request):
    """Blocks for the tokens that the request has now."""
    while len(request.blocks) * TOKENS < request.tokens:
        request.blocks.append(trace.allocate(KV_BYTES, request.stream))


def answer(trace, request, running, waiting, reserve):
    """One more token for a request; it ends, or the youngest one makes room."""
    if request not in running:
        return
    request.tokens += 1
    request.left -= 1
    if request.left <= 0:
        trace.free_all(request.blocks)
        running.remove(request)
        return
    while trace.room() < reserve + KV_BYTES and len(running) > 1:
        youngest = running.pop()
        trace.free_all(youngest.blocks)
        youngest.blocks, youngest.tokens = [], 0
        waiting.append(youngest)
        if youngest is request:
            return
    extend(trace, request)
