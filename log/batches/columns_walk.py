# cython: language_level=3, boundscheck=True, wraparound=False, initializedcheck=False
"""The loops of `trimaran.log.batches.columns` over the bytes of records: in C if the package was built with a compiler,
otherwise in plain Python.

Cython compiles this file in its pure-Python mode. Two rules keep both variants equal and hostile bytes harmless: every
index into a buffer is checked against its bounds (also in compiled code), and every sum that could exceed 64 bits is
masked, or compared before the addition. Grammar of a record: see `trimaran.log.batches.batch.BatchView`. Use it through
`trimaran.log.batches.columns` and `trimaran.log.validation.validate`; the types for callers are in `columns_walk.pyi`.
"""

from __future__ import annotations

from enum import IntEnum

from crc32c import crc32c as _crc32c

try:
    import cython
except ImportError:
    from trimaran.log import cython_names as cython

COMPILED = cython.compiled


class Problem(IntEnum):
    """The reasons to refuse records; the messages are in `trimaran.log.batches.columns`. Values are negative, because
    positions are not; -1 is Cython's value for an exception.
    """

    CUT_SHORT = -2
    RECORD_SIZE = -3
    VARINT = -4
    SIZE = -5
    HEADER_COUNT = -6
    HEADER_KEY = -7
    TIMESTAMP_OVERFLOW = -8
    OFFSET_DELTA = -9
    NULL_KEY = -10
    TIMESTAMP_RANGE = -11
    TRAILING_BYTES = -12


_CUT_SHORT = cython.declare(cython.int, Problem.CUT_SHORT)
_RECORD_SIZE = cython.declare(cython.int, Problem.RECORD_SIZE)
_VARINT = cython.declare(cython.int, Problem.VARINT)
_SIZE = cython.declare(cython.int, Problem.SIZE)
_HEADER_COUNT = cython.declare(cython.int, Problem.HEADER_COUNT)
_HEADER_KEY = cython.declare(cython.int, Problem.HEADER_KEY)
_TIMESTAMP_OVERFLOW = cython.declare(cython.int, Problem.TIMESTAMP_OVERFLOW)
_OFFSET_DELTA = cython.declare(cython.int, Problem.OFFSET_DELTA)
_NULL_KEY = cython.declare(cython.int, Problem.NULL_KEY)
_TIMESTAMP_RANGE = cython.declare(cython.int, Problem.TIMESTAMP_RANGE)
_TRAILING_BYTES = cython.declare(cython.int, Problem.TRAILING_BYTES)

# Size of a record whose attributes, two deltas and key size must be before its end, at two bytes each.
_PLAIN_BYTES_MIN = cython.declare(cython.int, 8)
_HEADER_BYTES = cython.declare(cython.Py_ssize_t, 61)
_CRC_START = 21
_COMPRESSION = cython.declare(cython.longlong, 0x07)
_TRANSACTIONAL = cython.declare(cython.longlong, 0x10)
_INT64_MAX = cython.declare(cython.longlong, (1 << 63) - 1)
_INT64_MIN = cython.declare(cython.longlong, -(1 << 63))
_MASK_32 = cython.declare(cython.ulonglong, (1 << 32) - 1)
_MASK_64 = cython.declare(cython.ulonglong, (1 << 64) - 1)
# Bodies up to this size (~10 µs) are walked with the GIL held, because reacquiring it from a busy thread can take 5 ms.
_LOCK_HELD_BYTES_MAX = cython.declare(cython.Py_ssize_t, 1 << 16)


@cython.final
@cython.cclass
class Walker:
    """Walks the records of bodies in `data`; the fields are those of the latest record."""

    data: cython.const[cython.uchar][::1]
    begin: cython.Py_ssize_t  # of the body
    stop: cython.Py_ssize_t  # end of the body
    end: cython.Py_ssize_t  # end of the record
    index: cython.Py_ssize_t  # of the record in its body
    number: cython.longlong  # the latest varint
    start: cython.Py_ssize_t  # of the latest slice
    size: cython.longlong  # of the latest slice, -1 for null
    record_start: cython.Py_ssize_t
    timestamp_delta: cython.longlong
    timestamp: cython.longlong
    # Start of the offset delta: the bytes before it depend on the base timestamp.
    offset_at: cython.Py_ssize_t
    offset_delta: cython.longlong
    key_start: cython.Py_ssize_t
    key_size: cython.longlong
    value_start: cython.Py_ssize_t
    value_size: cython.longlong
    headers_start: cython.Py_ssize_t
    headers_count: cython.longlong
    max_timestamp: cython.longlong
    max_delta: cython.longlong  # offset delta of the first record with the largest timestamp
    row: cython.Py_ssize_t  # the next row of the columns to fill
    batch_column: cython.int[::1]
    offset_column: cython.longlong[::1]
    timestamp_column: cython.longlong[::1]
    record_start_column: cython.int[::1]
    key_start_column: cython.int[::1]
    key_size_column: cython.int[::1]
    value_start_column: cython.int[::1]
    value_size_column: cython.int[::1]
    headers_start_column: cython.int[::1]
    headers_count_column: cython.int[::1]
    keep: cython.const[cython.uchar][::1]
    out: cython.uchar[::1]
    out_at: cython.Py_ssize_t
    kept: cython.Py_ssize_t
    last_delta: cython.longlong

    def __init__(self, data) -> None:
        self.data = data

    def check(self, count, base_timestamp, requires_keys, timestamp_min, timestamp_max):
        records: cython.Py_ssize_t = count
        base: cython.longlong = base_timestamp
        keys: cython.bint = requires_keys
        least: cython.longlong = timestamp_min
        most: cython.longlong = timestamp_max
        problem: cython.int
        self._open(0, len(self.data))
        if self.stop > _LOCK_HELD_BYTES_MAX:
            with cython.nogil:
                problem = self._check(records, base, keys, least, most)
        else:
            problem = self._check(records, base, keys, least, most)
        return problem, self.index, self.max_timestamp, self.max_delta

    def has_sound_header(self, batch):
        data: cython.const[cython.uchar][::1] = self.data
        self._open(_HEADER_BYTES, len(data))
        return (
            self._has_sound_header()
            and _crc32c(batch[_CRC_START:]) == _number(data, 17, 4) & _MASK_32
        )

    def has_sound_records(self, body, requires_keys, timestamp_min, timestamp_max, ignores_largest):
        keys: cython.bint = requires_keys
        least: cython.longlong = timestamp_min
        most: cython.longlong = timestamp_max
        data: cython.const[cython.uchar][::1] = self.data
        problem: cython.int
        base: cython.longlong = _number(data, 27, 8)
        records: cython.Py_ssize_t = _number(data, 57, 4)
        if body is None:
            self._open(_HEADER_BYTES, len(data))
        else:
            self.data = body
            self._open(0, len(self.data))
        if self.stop > _LOCK_HELD_BYTES_MAX:
            with cython.nogil:
                problem = self._check(records, base, keys, least, most)
        else:
            problem = self._check(records, base, keys, least, most)
        return not problem and (ignores_largest or self.max_timestamp == _number(data, 35, 8))

    def write_to(self, columns) -> None:
        self.row = 0
        self.batch_column = columns.batch
        self.offset_column = columns.offset
        self.timestamp_column = columns.timestamp_ms
        self.record_start_column = columns.record_start
        self.key_start_column = columns.key_start
        self.key_size_column = columns.key_size
        self.value_start_column = columns.value_start
        self.value_size_column = columns.value_size
        self.headers_start_column = columns.headers_start
        self.headers_count_column = columns.headers_count

    def fill(self, start, stop, batch, count, base_offset, last_delta, base_timestamp, append_time):
        records: cython.Py_ssize_t = count
        batch_index: cython.int = batch
        offset: cython.longlong = base_offset
        last: cython.longlong = last_delta
        base: cython.longlong = base_timestamp
        has_append_time: cython.bint = append_time is not None
        appended: cython.longlong = append_time if has_append_time else 0
        problem: cython.int
        self._open(start, stop)
        if self.stop - self.begin > _LOCK_HELD_BYTES_MAX:
            with cython.nogil:
                problem = self._fill(
                    batch_index, records, offset, last, base, has_append_time, appended
                )
        else:
            problem = self._fill(
                batch_index, records, offset, last, base, has_append_time, appended
            )
        return problem, self.index

    def retain(self, keep, out, count, base_timestamp, shift):
        records: cython.Py_ssize_t = count
        base: cython.longlong = base_timestamp
        by: cython.longlong = shift
        problem: cython.int
        self.keep = keep
        self.out = out
        self._open(0, len(self.data))
        if self.stop > _LOCK_HELD_BYTES_MAX:
            with cython.nogil:
                problem = self._retain(records, base, by)
        else:
            problem = self._retain(records, base, by)
        return (
            problem,
            self.index,
            self.out_at,
            self.kept,
            self.last_delta,
            self.max_timestamp,
            self.max_delta,
        )

    def headers(self, headers_start, headers_count, places):
        starts: cython.int[::1] = headers_start
        counts: cython.int[::1] = headers_count
        key_start: cython.int[::1] = places[0]
        key_size: cython.int[::1] = places[1]
        value_start: cython.int[::1] = places[2]
        value_size: cython.int[::1] = places[3]
        end: cython.Py_ssize_t = len(self.data)
        at: cython.Py_ssize_t
        row: cython.Py_ssize_t = 0
        record: cython.Py_ssize_t
        for record in range(len(headers_start)):
            at = starts[record]
            for _ in range(counts[record]):
                at = self._slice(at, end)
                if at < 0:
                    return at
                key_start[row], key_size[row] = self.start, self.size
                at = self._slice(at, end)
                if at < 0:
                    return at
                value_start[row], value_size[row] = self.start, self.size
                row += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def _has_sound_header(self) -> cython.bint:
        """Checks the header; its grammar is in `trimaran.log.batches.batch.BatchView`."""
        data: cython.const[cython.uchar][::1] = self.data
        if (
            self.stop < _HEADER_BYTES
            or _number(data, 0, 8)  # base offset
            or _number(data, 8, 4) != self.stop - 12
            or data[16] != 2  # magic
        ):
            return False
        attributes: cython.longlong = _number(data, 21, 2)
        last_delta: cython.longlong = _number(data, 23, 4)
        if attributes & ~(_COMPRESSION | _TRANSACTIONAL) or last_delta < 0:
            return False
        if _number(data, 57, 4) != last_delta + 1:
            return False
        if _number(data, 43, 8) < 0:  # producer id
            return not attributes & _TRANSACTIONAL
        return _number(data, 51, 2) >= 0 and _number(data, 53, 4) >= 0  # its epoch, its sequence

    @cython.cfunc
    def _open(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.void:
        self.begin = start
        self.stop = stop
        self.index = 0
        self.max_timestamp = -1
        self.max_delta = -1
        self.out_at = 0
        self.kept = 0
        self.last_delta = -1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _check(
        self,
        count: cython.Py_ssize_t,
        base_timestamp: cython.longlong,
        requires_keys: cython.bint,
        timestamp_min: cython.longlong,
        timestamp_max: cython.longlong,
    ) -> cython.int:
        at: cython.Py_ssize_t = self.begin
        data: cython.const[cython.uchar][::1] = self.data
        while self.index < count:
            at = self._plain(data, at) or self._record(at)
            if at < 0:
                return at
            if self._time(base_timestamp):
                return _TIMESTAMP_OVERFLOW
            if self.offset_delta != self.index:
                return _OFFSET_DELTA
            if requires_keys and self.key_size < 0:
                return _NULL_KEY
            if self.timestamp != -1 and not timestamp_min <= self.timestamp <= timestamp_max:
                return _TIMESTAMP_RANGE
            self.index += 1
        return 0 if at == self.stop else _TRAILING_BYTES

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _fill(
        self,
        batch: cython.int,
        count: cython.Py_ssize_t,
        base_offset: cython.longlong,
        last_delta: cython.longlong,
        base_timestamp: cython.longlong,
        has_append_time: cython.bint,
        append_time: cython.longlong,
    ) -> cython.int:
        row: cython.Py_ssize_t = self.row
        at: cython.Py_ssize_t = self.begin
        data: cython.const[cython.uchar][::1] = self.data
        while self.index < count:
            at = self._plain(data, at) or self._record(at)
            if at < 0:
                return at
            if self._time(base_timestamp):
                return _TIMESTAMP_OVERFLOW
            if not 0 <= self.offset_delta <= last_delta:
                return _OFFSET_DELTA
            self.batch_column[row] = batch
            self.offset_column[row] = base_offset + self.offset_delta
            self.timestamp_column[row] = append_time if has_append_time else self.timestamp
            self.record_start_column[row] = self.record_start
            self.key_start_column[row] = self.key_start
            self.key_size_column[row] = self.key_size
            self.value_start_column[row] = self.value_start
            self.value_size_column[row] = self.value_size
            self.headers_start_column[row] = self.headers_start
            self.headers_count_column[row] = self.headers_count
            row += 1
            self.index += 1
        self.row = row
        return 0 if at == self.stop else _TRAILING_BYTES

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _retain(
        self, count: cython.Py_ssize_t, base_timestamp: cython.longlong, shift: cython.longlong
    ) -> cython.int:
        problem: cython.int
        run: cython.Py_ssize_t = -1  # start of kept records that have not been copied yet
        at: cython.Py_ssize_t = self.begin
        data: cython.const[cython.uchar][::1] = self.data
        while self.index < count:
            at = self._plain(data, at) or self._record(at)
            if at < 0:
                return at
            if self.keep[self.index]:
                problem = self._time(base_timestamp)
                if shift:
                    problem = problem or self._put_shifted(shift)
                elif run < 0:
                    run = self.record_start
                if problem:
                    return problem
                self.kept += 1
                self.last_delta = self.offset_delta
            elif run >= 0:
                self._put(run, self.record_start)
                run = -1
            self.index += 1
        if run >= 0:
            self._put(run, at)
        return 0 if at == self.stop else _TRAILING_BYTES

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _put(self, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        to: cython.Py_ssize_t = self.out_at
        self.out_at = to + end - begin
        self.out[to : self.out_at] = self.data[begin:end]
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _put_shifted(self, shift: cython.longlong) -> cython.int:
        """Writes the record with its timestamp delta reduced by `shift`."""
        delta: cython.longlong = self.timestamp_delta
        if (delta < 0 and shift > delta - _INT64_MIN) or (
            delta >= 0 and shift < delta - _INT64_MAX
        ):
            return _TIMESTAMP_OVERFLOW
        delta -= shift
        self._put_varint(1 + _varint_size(delta) + self.end - self.offset_at)
        self.out[self.out_at] = 0  # attributes
        self.out_at += 1
        self._put_varint(delta)
        return self._put(self.offset_at, self.end)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _put_varint(self, value: cython.longlong) -> cython.int:
        raw: cython.ulonglong = _zigzag(value)
        while raw > 0x7F:
            self.out[self.out_at] = raw & 0x7F | 0x80
            self.out_at += 1
            raw >>= 7
        self.out[self.out_at] = raw
        self.out_at += 1
        return 0

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(-1)
    def _plain(
        self, data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Reads a record as `_record` does, if it is of the usual form: every varint has one or two bytes, and it has
        no headers; otherwise returns 0. `data` is `self.data`.
        """
        end: cython.Py_ssize_t
        short: cython.int
        size: cython.int
        self.record_start = at
        if self.stop - at < 2:
            return 0
        short = _short(data, at)
        size = _short_value(short)
        at += short & 3
        end = at + size
        if not short or size < _PLAIN_BYTES_MIN or end > self.stop:
            return 0
        at += 1  # a byte of unused attributes
        short = _short(data, at)
        if not short:
            return 0
        self.timestamp_delta = _short_value(short)
        at += short & 3
        self.offset_at = at
        short = _short(data, at)
        if not short:
            return 0
        self.offset_delta = _short_value(short)
        at += short & 3
        short = _short_size(data, at)
        at += short & 3
        self.key_start = at
        self.key_size = size = _short_value(short)
        if size > 0:
            at += size
        if not short or end - at < 2:
            return 0
        short = _short_size(data, at)
        at += short & 3
        self.value_start = at
        self.value_size = size = _short_value(short)
        if size > 0:
            at += size
        if not short or at != end - 1 or data[at]:
            return 0
        self.headers_start = self.end = end
        self.headers_count = 0
        return end

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _record(self, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Reads the record at `at`; returns the start of the next one, or a problem; so do the readers below."""
        end: cython.Py_ssize_t
        self.record_start = at
        at = self._varint(at, self.stop)
        if at < 0:
            return at
        if not 6 <= self.number <= self.stop - at:
            return _RECORD_SIZE
        self.end = end = at + self.number
        at = self._groups(at + 1, end, 10, _MASK_64)  # after a byte of unused attributes
        if at < 0:
            return at
        self.timestamp_delta = self.number
        self.offset_at = at
        at = self._varint(at, end)
        if at < 0:
            return at
        self.offset_delta = self.number
        at = self._slice(at, end)
        if at < 0:
            return at
        self.key_start, self.key_size = self.start, self.size
        at = self._slice(at, end)
        if at < 0:
            return at
        self.value_start, self.value_size = self.start, self.size
        at = self._varint(at, end)
        if at < 0:
            return at
        self.headers_start, self.headers_count = at, self.number
        if self.number:
            at = self._headers(at, end, self.number)
            if at < 0:
                return at
        return at if at == end else _RECORD_SIZE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _headers(
        self, at: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.longlong
    ) -> cython.Py_ssize_t:
        if not 0 <= count <= (end - at) // 2:  # a header has at least two bytes
            return _HEADER_COUNT
        while count:
            at = self._slice(at, end)
            if at < 0:
                return at
            if self.size < 0:
                return _HEADER_KEY
            at = self._slice(at, end)
            if at < 0:
                return at
            count -= 1
        return at

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(-1)
    def _slice(self, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Reads a size and skips that many bytes."""
        at = self._varint(at, end)
        if at < 0:
            return at
        if not -1 <= self.number <= end - at:
            return _SIZE
        self.start = at
        self.size = self.number
        return at + self.number if self.number > 0 else at

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(-1)
    def _varint(self, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Reads a zigzag varint of 32 bits that must end before `end`."""
        if at < end:
            byte: cython.int = self.data[at]
            if byte < 0x80:
                self.number = (byte >> 1) ^ -(byte & 1)
                return at + 1
        return self._groups(at, end, 5, _MASK_32)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _groups(
        self,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        bytes_max: cython.int,
        mask: cython.ulonglong,
    ) -> cython.Py_ssize_t:
        """Reads a zigzag varint before `end`; bits of its last byte beyond `mask` are dropped, as Java does."""
        bits: cython.int = 0
        byte: cython.ulonglong = 0x80
        raw: cython.ulonglong = 0
        while byte & 0x80:
            if bits == 7 * bytes_max:
                return _VARINT
            if at >= end:
                return _CUT_SHORT
            byte = self.data[at]
            at += 1
            raw |= (byte & 0x7F) << bits
            bits += 7
        raw &= mask
        self.number = (raw >> 1) ^ -(raw & 1)
        return at

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(-1)
    def _time(self, base: cython.longlong) -> cython.int:
        """Computes the record's timestamp, and notes the largest; returns a problem if it exceeds 64 bits."""
        delta: cython.longlong = self.timestamp_delta
        if (delta > 0 and base > _INT64_MAX - delta) or (delta < 0 and base < _INT64_MIN - delta):
            return _TIMESTAMP_OVERFLOW
        self.timestamp = base + delta
        if self.timestamp > self.max_timestamp:
            self.max_timestamp = self.timestamp
            self.max_delta = self.offset_delta
        return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-1, check=True)
def _number(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.int
) -> cython.longlong:
    """Returns the signed number of `size` bytes at `at`."""
    value: cython.longlong = data[at]
    if value > 0x7F:
        value -= 0x100
    for _ in range(1, size):
        at += 1
        value = value * 0x100 + data[at]
    return value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-1)
def _short(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.int:
    """Returns the zigzag varint of one or two bytes at `at`, above two bits for its size; 0 for a longer one."""
    byte: cython.int = data[at]
    if byte < 0x80:
        return byte << 2 | 1
    second: cython.int = data[at + 1]
    return (second << 7 | byte & 0x7F) << 2 | 2 if second < 0x80 else 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-1)
def _short_size(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.int:
    """Reads a size as `_short` does, but also returns 0 for a size below -1."""
    short: cython.int = _short(data, at)
    return short if _short_value(short) >= -1 else 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _short_value(short: cython.int) -> cython.int:
    return (short >> 3) ^ -(short >> 2 & 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _zigzag(value: cython.longlong) -> cython.ulonglong:
    raw: cython.ulonglong = value & _MASK_64
    return ((raw << 1) ^ -(raw >> 63)) & _MASK_64


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _varint_size(value: cython.longlong) -> cython.int:
    raw: cython.ulonglong = _zigzag(value)
    size: cython.int = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size
