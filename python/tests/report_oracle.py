"""Replays the rows of a log in memory, to check the figures of a page.

It keeps all rows and copies all values at each maximum: slow, and simple enough to trust.
Rows are (action, address, stream, bytes, start, location, end).
"""

from collections import Counter

from report_logs import ALLOCATE, FAILURE, FREE

FIRST_WIDTH, COLUMNS = 10**6, 2048


class Column:
    def __init__(self, total, values):
        self.max = self.min = total
        self.offset = self.allocations = self.frees = 0
        self.values = dict(values)


class Oracle:
    """The figures of a log; `columns` are those of the width that the log needs."""

    def __init__(self, rows):
        self.live, self.values, self.total_now = {}, Counter(), 0
        self.peak = self.peak_ns = self.allocations = self.frees = self.failures = 0
        self.unmatched = self.doubled = self.total = self.moved = 0
        self.at_peak, self.sites = {}, {}
        self.held, self.exit_blocks = Counter(), None
        self.start = rows[0][4]
        end = max(max(row[4], row[6]) for row in rows)
        self.width = FIRST_WIDTH
        while (end - self.start) // self.width >= COLUMNS:
            self.width *= 2
        self.columns, self.now = [Column(0, {})], self.start
        for number, row in enumerate(rows):
            self._row(number, row)
        self._advance(end)
        left = self.exit_blocks if self.exit_blocks is not None else set(self.live)
        for address in left & set(self.live):
            size, (_kind, place), *_ = self.live[address]
            self.held[place] += size

    def _advance(self, time):
        if time > self.now:
            self.now = time
        while (self.now - self.start) // self.width >= len(self.columns):
            self.columns.append(Column(self.total_now, self.values))

    def _site(self, place):
        fields = ["total", "count", "frees", "largest"]
        return self.sites.setdefault(place, dict.fromkeys(fields, 0) | {"lifetimes": []})

    def _end(self, address, time):
        size, *series, born = self.live.pop(address)
        self.total_now -= size
        for one in series:
            self.values[one] -= size
        site = self._site(series[0][1])
        site["frees"] += 1
        return size, series[0][1], max(0, time - born)

    def _row(self, number, row):
        action, address, stream, size, start, place, end = row
        time = start if action == FREE else max(start, end)
        self.moved += time < self.now
        self._advance(time)
        if place == "<exit>" and self.exit_blocks is None:
            self.exit_blocks = set(self.live)
        if action == ALLOCATE:
            self._allocate(address, stream, size, time, place)
        elif action == FREE:
            self._free(address, time, place)
        else:
            assert action == FAILURE
            self.failures += 1
        column = self.columns[-1]
        column.min = min(column.min, self.total_now)
        if self.total_now > column.max:
            column.max, column.values = self.total_now, dict(self.values)
            column.offset = self.now - self.start - (len(self.columns) - 1) * self.width
        if self.total_now > self.peak:
            self.peak, self.peak_ns, self.at_peak = self.total_now, self.now, dict(self.values)

    def _allocate(self, address, stream, size, time, place):
        self.allocations += 1
        self.columns[-1].allocations += 1
        self.total += size
        if address == 0:
            return
        if address in self.live:
            self.doubled += 1
            _, owner, lifetime = self._end(address, time)
            self._site(owner)["lifetimes"].append(lifetime)
            if self.exit_blocks is not None:
                self.exit_blocks.discard(address)
        series = ("site", place), ("stream", stream), ("size", max(size - 1, 0).bit_length())
        self.live[address] = (size, *series, time)
        self.total_now += size
        for one in series:
            self.values[one] += size
        site = self._site(place)
        site["total"] += size
        site["count"] += 1
        site["largest"] = max(site["largest"], size)

    def _free(self, address, time, place):
        self.frees += 1
        self.columns[-1].frees += 1
        if address == 0:
            return
        if address not in self.live:
            self.unmatched += 1
            return
        size, owner, lifetime = self._end(address, time)
        was_live_at_exit = self.exit_blocks is not None and address in self.exit_blocks
        if was_live_at_exit:
            self.exit_blocks.discard(address)
        if was_live_at_exit and place in ("<exit>", "<gc>"):
            self.held[owner] += size
        else:
            self._site(owner)["lifetimes"].append(lifetime)

    def sites_at(self, values):
        """The live bytes of each site in a copy of the values."""
        return {name: size for (kind, name), size in values.items() if kind == "site" and size}
