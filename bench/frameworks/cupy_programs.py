"""Three programs of CuPy whose temporary arrays change in size from step to step.

poisson     spectral solutions of Poisson's equation on grids of changing sizes
kmeans      k-means clustering and principal components of batches of changing sizes
images      blur, edges and equalised histograms of batches of images of changing sizes

Each is a class: `Program(xp, scale, rng)`, then step() for each step, checksum() and check() at the
end. check() raises if the result is wrong. `xp` is cupy, or numpy for a test without a GPU. `scale`
is a number of elements. `rng` is a random.Random, which chooses the sizes. `note` is called where
most memory is live.
"""

from __future__ import annotations

import math


class Poisson:
    """Solve the equation of a sum of waves on periodic grids, by FFT."""

    scale = 576  # points of the largest grid in each direction
    smallest_scale = 32
    steps = 60

    def __init__(self, xp, scale, rng, note):
        self.xp, self.scale, self.rng, self.note = xp, scale, rng, note
        self.sum, self.error = 0.0, 0.0

    def step(self):
        xp = self.xp
        shape = [self.rng.randrange(self.scale * 3 // 4, self.scale + 1, 8) for _ in range(3)]
        waves = [self.rng.randrange(1, 4) for _ in shape]
        axes = [xp.arange(n, dtype="f4") * (2 * math.pi / n) for n in shape]
        x, y, z = xp.meshgrid(*axes, indexing="ij", sparse=True)
        wanted = xp.sin(waves[0] * x) * xp.cos(waves[1] * y) * xp.sin(waves[2] * z)
        source = wanted * xp.float32(-sum(wave * wave for wave in waves))
        transformed = xp.fft.rfftn(source)
        squares = self._squares(shape)
        transformed /= xp.where(squares == 0, xp.float32(1), -squares)
        self.note()
        del squares
        solution = xp.fft.irfftn(transformed, s=shape, axes=(0, 1, 2))
        del transformed
        self.note()
        difference = xp.abs(solution - wanted)
        self.error = max(self.error, float(difference.max()))
        self.sum += float((solution * solution).sum(dtype="f8")) / solution.size

    def _squares(self, shape):
        """Return the squared wave numbers of a transformed grid."""
        xp = self.xp
        *first, last = shape
        waves = [xp.fft.fftfreq(n, 1 / n).astype("f4") for n in first]
        waves.append(xp.fft.rfftfreq(last, 1 / last).astype("f4"))
        a, b, c = xp.meshgrid(*waves, indexing="ij", sparse=True)
        return a * a + b * b + c * c

    def check(self):
        assert self.error < 1e-3, f"the solution is wrong by {self.error}"

    def checksum(self):
        return self.sum


class Kmeans:
    """Cluster batches of points around known centres; add up their covariance."""

    scale = 8_000_000  # points of the largest batch
    smallest_scale = 4000
    steps = 10
    clusters, dimensions, rounds = 48, 32, 4

    def __init__(self, xp, scale, rng, note):
        self.xp, self.scale, self.rng, self.note = xp, scale, rng, note
        number = xp.arange(self.clusters * self.dimensions)
        # Bits of the number of the cluster: each two centres differ by 10 in some direction.
        bits = (number // self.dimensions) >> (number % self.dimensions % 6)
        self.wanted = ((bits & 1) * 10).astype("f4").reshape(self.clusters, self.dimensions)
        self.centres = self.wanted + xp.float32(0.5)
        self.covariance = xp.zeros((self.dimensions, self.dimensions), "f8")
        self.count = 0

    def step(self):
        xp = self.xp
        count = self.rng.randrange(self.scale // 4, self.scale)
        points = self._points(count)
        for _ in range(self.rounds):
            self.centres = self._moved(points)
        centred = points - points.mean(axis=0)
        self.note()
        self.covariance += (centred.T @ centred).astype("f8")
        self.count += count
        xp.linalg.eigh(self.covariance / self.count)

    def _points(self, count):
        """Return points around the wanted centres, at distances that a hash determines."""
        xp = self.xp
        number = xp.arange(count * self.dimensions, dtype="u4")
        number *= xp.uint32(2654435761)
        number ^= number >> xp.uint32(15)
        noise = (number & xp.uint32(1023)).astype("f4")
        noise *= xp.float32(1 / 512)
        noise -= xp.float32(1)
        del number
        kinds = xp.arange(count) % self.clusters
        return self.wanted[kinds] + noise.reshape(count, self.dimensions)

    def _moved(self, points):
        """Return the means of the points that are nearest to each centre."""
        xp = self.xp
        distances = points @ (self.centres.T * xp.float32(-2))
        distances += (self.centres * self.centres).sum(axis=1)
        labels = distances.argmin(axis=1)
        self.note()
        del distances
        belongs = (labels[:, None] == xp.arange(self.clusters)).astype("f4")
        return (belongs.T @ points) / belongs.sum(axis=0)[:, None]

    def check(self):
        error = float(abs(self.centres - self.wanted).max())
        assert error < 0.2, f"the centres are wrong by {error}"

    def checksum(self):
        return float(self.centres.sum(dtype="f8")) + float(self.covariance.trace()) / self.count


class Images:
    """Blur, edges and equalised brightness of batches of colour images."""

    scale = 48_000_000  # pixels of the largest batch, with three colours
    smallest_scale = 4000
    steps = 50
    weights = (0.0625, 0.25, 0.375, 0.25, 0.0625)

    def __init__(self, xp, scale, rng, note):
        self.xp, self.scale, self.rng, self.note = xp, scale, rng, note
        self.sum, self.pixels = 0, 0

    def step(self):
        xp = self.xp
        count = self.rng.randrange(4, 17)
        pixels = self.rng.randrange(self.scale // 4, self.scale) // count
        width = max(int(math.sqrt(pixels * 16 / 9)), 16)
        height = max(pixels // width, 9)
        number = xp.arange(count * 3 * height * width, dtype="u4") * xp.uint32(2246822519)
        batch = ((number >> xp.uint32(13)) & xp.uint32(255)).astype("u1")
        del number
        batch = batch.reshape(count, 3, height, width)
        while min(batch.shape[2:]) >= 8:  # a pyramid
            batch = self._level(batch)

    def _level(self, batch):
        """Add the figures of a batch to the sum, and return the batch at half its size."""
        xp = self.xp
        smooth = self._blurred(self._blurred(batch.astype("f4"), 2), 3)
        grey = smooth[:, 0] * 0.299 + smooth[:, 1] * 0.587 + smooth[:, 2] * 0.114
        across = grey[:, 1:-1, 2:] - grey[:, 1:-1, :-2]
        down = grey[:, 2:, 1:-1] - grey[:, :-2, 1:-1]
        edges = xp.sqrt(across * across + down * down)
        self.note()
        levels = self._equalised(grey.astype("u1"))
        self.sum += int((edges > 8).sum()) + int(levels.sum(dtype="i8"))
        self.pixels += levels.size
        return smooth[:, :, ::2, ::2].astype("u1")

    def _blurred(self, batch, axis):
        """Return a batch with the weights along an axis; the borders repeat."""
        xp = self.xp
        width = [(0, 0)] * 4
        width[axis] = (2, 2)
        padded = xp.pad(batch, width, mode="edge")
        length, result = batch.shape[axis], None
        for shift, weight in enumerate(self.weights):
            part = [slice(None)] * 4
            part[axis] = slice(shift, shift + length)
            term = padded[tuple(part)] * xp.float32(weight)
            result = term if result is None else result + term
        return result

    def _equalised(self, grey):
        """Return images whose brightness has a flat histogram."""
        xp = self.xp
        tables = []
        for image in grey:
            counts = xp.bincount(image.ravel(), minlength=256)
            tables.append((counts.cumsum() * 255 // image.size).astype("u1"))
        return xp.stack([table[image] for table, image in zip(tables, grey)])

    def check(self):
        assert self.pixels and 0 < self.sum < 256 * self.pixels, (self.sum, self.pixels)

    def checksum(self):
        return self.sum


PROGRAMS = {"poisson": Poisson, "kmeans": Kmeans, "images": Images}
