"""Detection of LZ4 frames that are valid but that Kafka's Java reader cannot read: linked blocks, dictionaries, empty
blocks within a frame.

```
frame := magic 4 bytes, descriptor, checksum 1 byte, { block }*, end mark 4 zero bytes, content checksum?
descriptor := flags 1 byte, block size 1 byte, content size 8 bytes?, dictionary id 4 bytes?
block := size uint32 (highest bit: not compressed), bytes, checksum 4 bytes?
```

Source: Kafka's `Lz4BlockInputStream`: its FLG must mark blocks as independent and has no bit for a dictionary; a size
of 0 ends the frame there, whether or not the highest bit is set.
"""

from __future__ import annotations

import struct

from trimaran.log.codecs.output import Bytes, damaged

FLAGS_AT = 4
INDEPENDENT_BLOCKS, BLOCK_CHECKSUMS, CONTENT_SIZE, DICTIONARY_ID = 0x20, 0x10, 0x08, 0x01
SIZE_BYTES = CHECKSUM_BYTES = 4
NOT_COMPRESSED = 1 << 31
# The maximum number of blocks: each costs a step of Python and may be empty, so a megabyte of them could block the
# loop. With blocks of 64 KiB, the smallest that clients write, this suffices for 512 MiB.
BLOCKS_MAX = 1 << 13
_size_at = struct.Struct("<I").unpack_from


def check_java_reads(frame: Bytes) -> None:
    """Raises RemoteProtocolError if Java cannot read the frame; other faults, such as a truncated frame, are reported
    by the reader.
    """
    flags = frame[FLAGS_AT] if len(frame) > FLAGS_AT else 0
    if flags & (INDEPENDENT_BLOCKS | DICTIONARY_ID) != INDEPENDENT_BLOCKS:
        raise damaged("lz4", "linked blocks or a dictionary, which Java clients cannot read")
    position = 15 if flags & CONTENT_SIZE else 7
    between = SIZE_BYTES + CHECKSUM_BYTES if flags & BLOCK_CHECKSUMS else SIZE_BYTES
    try:
        for _ in range(BLOCKS_MAX):
            (word,) = _size_at(frame, position)
            if not word:
                return
            if word == NOT_COMPRESSED:
                raise damaged("lz4", "an empty block, at which Java clients stop")
            position += between + (word & ~NOT_COMPRESSED)
    except struct.error:  # cut short
        return
    raise damaged("lz4", f"more than {BLOCKS_MAX} blocks")
