# cython: language_level=3, boundscheck=True, wraparound=False, initializedcheck=False
"""A map from keys to the offsets of their newest records in a fixed amount of memory, in C if the package was built
with a compiler.

Source: Kafka's `SkimpyOffsetMap`. The map stores 128-bit digests in place of keys. Two keys with the same digest would
lose a record, so the digest is SipHash-2-4-128 with a secret key per map: a client cannot choose colliding keys
(Kafka's MD5 has known collisions).

```
slot = uint64, uint64 digest, int64 offset (-1: the slot is free)         24 bytes, as Kafka's
```

A slot is found by open addressing. Cython compiles this file; sums are masked to 64 bits for plain Python. Use it
through `trimaran.log.compaction`; the types for callers are in `offset_map.pyi`.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ImportError:
    from trimaran.log import cython_names as cython

COMPILED = cython.compiled
SLOT_BYTES = 24

_SEED_0 = cython.declare(cython.ulonglong, 0x736F6D6570736575)
_SEED_1 = cython.declare(cython.ulonglong, 0x646F72616E646F6D)
_SEED_2 = cython.declare(cython.ulonglong, 0x6C7967656E657261)
_SEED_3 = cython.declare(cython.ulonglong, 0x7465646279746573)
_MASK = cython.declare(cython.ulonglong, (1 << 64) - 1)
# Rows up to this number (~50 µs) are processed with the GIL held, because reacquiring it can take 5 ms.
_LOCK_HELD_ROWS_MAX = cython.declare(cython.Py_ssize_t, 1 << 10)
_KEEP_VALUES = cython.declare(cython.int, 1)
_KEEP_ALL = cython.declare(cython.int, 2)


@cython.final
@cython.cclass
class OffsetMap:
    """Up to `entries_max` keys in `slots` slots; `slots` must be larger."""

    digest_high: cython.ulonglong[::1]
    digest_low: cython.ulonglong[::1]
    offsets: cython.longlong[::1]
    slots: cython.Py_ssize_t
    used: cython.Py_ssize_t
    used_max: cython.Py_ssize_t
    key_0: cython.ulonglong
    key_1: cython.ulonglong
    high: cython.ulonglong  # the digest of the latest key
    low: cython.ulonglong
    v0: cython.ulonglong  # state of the hash
    v1: cython.ulonglong
    v2: cython.ulonglong
    v3: cython.ulonglong
    data: cython.const[cython.uchar][::1]
    key_start: cython.int[::1]
    key_size: cython.int[::1]
    value_size: cython.int[::1]
    record_offset: cython.longlong[::1]
    batch: cython.int[::1]
    fates: cython.const[cython.uchar][::1]
    keep: cython.uchar[::1]

    def __init__(self, slots, entries_max, key) -> None:
        """Creates an empty map; `key` is 16 secret random bytes. Raises ValueError if `slots` is too small."""
        if not 0 < entries_max < slots:
            raise ValueError(f"{entries_max} entries in {slots} slots")
        self.slots = slots
        self.used = 0
        self.used_max = entries_max
        self.key_0 = int.from_bytes(key[:8], "little")
        self.key_1 = int.from_bytes(key[8:16], "little")
        self.digest_high = array("Q", (0,)) * slots
        self.digest_low = array("Q", (0,)) * slots
        self.offsets = array("q", (-1,)) * slots

    def __len__(self):
        return self.used

    def digest(self, key):
        self.data = key
        self._hash(0, len(key))
        return self.low.to_bytes(8, "little") + self.high.to_bytes(8, "little")

    def get(self, key):
        """Returns the newest offset of the key, or -1."""
        self.data = key
        return self.offsets[self._find(0, len(key))]

    def put_all(self, columns, first_offset):
        """Adds the records with a key from `first_offset` on; offsets ascend. Returns the row for which the map was
        full, or the number of rows.
        """
        rows: cython.Py_ssize_t = len(columns)
        least: cython.longlong = first_offset
        row: cython.Py_ssize_t
        self._attach(columns)
        if rows > _LOCK_HELD_ROWS_MAX:
            with cython.nogil:
                row = self._put_all(rows, least)
        else:
            row = self._put_all(rows, least)
        return row

    def mark(self, columns, fates, latest_offset, keep):
        """Sets one byte of `keep` per record: 0 for a removed record, 1 for a retained value, 2 for a retained
        tombstone.

        `fates` has a number per batch: 0 retains values and tombstones according to the map, 1 retains values according
        to the map and no tombstones, 2 retains all records. Records above `latest_offset` are retained, records without
        a key are removed.
        """
        rows: cython.Py_ssize_t = len(columns)
        latest: cython.longlong = latest_offset
        if len(keep) != rows:
            raise ValueError(f"{len(keep)} marks for {rows} records")
        self._attach(columns)
        self.value_size = columns.value_size
        self.batch = columns.batch
        self.fates = fates
        self.keep = keep
        if rows > _LOCK_HELD_ROWS_MAX:
            with cython.nogil:
                self._mark(rows, latest)
        else:
            self._mark(rows, latest)

    @cython.cfunc
    def _attach(self, columns):
        self.data = columns.data
        self.key_start = columns.key_start
        self.key_size = columns.key_size
        self.record_offset = columns.offset

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _put_all(self, rows: cython.Py_ssize_t, least: cython.longlong) -> cython.Py_ssize_t:
        row: cython.Py_ssize_t
        slot: cython.Py_ssize_t
        for row in range(rows):
            if self.key_size[row] < 0 or self.record_offset[row] < least:
                continue
            slot = self._find(self.key_start[row], self.key_size[row])
            if self.offsets[slot] < 0:
                if self.used >= self.used_max:
                    return row
                self.used += 1
                self.digest_high[slot] = self.high
                self.digest_low[slot] = self.low
            self.offsets[slot] = self.record_offset[row]
        return rows

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _mark(self, rows: cython.Py_ssize_t, latest: cython.longlong) -> cython.int:
        row: cython.Py_ssize_t
        fate: cython.int
        tombstone: cython.bint
        for row in range(rows):
            fate = self.fates[self.batch[row]]
            tombstone = self.value_size[row] < 0
            if fate == _KEEP_ALL or self.record_offset[row] > latest:
                pass
            elif (
                (tombstone and fate == _KEEP_VALUES)
                or self.key_size[row] < 0
                or self.record_offset[row]
                < self.offsets[self._find(self.key_start[row], self.key_size[row])]
            ):
                self.keep[row] = 0
                continue
            self.keep[row] = 2 if tombstone else 1
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _find(self, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Returns the slot of the key, or the free slot in which it would be stored."""
        slot: cython.Py_ssize_t
        self._hash(start, size)
        slot = self.low % self.slots
        while self.offsets[slot] >= 0 and not (
            self.digest_low[slot] == self.low and self.digest_high[slot] == self.high
        ):
            slot += 1
            if slot == self.slots:
                slot = 0
        return slot

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _hash(self, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.int:
        """Computes SipHash-2-4 with 128 bits of output (Aumasson, Bernstein) into `low` and `high`."""
        word: cython.ulonglong
        at: cython.Py_ssize_t = start
        end: cython.Py_ssize_t = start + size
        shift: cython.int = 0
        self.v0 = self.key_0 ^ _SEED_0
        self.v1 = self.key_1 ^ _SEED_1 ^ 0xEE
        self.v2 = self.key_0 ^ _SEED_2
        self.v3 = self.key_1 ^ _SEED_3
        word = 0
        while at < end:
            word |= cython.cast(cython.ulonglong, self.data[at]) << shift
            at += 1
            shift += 8
            if shift == 64:
                self._mix(word)
                word = 0
                shift = 0
        self._mix(word | cython.cast(cython.ulonglong, size & 0xFF) << 56)
        self.v2 ^= 0xEE
        self._rounds(4)
        self.low = self.v0 ^ self.v1 ^ self.v2 ^ self.v3
        self.v1 ^= 0xDD
        self._rounds(4)
        self.high = self.v0 ^ self.v1 ^ self.v2 ^ self.v3
        return 0

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(-1)
    def _mix(self, word: cython.ulonglong) -> cython.int:
        self.v3 ^= word
        self._rounds(2)
        self.v0 ^= word
        return 0

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(-1)
    def _rounds(self, count: cython.int) -> cython.int:
        v0: cython.ulonglong = self.v0
        v1: cython.ulonglong = self.v1
        v2: cython.ulonglong = self.v2
        v3: cython.ulonglong = self.v3
        _: cython.int
        for _ in range(count):
            v0 = (v0 + v1) & _MASK
            v1 = ((v1 << 13 | v1 >> 51) & _MASK) ^ v0
            v0 = (v0 << 32 | v0 >> 32) & _MASK
            v2 = (v2 + v3) & _MASK
            v3 = ((v3 << 16 | v3 >> 48) & _MASK) ^ v2
            v0 = (v0 + v3) & _MASK
            v3 = ((v3 << 21 | v3 >> 43) & _MASK) ^ v0
            v2 = (v2 + v1) & _MASK
            v1 = ((v1 << 17 | v1 >> 47) & _MASK) ^ v2
            v2 = (v2 << 32 | v2 >> 32) & _MASK
        self.v0 = v0
        self.v1 = v1
        self.v2 = v2
        self.v3 = v3
        return 0
