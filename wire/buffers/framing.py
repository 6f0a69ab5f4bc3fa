"""Splitting of a byte stream into frames (int32 size, then that number of bytes), without copying and without trusting
the size.

Used by the server, and by both clients for responses. It does not read the socket: the caller fills `room()`.

Ownership: a frame is a `memoryview` of the receive buffer. It stays unchanged while it or a slice of it is alive:
before bytes are overwritten, the buffer checks for live views; if there is one, the buffer is left to the holder of the
view and replaced by a new one. Therefore a late reader never sees the bytes of another request (the bug of
CVE-2026-35554). A view that is released in time costs nothing; a view that is held pins its buffer (at most twice the
largest frame).
"""

from __future__ import annotations

from trimaran.wire.errors import RemoteProtocolError

SIZE_BYTES = 4

# The buffer size of a connection that sends little. An idle connection has no buffer: ten thousand would take 40 MiB.
_BUFFER_BYTES_MIN = 4096
# After a large frame no more than this number of bytes is read ahead, because the head of the next frame would have to
# be moved.
_READ_AHEAD_BYTES = 65536
# A buffer that has grown beyond this for a large frame is dropped when the connection becomes idle.
BUFFER_BYTES_KEPT = 65536

_BANNERS = (
    (b"GET ", "an HTTP request"),
    (b"HEAD", "an HTTP request"),
    (b"POST", "an HTTP request"),
    (b"PUT ", "an HTTP request"),
    (b"DELE", "an HTTP request"),
    (b"OPTI", "an HTTP request"),
    (b"PATC", "an HTTP request"),
    (b"CONN", "an HTTP request"),
    (b"TRAC", "an HTTP request"),
    (b"PRI ", "an HTTP/2 preface"),
    (b"HTTP", "an HTTP answer"),
    (b"SSH-", "an SSH banner"),
    (b"\x16\x03", "a TLS ClientHello; this listener speaks plaintext"),
    (b"\x15\x03", "a TLS alert; the peer speaks TLS, this side plaintext"),
)


class BadFrame(RemoteProtocolError):
    """The size field is invalid for a frame; `guess` names the protocol that the peer probably uses, if known."""

    def __init__(self, size: int, bytes_max: int, guess: str | None) -> None:
        says = f"frame size {size}, allowed 1 to {bytes_max}"
        super().__init__(f"{says} (looks like {guess})" if guess else says)
        self.size = size
        self.guess = guess


def guess_protocol(head: bytes) -> str | None:
    """Returns the likely protocol of a stream that is not Kafka's, by its first four bytes."""
    return next((name for start, name in _BANNERS if head.startswith(start)), None)


class FrameBuffer:
    """The receive buffer of one connection; grows with received bytes, never with a declared size.

    Fill it with `received(recv_into(buffer.room()))`, then take frames until `next_frame` returns None.
    """

    __slots__ = ("_buffer", "_end", "_read_ahead", "_start", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self.allow(frame_bytes_max)
        self._buffer = bytearray(_BUFFER_BYTES_MIN)
        # Unread bytes are _buffer[_start:_end].
        self._start = 0
        self._end = 0

    def allow(self, frame_bytes_max: int) -> None:
        """Sets the largest frame from now on; if it is small, at most one frame is read ahead."""
        self.frame_bytes_max = frame_bytes_max
        self._read_ahead = min(SIZE_BYTES + frame_bytes_max, _READ_AHEAD_BYTES)

    @property
    def unread(self) -> int:
        """Returns the number of received bytes not yet returned as frames."""
        return self._end - self._start

    @property
    def coming(self) -> int:
        """Returns the size, including the size field, of the incomplete frame; 0 while it is unknown."""
        if self._end - self._start < SIZE_BYTES:
            return 0
        return SIZE_BYTES + int.from_bytes(
            self._buffer[self._start : self._start + SIZE_BYTES], "big", signed=True
        )

    def next_frame(self) -> memoryview | None:
        """Returns the next whole frame without its size field, or None if more must be received.

        Raises:
            BadFrame: its size is zero, negative or above `frame_bytes_max`; later bytes cannot be interpreted.
        """
        start = self._start
        unread = self._end - start
        if unread < SIZE_BYTES:
            return None
        size = int.from_bytes(self._buffer[start : start + SIZE_BYTES], "big", signed=True)
        if not 0 < size <= self.frame_bytes_max:
            head = bytes(self._buffer[start : start + SIZE_BYTES])
            raise BadFrame(size, self.frame_bytes_max, guess_protocol(head))
        if unread - SIZE_BYTES < size:
            return None
        start += SIZE_BYTES
        self._start = start + size
        return memoryview(self._buffer)[start : start + size]

    def room(self) -> memoryview:
        """Returns the space for the next bytes; never empty. Release it before the next call."""
        unread = self._end - self._start
        if unread == 0:
            self._start_over()
            limit = self._read_ahead
        else:
            limit = self._make_room(self._wanted(unread))
        return memoryview(self._buffer)[self._end : limit]

    def _wanted(self, unread: int) -> int:
        """Returns the bytes, unread ones included, that the buffer should hold before the next search for frames."""
        if unread < SIZE_BYTES:
            return self._read_ahead
        size = int.from_bytes(
            self._buffer[self._start : self._start + SIZE_BYTES], "big", signed=True
        )
        wanted = max(SIZE_BYTES + size, self._read_ahead)
        return wanted if wanted > unread else unread + self._read_ahead

    def _make_room(self, wanted: int) -> int:
        """Makes space after the unread bytes; returns the end of the space to receive into."""
        unread = self._end - self._start
        if self._start + wanted > len(self._buffer):
            if unread * 2 > len(self._buffer):
                grown = len(self._buffer) * 2
                self._move(wanted if len(self._buffer) < wanted < grown else grown)
            elif self._start:
                self._move(len(self._buffer))
        return min(self._start + wanted, len(self._buffer))

    def _move(self, size: int) -> None:
        """Moves the unread bytes to the start of a buffer of `size` bytes: the same buffer, if it has no views."""
        unread = self._end - self._start
        if size == len(self._buffer) and not _is_viewed(self._buffer):
            self._buffer[:unread] = self._buffer[self._start : self._end]
        else:
            fresh = bytearray(size)
            fresh[:unread] = memoryview(self._buffer)[self._start : self._end]
            self._buffer = fresh
        self._start, self._end = 0, unread

    def rest(self) -> None:
        """Frees an empty, small buffer until more bytes arrive."""
        if self._start == self._end and len(self._buffer) <= _BUFFER_BYTES_MIN:
            self.drop()

    def _start_over(self) -> None:
        if not self._buffer:
            self._buffer = bytearray(_BUFFER_BYTES_MIN)
        elif self._end and _is_viewed(self._buffer):
            self._buffer = bytearray(len(self._buffer))
        elif self._end == len(self._buffer) < self._read_ahead:
            # Small frames filled the buffer completely: the connection is busy.
            self._buffer = bytearray(min(len(self._buffer) * 2, self._read_ahead))
        self._start = self._end = 0

    def received(self, count: int) -> None:
        """Records that the first `count` bytes of the last `room()` are filled."""
        self._end += count

    def take(self) -> bytes:
        """Returns the unread bytes, and removes them."""
        taken = bytes(memoryview(self._buffer)[self._start : self._end])
        self._start = self._end
        return taken

    def add(self, data: bytes) -> None:
        """Appends bytes that were received elsewhere."""
        while data:
            room = self.room()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            room.release()
            self.received(count)
            data = data[count:]

    def drop(self) -> None:
        """Frees all memory and drops unread bytes."""
        self._buffer = bytearray()
        self._start = self._end = 0

    def shrink(self) -> None:
        """Frees memory while no large frame arrives."""
        if self.unread <= BUFFER_BYTES_KEPT < len(self._buffer):
            self._move(max(_BUFFER_BYTES_MIN, self.unread))


def _is_viewed(buffer: bytearray) -> bool:
    """Whether a memoryview of `buffer` is alive: the length of such a bytearray cannot change."""
    try:
        last = buffer.pop()
    except BufferError:
        return True
    buffer.append(last)
    return False
