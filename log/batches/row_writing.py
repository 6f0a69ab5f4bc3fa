# cython: language_level=3, boundscheck=True, wraparound=False, initializedcheck=False
"""The loops that write rows of columns as records: in C if the package was built with a compiler, otherwise in plain
Python.

Cython compiles this file in its pure-Python mode. A column of bytes is three buffers: data, and for each row the start
(int32) and the size (int32, -1 for null) of its slice. Every slice is checked against its data before it is copied.
Grammar of a record: see `trimaran.log.batches.batch.BatchView`. Use it through `trimaran.log.batches.rows`; the types
for callers are in `row_writing.pyi`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from trimaran.log import cython_names as cython

COMPILED = cython.compiled

_SEED = cython.declare(cython.ulonglong, 0x9747B28C)
_MULTIPLIER = cython.declare(cython.ulonglong, 0x5BD1E995)
_MASK = cython.declare(cython.ulonglong, 0xFFFFFFFF)
# The size of a typical record without key, value and headers.
_ROW_BYTES = cython.declare(cython.longlong, 9)


@cython.final
@cython.cclass
class Slices:
    """A column of bytes."""

    data: cython.const[cython.uchar][::1]
    starts: cython.const[cython.int][::1]
    sizes: cython.const[cython.int][::1]

    def __init__(self, data, starts, sizes):
        self.data = data
        self.starts = starts
        self.sizes = sizes

    def check(self, rows: cython.Py_ssize_t):
        """Raises IndexError: there are fewer slices than rows, or a slice is not within the data."""
        row: cython.Py_ssize_t
        start: cython.longlong
        size: cython.longlong
        end: cython.longlong = len(self.data)
        if len(self.starts) < rows or len(self.sizes) < rows:
            raise IndexError(f"fewer slices than {rows} rows")
        for row in range(rows):
            start, size = self.starts[row], self.sizes[row]
            if size > 0 and (start < 0 or start + size > end):
                raise IndexError(f"slice {row} is not within {end} bytes")

    @cython.cfunc
    def hash_of(self, row: cython.Py_ssize_t) -> cython.ulonglong:
        """Returns the 32-bit hash of a slice that is not null, Austin Appleby's murmur2 with Kafka's seed."""
        start: cython.Py_ssize_t = self.starts[row]
        size: cython.Py_ssize_t = self.sizes[row]
        whole: cython.Py_ssize_t = size & ~3
        found: cython.ulonglong = (_SEED ^ cython.cast(cython.ulonglong, size)) & _MASK
        word: cython.ulonglong
        at: cython.Py_ssize_t
        for at in range(start, start + whole, 4):
            word = self.data[at] | self.data[at + 1] << 8 | self.data[at + 2] << 16
            word |= cython.cast(cython.ulonglong, self.data[at + 3]) << 24
            word = word * _MULTIPLIER & _MASK
            word = (word ^ word >> 24) * _MULTIPLIER & _MASK
            found = found * _MULTIPLIER & _MASK ^ word
        if size > whole:
            word = 0
            for at in range(size - whole):
                word |= cython.cast(cython.ulonglong, self.data[start + whole + at]) << (8 * at)
            found = (found ^ word) * _MULTIPLIER & _MASK
        found = (found ^ found >> 13) * _MULTIPLIER & _MASK
        return found ^ found >> 15

    def hashes(self, rows: cython.Py_ssize_t):
        """Returns the hashes of the first rows; for tests, which compare them with those of another implementation."""
        self.check(rows)
        return [self.hash_of(row) for row in range(rows)]


def place_rows(
    topics,
    firsts,
    counts,
    partitions,
    keys: Slices,
    values: Slices,
    sticky,
    filled,
    nexts,
    batch_bytes,
    uses_keys,
    slots,
):
    """Writes the slot of each row to `slots`; returns the first row whose partition does not exist, or -1.

    `topics` has the number of each row's topic. The slots of topic t begin at `firsts[t]`, one for each of its
    `counts[t]` partitions. `partitions` has the partition that each row requests, or the smallest int32 if it requests
    none: then a row with a key goes to the partition of its hash, unless `uses_keys` is false. Other rows go to the
    slot `sticky[t]`; when that has received `batch_bytes`, counted in `filled[t]`, its successor in `nexts` takes its
    place (KIP-794).
    """
    topic_of: cython.const[cython.int][::1] = topics
    first_of: cython.const[cython.int][::1] = firsts
    count_of: cython.const[cython.int][::1] = counts
    asked: cython.const[cython.int][::1] = partitions
    sticky_of: cython.int[::1] = sticky
    filled_of: cython.longlong[::1] = filled
    next_of: cython.const[cython.int][::1] = nexts
    out: cython.int[::1] = slots
    row: cython.Py_ssize_t
    topic: cython.Py_ssize_t
    none: cython.longlong = -(1 << 31)
    most: cython.longlong = batch_bytes
    by_key: cython.bint = uses_keys
    keys.check(len(out))
    values.check(len(out))
    for row in range(len(out)):
        topic = topic_of[row]
        if asked[row] != none:
            if asked[row] < 0 or asked[row] >= count_of[topic]:
                return row
            out[row] = first_of[topic] + asked[row]
        elif by_key and keys.sizes[row] >= 0:
            out[row] = first_of[topic] + cython.cast(
                cython.int,
                (keys.hash_of(row) & 0x7FFFFFFF) % cython.cast(cython.ulonglong, count_of[topic]),
            )
        else:
            if filled_of[topic] >= most:
                filled_of[topic] = 0
                sticky_of[topic] = next_of[sticky_of[topic]]
            out[row] = sticky_of[topic]
            filled_of[topic] += _ROW_BYTES + max(0, keys.sizes[row]) + max(0, values.sizes[row])
    return -1


def group_rows(slots, ends, order):
    """Writes the rows to `order`, in stable order by slot, and the end of each slot's rows to `ends`."""
    slot_of: cython.const[cython.int][::1] = slots
    end_of: cython.int[::1] = ends
    out: cython.int[::1] = order
    row: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    at: cython.int = 0
    here: cython.int
    for slot in range(len(end_of)):
        end_of[slot] = 0
    for row in range(len(slot_of)):
        end_of[slot_of[row]] += 1
    for slot in range(len(end_of)):
        here = end_of[slot]
        end_of[slot] = at
        at += here
    for row in range(len(slot_of)):
        slot = slot_of[row]
        out[end_of[slot]] = cython.cast(cython.int, row)
        end_of[slot] += 1


@cython.final
@cython.cclass
class RowWriter:
    """Writes the rows of one set of columns; `headers_starts` and `headers_counts` are None if there are no headers."""

    keys: Slices
    values: Slices
    timestamps: cython.const[cython.longlong][::1]
    has_headers: cython.bint
    headers_starts: cython.const[cython.int][::1]
    headers_counts: cython.const[cython.int][::1]
    names: Slices
    texts: Slices
    out: cython.uchar[::1]
    # results of the last `write`
    at: cython.Py_ssize_t
    needed: cython.Py_ssize_t
    max_timestamp: cython.longlong

    def __init__(
        self, keys: Slices, values: Slices, timestamps, headers_starts, headers_counts, names, texts
    ):
        count: cython.Py_ssize_t = len(timestamps)
        self.keys = keys
        self.values = values
        self.timestamps = timestamps
        self.has_headers = headers_starts is not None
        keys.check(count)
        values.check(count)
        if self.has_headers:
            self.headers_starts = headers_starts
            self.headers_counts = headers_counts
            self.names = names
            self.texts = texts
            self._check_headers(count)

    def _check_headers(self, count: cython.Py_ssize_t):
        row: cython.Py_ssize_t
        stop: cython.longlong
        last: cython.longlong = 0
        for row in range(count):
            stop = cython.cast(cython.longlong, self.headers_starts[row]) + self.headers_counts[row]
            if self.headers_counts[row] > 0:
                if self.headers_starts[row] < 0:
                    raise IndexError(f"headers of row {row}")
                last = max(last, stop)
        self.names.check(last)
        self.texts.check(last)

    def write(self, out, at, limit, rows, first, last, base_timestamp, delta):
        """Writes `rows[first:last]` from `out[at]` on, and returns the first row that has not been written, because it
        would end after `limit`. `delta` is the offset delta of the first row. It sets `end`, `needed_bytes` (of the row
        that did not fit) and `largest_timestamp` (of the written rows).
        """
        chosen: cython.const[cython.int][::1] = rows
        index: cython.Py_ssize_t
        stop: cython.Py_ssize_t = last
        end: cython.Py_ssize_t = limit
        base: cython.longlong = base_timestamp
        number: cython.longlong = delta
        row: cython.Py_ssize_t
        size: cython.Py_ssize_t
        self.out = out
        self.at = at
        self.needed = 0
        self.max_timestamp = -1
        if end > len(self.out):
            raise IndexError("the limit is not within the buffer")
        index = first
        while index < stop:
            row = chosen[index]
            size = self.body_size(row, self.timestamps[row] - base, number)
            if self.at + size + varint_size(size) > end:
                self.needed = size + varint_size(size)
                break
            self.write_record(row, size, self.timestamps[row] - base, number)
            if self.timestamps[row] > self.max_timestamp:
                self.max_timestamp = self.timestamps[row]
            number += 1
            index += 1
        self.out = bytearray(0)
        return index

    @property
    def end(self):
        return self.at

    @property
    def needed_bytes(self):
        return self.needed

    @property
    def largest_timestamp(self):
        return self.max_timestamp

    @cython.cfunc
    def body_size(
        self, row: cython.Py_ssize_t, timestamp_delta: cython.longlong, delta: cython.longlong
    ) -> cython.Py_ssize_t:
        size: cython.Py_ssize_t = 1 + varint_size(timestamp_delta) + varint_size(delta)
        index: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        size += slice_size(self.keys.sizes[row]) + slice_size(self.values.sizes[row])
        if self.has_headers and self.headers_counts[row] > 0:
            count = self.headers_counts[row]
            for index in range(self.headers_starts[row], self.headers_starts[row] + count):
                size += slice_size(max(0, self.names.sizes[index]))
                size += slice_size(self.texts.sizes[index])
        return size + varint_size(count)

    @cython.cfunc
    @cython.exceptval(-1)
    def write_record(
        self,
        row: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        timestamp_delta: cython.longlong,
        delta: cython.longlong,
    ) -> cython.int:
        index: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        self.write_varint(size)
        self.out[self.at] = 0  # attributes, unused
        self.at += 1
        self.write_varint(timestamp_delta)
        self.write_varint(delta)
        self.write_slice(self.keys, row, self.keys.sizes[row])
        self.write_slice(self.values, row, self.values.sizes[row])
        if self.has_headers and self.headers_counts[row] > 0:
            count = self.headers_counts[row]
        self.write_varint(count)
        if count:
            for index in range(self.headers_starts[row], self.headers_starts[row] + count):
                self.write_slice(self.names, index, max(0, self.names.sizes[index]))
                self.write_slice(self.texts, index, self.texts.sizes[index])
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def write_varint(self, value: cython.longlong) -> cython.int:
        left: cython.ulonglong = zigzag(value)
        while left > 127:
            self.out[self.at] = cython.cast(cython.uchar, left & 127 | 128)
            self.at += 1
            left >>= 7
        self.out[self.at] = cython.cast(cython.uchar, left)
        self.at += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.boundscheck(False)
    def write_slice(
        self, column: Slices, row: cython.Py_ssize_t, size: cython.Py_ssize_t
    ) -> cython.int:
        """Copies a slice that was checked against its data; `write` has checked that it fits into the buffer."""
        index: cython.Py_ssize_t
        at: cython.Py_ssize_t
        start: cython.Py_ssize_t
        self.write_varint(size)
        if size > 0:
            at, start = self.at, column.starts[row]
            if cython.compiled:
                for index in range(size):
                    self.out[at + index] = column.data[start + index]
            else:
                self.out[at : at + size] = bytes(column.data[start : start + size])
            self.at = at + size
        return 0


@cython.cfunc
@cython.inline
def zigzag(value: cython.longlong) -> cython.ulonglong:
    mask: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    return (
        cython.cast(cython.ulonglong, value) << 1 ^ cython.cast(cython.ulonglong, value >> 63)
    ) & mask


@cython.cfunc
@cython.inline
def varint_size(value: cython.longlong) -> cython.Py_ssize_t:
    left: cython.ulonglong = zigzag(value)
    size: cython.Py_ssize_t = 1
    while left > 127:
        left >>= 7
        size += 1
    return size


@cython.cfunc
@cython.inline
def slice_size(size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    return varint_size(size) + max(size, 0)
