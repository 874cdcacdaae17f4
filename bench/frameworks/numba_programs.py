"""Three programs of Numba that allocate temporary arrays in each step.

particles   particles in cells that push each other: lists of neighbours, and ever more particles
sort        radix sort of batches of changing sizes, and groups of equal keys
rays        sphere tracing of images of changing sizes: the list of active rays gets shorter

Each is a class as in cupy_programs.py: `Program(scale, rng, note)`. All results are whole numbers
that do not depend on the order of threads, so checksums are equal under any allocator.
"""

from __future__ import annotations

import numba_kernels as kernels
from numba import cuda
from numba_kernels import launch, scan


def zeros(count, kind="i4"):
    """Return an array of zeros."""
    array = cuda.device_array(count, kind)
    launch(kernels.set_all, count, array, 0)
    return array


def total(array):
    """Return the sum of an array that fits on the host."""
    return int(array.copy_to_host().sum())


class Particles:
    """Particles in cells. Each step adds some, sorts them by cell, and lists their neighbours."""

    scale = 10_000_000  # particles after the last step
    smallest_scale = 200
    steps = 12
    side, list_length = 256, 64  # of a cell; of a list of neighbours

    def __init__(self, scale, rng, note):
        self.rng, self.note, self.scale = rng, note, scale
        # Two particles a cell at the end: 8 neighbours on average.
        self.cells = max(int((scale / 2) ** (1 / 3)), 2)
        self.box = self.cells * self.side
        self.added = scale // (2 * self.steps)
        self.particles = cuda.device_array((0, 6), "i4")
        self.failures = zeros(1)
        self.sum = 0

    def step(self):
        before = self.particles.shape[0]
        first = self.scale // 2 if before == 0 else 0
        count = before + first + self.rng.randrange(self.added // 2, self.added + 1)
        particles = cuda.device_array((count, 6), "i4")
        launch(kernels.grow, count, self.particles, particles, self.box)
        self.particles = particles

        numbers, order = cuda.device_array(count, "i4"), cuda.device_array(count, "i4")
        counts, taken = zeros(self.cells**3), zeros(self.cells**3)
        launch(kernels.cells_of, count, particles, self.side, self.cells, numbers, counts)
        offsets, _ = scan(counts)
        launch(kernels.place, count, numbers, offsets, taken, order)
        del numbers, taken

        lists = cuda.device_array((count, self.list_length), "i4")
        found = cuda.device_array(count, "i4")
        where = (particles, self.side, self.cells, counts, offsets, order)
        launch(kernels.find_neighbours, count, *where, lists, found)
        moved = cuda.device_array((count, 6), "i4")
        launch(
            kernels.move, count, particles, self.side, lists, found, moved, self.box, self.failures
        )
        _sums, neighbours = scan(found)
        self.note()
        self.particles = moved
        self.sum += neighbours

    def check(self):
        assert self.particles.shape[0] > self.scale // 2 and self.sum > 0
        assert total(self.failures) == 0, "a list of neighbours is too short"

    def checksum(self):
        sums = zeros(1024, "i8")
        launch(kernels.add_table, self.particles.shape[0], self.particles, sums)
        return total(sums) + self.sum


class Sort:
    """Stable radix sort of keys with their values, 8 bits at a time; then groups of equal keys."""

    scale = 96_000_000  # keys of the largest batch
    smallest_scale = 600
    steps = 8
    part = 512  # keys of one thread

    def __init__(self, scale, rng, note):
        self.scale, self.rng, self.note = scale, rng, note
        self.wrong = zeros(1)
        self.sum = 0

    def step(self):
        count = self.rng.randrange(self.scale // 4, self.scale)
        seed = self.rng.randrange(1 << 31)
        keys, values = cuda.device_array(count, "i8"), cuda.device_array(count, "i4")
        launch(kernels.make_keys, count, keys, values, seed)
        for shift in range(0, 32, 8):
            keys, values = self._pass(keys, values, shift)
        launch(kernels.check_sorted, count, keys, values, seed, self.wrong)
        marks = cuda.device_array(count, "i4")
        launch(kernels.mark_first, count, keys, marks)
        groups, different = scan(marks)
        self.note()
        last = int(groups[count - 1 : count].copy_to_host()[0])
        self.sum += different * 31 + last + int(keys[count // 2 : count // 2 + 1].copy_to_host()[0])

    def _pass(self, keys, values, shift):
        """Return the keys and values in the order of one digit."""
        parts = (keys.size + self.part - 1) // self.part
        counts = cuda.device_array(256 * parts, "i4")
        launch(kernels.count_digits, parts, keys, shift, self.part, counts)
        places, _ = scan(counts)
        new_keys, new_values = cuda.device_array_like(keys), cuda.device_array_like(values)
        arguments = (keys, values, shift, self.part, places, new_keys, new_values)
        launch(kernels.scatter, parts, *arguments)
        self.note()
        return new_keys, new_values

    def check(self):
        assert total(self.wrong) == 0, f"{total(self.wrong)} places are out of order"

    def checksum(self):
        return self.sum


class Rays:
    """Sphere tracing: each step is an image, whose rays end one after the other."""

    scale = 44_000_000  # pixels of the largest image
    smallest_scale = 64
    steps = 8
    marches, far = 48, 12.0

    def __init__(self, scale, rng, note):
        self.scale, self.rng, self.note = scale, rng, note
        self.sum = self.ended = 0

    def step(self):
        width = int(self.rng.randrange(self.scale // 4, self.scale) ** 0.5)
        count = width * width
        rays, pixels = cuda.device_array((count, 6), "f4"), cuda.device_array(count, "i4")
        launch(kernels.begin_rays, count, rays, pixels, width, self.rng.randrange(10))
        image = zeros(count)
        for number in range(self.marches):
            if pixels.size == 0:
                break
            rays, pixels = self._march(rays, pixels, number, image)
        _, colours = scan(image)
        self.ended += count - pixels.size
        self.sum += colours

    def _march(self, rays, pixels, number, image):
        """Advance all rays once, and return those that go on."""
        active = cuda.device_array(pixels.size, "i4")
        launch(kernels.march, pixels.size, rays, pixels, number, self.far, image, active)
        places, count = scan(active)
        new_rays = cuda.device_array((count, 6), "f4")
        new_pixels = cuda.device_array(count, "i4")
        old = (rays, pixels, active, places)
        launch(kernels.keep_active, pixels.size, *old, new_rays, new_pixels)
        self.note()
        return new_rays, new_pixels

    def check(self):
        assert self.ended > 0 and self.sum > self.ended, (self.ended, self.sum)

    def checksum(self):
        return self.sum


PROGRAMS = {"particles": Particles, "sort": Sort, "rays": Rays}
