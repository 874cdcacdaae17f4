"""Hash joins of a query engine (cuDF, Theseus, Sirius) with a stream for each running query.

A query reads columns of a probe table and of a build table, makes a hash table, splits both
sides into partitions, joins them part by part through gather maps, concatenates the outputs
and groups them. Row counts are log-normal, partitions and build tables are skewed as in Zipf's
law, and queries start and end at different times: a stream also rests, and a client fetches a
result late.

What matters: the number of streams (8, 16 and 32), PROBE_ROWS with its sigma, PARTITIONS, and
RESULTS, the results that a stream keeps for its clients.
"""

from .sizes import geometric, log_normal, zipf, zipf_parts
from .trace import interleave

PROBE_ROWS, PROBE_SIGMA, PROBE_MOST = 6_000_000, 1.0, 50_000_000
BUILD_ROWS, BUILD_RANKS = 25_000_000, 200
WIDTHS = [1, 4, 4, 8, 8, 8, 16]
PARTITIONS = [8, 8, 16, 32]
RESULTS = 3


def read_column(trace, rng, rows, stream):
    """The buffers of a column: data, null mask, and characters with offsets for text."""
    blocks = [trace.allocate((rows + 511) // 512 * 64, stream)]
    if rng.random() < 0.2:
        blocks.append(trace.allocate((rows + 1) * 4, stream))
        blocks.append(trace.allocate(log_normal(rng, 12, 0.5) * rows, stream))
    else:
        blocks.append(trace.allocate(rng.choice(WIDTHS) * rows, stream))
    return blocks


def join_parts(trace, rng, probe_rows, build_rows, stream):
    """Join partition by partition; yields between them, and returns rows and outputs."""
    count = rng.choice(PARTITIONS)
    probe_parts = zipf_parts(rng, probe_rows, count)
    build_parts = zipf_parts(rng, build_rows, count)
    held = [trace.allocate(rows * 8, stream) for rows in probe_parts]
    outputs, total = [], 0
    for at, rows in enumerate(probe_parts):
        table = trace.allocate(build_parts[at] * 16, stream)  # 8 bytes an entry, half full
        yield
        counts = trace.allocate(rows * 4, stream)
        scan = trace.allocate(log_normal(rng, 3000, 0.7), stream)
        matches = max(1, int(rows * log_normal(rng, 400, 0.8, 2500) / 1000))
        maps = [trace.allocate(matches * 4, stream) for _ in range(2)]
        trace.free_all([scan, counts, table, held[at]])
        yield
        outputs += [trace.allocate(matches * width, stream) for width in (4, 8)]
        trace.free_all(maps)
        total += matches
        yield
    return total, outputs


def query(trace, rng, stream):
    """One query; returns its result, which a client fetches later."""
    probe_rows = log_normal(rng, PROBE_ROWS, PROBE_SIGMA, PROBE_MOST)
    probe = []
    for _ in range(rng.randrange(1, 4)):
        probe += read_column(trace, rng, probe_rows, stream)
        yield
    for _ in range(geometric(rng, 2.5)):
        build_rows = BUILD_ROWS // zipf(rng, BUILD_RANKS)
        build = read_column(trace, rng, build_rows, stream)
        build += read_column(trace, rng, build_rows, stream)
        yield
        rows, outputs = yield from join_parts(trace, rng, probe_rows, build_rows, stream)
        trace.free_all(build)
        trace.free_all(probe)
        probe_rows = min(rows, PROBE_MOST)
        probe = [trace.allocate(probe_rows * width, stream) for width in (4, 8)]
        rng.shuffle(outputs)
        trace.free_all(outputs)
        yield
    groups = log_normal(rng, 20_000, 1.2, probe_rows)
    buffers = [trace.allocate(probe_rows * 4, stream), trace.allocate(groups * 16, stream)]
    result = [trace.allocate(groups * width, stream) for width in (4, 8, 8)]
    yield
    trace.free_all(buffers + probe)
    return result


def session(trace, rng, stream):
    """The queries of a stream, with rests between them."""
    results = []
    rest = min(60, trace.target_operations // (50 * trace.streams))
    for _ in range(rng.randrange(rest + 1)):
        yield
    while True:
        results.append((yield from query(trace, rng, stream)))
        while len(results) > RESULTS or (results and rng.random() < 0.5):
            trace.free_all(results.pop(rng.randrange(len(results))))
        for _ in range(geometric(rng, 12)):
            yield


def generate(trace, rng):
    interleave(trace, rng, [session(trace, rng, stream) for stream in range(trace.streams)])
