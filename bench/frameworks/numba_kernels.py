"""The kernels of numba_programs.py, and the prefix sum that the programs share.

Numba keeps the compiled kernels in NUMBA_CACHE_DIR, so that the processes of a run compile once.
"""

import math

from numba import cuda

THREADS = 128
CHUNK = 64  # elements of one thread in a prefix sum
IS_DRY = False  # no kernel is launched; then a prefix sum ends at this part of its length:
DRY_PART = 0.93


def launch(kernel, count, *arguments):
    """Launch a kernel with a thread for each of `count` elements."""
    if count and not IS_DRY:
        kernel[(count + THREADS - 1) // THREADS, THREADS](*arguments)


# --- prefix sums ----------------------------------------------------------------------------------


@cuda.jit(cache=True)
def set_all(values, value):
    i = cuda.grid(1)
    if i < values.size:
        values[i] = value


@cuda.jit(cache=True)
def chunk_sums(values, sums):
    i = cuda.grid(1)
    if i < sums.size:
        total = 0
        for j in range(i * CHUNK, min((i + 1) * CHUNK, values.size)):
            total += values[j]
        sums[i] = total


@cuda.jit(cache=True)
def chunk_scan(values, starts, out):
    i = cuda.grid(1)
    if i < starts.size:
        total = starts[i]
        for j in range(i * CHUNK, min((i + 1) * CHUNK, values.size)):
            out[j] = total
            total += values[j]


def scan(values):
    """Return the sums of all earlier elements, as an array of int64, and the sum of all."""
    sums = cuda.device_array((values.size + CHUNK - 1) // CHUNK, "i8")
    launch(chunk_sums, sums.size, values, sums)
    if sums.size > 1:
        starts, total = scan(sums)
    else:
        starts, total = cuda.device_array(1, "i8"), int(sums.copy_to_host()[0])
        launch(set_all, 1, starts, 0)
    out = cuda.device_array(values.size, "i8")
    launch(chunk_scan, starts.size, values, starts, out)
    return out, int(DRY_PART * values.size) if IS_DRY else total


# --- particles ------------------------------------------------------------------------------------


@cuda.jit(device=True)
def hashed(number):
    """Return a hash of 32 bits."""
    number = (number * 2654435761 + 974711) & 0xFFFFFFFF
    number = ((number ^ (number >> 15)) * 2246822519) & 0xFFFFFFFF
    return number ^ (number >> 13)


@cuda.jit(cache=True)
def grow(old, new, box):
    """Copy all particles and add new ones: columns 0 to 2 are positions, 3 to 5 velocities."""
    i = cuda.grid(1)
    if i < new.shape[0]:
        for axis in range(6):
            if i < old.shape[0]:
                new[i, axis] = old[i, axis]
            else:
                value = hashed(i * 6 + axis)
                new[i, axis] = value % box if axis < 3 else value % 65 - 32


@cuda.jit(cache=True)
def cells_of(particles, side, cells, numbers, counts):
    """Write the number of the cell of each particle, and count the particles of each cell."""
    i = cuda.grid(1)
    if i < numbers.size:
        x, y, z = particles[i, 0] // side, particles[i, 1] // side, particles[i, 2] // side
        number = (x * cells + y) * cells + z
        numbers[i] = number
        cuda.atomic.add(counts, number, 1)


@cuda.jit(cache=True)
def place(numbers, offsets, taken, order):
    """Write the particles in the order of their cells."""
    i = cuda.grid(1)
    if i < numbers.size:
        number = numbers[i]
        order[offsets[number] + cuda.atomic.add(taken, number, 1)] = i


@cuda.jit(cache=True)
def find_neighbours(particles, side, cells, counts, offsets, order, lists, found):
    """Write the particles within `side` of each particle, up to the length of its list."""
    i = cuda.grid(1)
    if i >= found.size:
        return
    px, py, pz = particles[i, 0], particles[i, 1], particles[i, 2]
    cx, cy, cz = px // side, py // side, pz // side
    total = 0
    for x in range(max(cx - 1, 0), min(cx + 2, cells)):
        for y in range(max(cy - 1, 0), min(cy + 2, cells)):
            for z in range(max(cz - 1, 0), min(cz + 2, cells)):
                number = (x * cells + y) * cells + z
                for j in range(offsets[number], offsets[number] + counts[number]):
                    other = order[j]
                    dx = particles[other, 0] - px
                    dy = particles[other, 1] - py
                    dz = particles[other, 2] - pz
                    if other != i and dx * dx + dy * dy + dz * dz < side * side:
                        if total < lists.shape[1]:
                            lists[i, total] = other
                        total += 1
    found[i] = total


@cuda.jit(cache=True)
def move(particles, side, lists, found, moved, box, failures):
    """Push particles away from their neighbours, in whole numbers: the order has no influence."""
    i = cuda.grid(1)
    if i >= found.size:
        return
    if found[i] > lists.shape[1]:
        cuda.atomic.add(failures, 0, 1)
    fx, fy, fz = 0, 0, 0
    for j in range(min(found[i], lists.shape[1])):
        other = lists[i, j]
        dx = particles[i, 0] - particles[other, 0]
        dy = particles[i, 1] - particles[other, 1]
        dz = particles[i, 2] - particles[other, 2]
        weight = side * side - (dx * dx + dy * dy + dz * dz)
        fx += dx * weight // (side * side)
        fy += dy * weight // (side * side)
        fz += dz * weight // (side * side)
    moved[i, 3] = min(max(particles[i, 3] + fx // 8, -side), side)
    moved[i, 4] = min(max(particles[i, 4] + fy // 8, -side), side)
    moved[i, 5] = min(max(particles[i, 5] + fz // 8, -side), side)
    for axis in range(3):
        moved[i, axis] = (particles[i, axis] + moved[i, axis + 3] + box) % box


@cuda.jit(cache=True)
def add_table(table, sums):
    """Add hashes of all rows of a table."""
    i = cuda.grid(1)
    if i < table.shape[0]:
        value = i
        for column in range(table.shape[1]):
            value = hashed(value ^ (int(table[i, column]) & 0xFFFFFFFF))
        cuda.atomic.add(sums, i % sums.size, value)


# --- sort -----------------------------------------------------------------------------------------


@cuda.jit(cache=True)
def make_keys(keys, values, seed):
    i = cuda.grid(1)
    if i < keys.size:
        keys[i] = hashed(i ^ seed)
        values[i] = i


@cuda.jit(cache=True)
def count_digits(keys, shift, part, counts):
    """Count the digits of each part of the keys: counts[digit * parts + part]."""
    i = cuda.grid(1)
    parts = counts.size // 256
    if i < parts:
        for digit in range(256):
            counts[digit * parts + i] = 0
        for j in range(i * part, min((i + 1) * part, keys.size)):
            counts[((keys[j] >> shift) & 255) * parts + i] += 1


@cuda.jit(cache=True)
def scatter(keys, values, shift, part, places, new_keys, new_values):
    """Write each part of the keys at its places, in the order of the part."""
    i = cuda.grid(1)
    parts = places.size // 256
    if i < parts:
        for j in range(i * part, min((i + 1) * part, keys.size)):
            index = ((keys[j] >> shift) & 255) * parts + i
            new_keys[places[index]] = keys[j]
            new_values[places[index]] = values[j]
            places[index] += 1


@cuda.jit(cache=True)
def mark_first(keys, marks):
    """Write 1 where a key differs from the one before."""
    i = cuda.grid(1)
    if i < keys.size:
        marks[i] = 1 if i == 0 or keys[i] != keys[i - 1] else 0


@cuda.jit(cache=True)
def check_sorted(keys, values, seed, wrong):
    """Count the places that are out of order, or whose value is not that of the key."""
    i = cuda.grid(1)
    if i < keys.size:
        is_bad = keys[i] != hashed(int(values[i]) ^ seed)
        if i > 0 and (
            keys[i - 1] > keys[i] or (keys[i - 1] == keys[i] and values[i - 1] >= values[i])
        ):
            is_bad = True
        if is_bad:
            cuda.atomic.add(wrong, 0, 1)


# --- rays -----------------------------------------------------------------------------------------


@cuda.jit(cache=True)
def begin_rays(rays, pixels, width, turn):
    """Begin a ray for each pixel: columns 0 to 2 are the position, 3 to 5 the direction."""
    i = cuda.grid(1)
    if i < pixels.size:
        u = (i % width) / width - 0.5
        v = (i // width) / width - 0.5
        w = math.sqrt(1.0 - u * u - v * v)
        rays[i, 0], rays[i, 1], rays[i, 2] = 0.3, 0.2, turn * 0.1
        rays[i, 3], rays[i, 4], rays[i, 5] = u, v, w
        pixels[i] = i


@cuda.jit(device=True)
def distance(x, y, z):
    """Return the distance from a grid of balls."""
    x -= math.floor(x) + 0.5
    y -= math.floor(y) + 0.5
    z -= math.floor(z) + 0.5
    return math.sqrt(x * x + y * y + z * z) - 0.1


@cuda.jit(cache=True)
def march(rays, pixels, step, far, image, active):
    """Advance each ray; colour the pixels of those that end, and mark the others."""
    i = cuda.grid(1)
    if i >= pixels.size:
        return
    length = distance(rays[i, 0], rays[i, 1], rays[i, 2])
    for axis in range(3):
        rays[i, axis] += rays[i, axis + 3] * max(length, 0.002)
    active[i] = 1
    if length < 0.002:
        image[pixels[i]] = 1 + step
        active[i] = 0
    elif rays[i, 2] > far:
        image[pixels[i]] = 255
        active[i] = 0


@cuda.jit(cache=True)
def keep_active(rays, pixels, active, places, new_rays, new_pixels):
    """Copy the rays that go on to their new places."""
    i = cuda.grid(1)
    if i < pixels.size and active[i]:
        for column in range(6):
            new_rays[places[i], column] = rays[i, column]
        new_pixels[places[i]] = pixels[i]
