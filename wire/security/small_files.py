"""Reading of small files that settings name: a store, a token, a set of keys.

Clients may name such a path (`ssl.keystore.location` of a listener is a dynamic config), so it may be a FIFO without a
writer, or an endless device.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

# A truststore with all public authorities takes 250 KiB.
SMALL_FILE_BYTES_MAX = 4 << 20


def read_small_file(path: str | Path, bytes_max: int = SMALL_FILE_BYTES_MAX) -> bytes:
    """Returns the whole content of a regular file. It may block on the disk, so it belongs in a thread.

    Raises:
        OSError: the file cannot be read, is not regular, or has more than `bytes_max` bytes; `strerror` gives the
            reason.
    """
    # Without O_NONBLOCK, opening a FIFO waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        data = bytearray()
        while piece := os.read(descriptor, bytes_max + 1 - len(data)):
            data += piece
    finally:
        os.close(descriptor)
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max} bytes", str(path))
    return bytes(data)
