"""What the LZ4 frame format allows and Kafka's Java reader does not read: linked blocks, dictionaries, empty blocks within a frame.

```
frame := magic 4 bytes, descriptor, checksum 1 byte, { block }*, end mark 4 zero bytes, content checksum?
descriptor := flags 1 byte, block size 1 byte, content size 8 bytes?, dictionary id 4 bytes?
block := size uint32 (highest bit: not compressed), bytes, checksum 4 bytes?
```

Source: Kafka's `Lz4BlockInputStream`: its FLG must say that blocks are independent and has no bit for a dictionary; a size of 0 ends the
frame there, whether or not the highest bit is set.
"""

from __future__ import annotations

from log.codecs.output import Bytes, damaged

FLAGS_AT = 4
INDEPENDENT_BLOCKS, BLOCK_CHECKSUMS, CONTENT_SIZE, DICTIONARY_ID = 0x20, 0x10, 0x08, 0x01
SIZE_BYTES = CHECKSUM_BYTES = 4
NOT_COMPRESSED = 1 << 31
# A block costs a step of Python and may be empty: bounded, so that a megabyte of them cannot hold a loop. Blocks of 64 KiB, the smallest
# that clients write, fit for 512 MiB.
BLOCKS_MAX = 1 << 13


def check_java_reads(frame: Bytes) -> None:
    """Raises RemoteProtocolError, also for frames that are cut short; what else may be wrong with a frame is the reader's to find."""
    if len(frame) <= FLAGS_AT:
        raise damaged("lz4", "cut short")
    flags = frame[FLAGS_AT]
    if not flags & INDEPENDENT_BLOCKS:
        raise damaged("lz4", "linked blocks, which Kafka's Java clients cannot read")
    if flags & DICTIONARY_ID:
        raise damaged("lz4", "a dictionary, which Kafka's Java clients do not have")
    position = 15 if flags & CONTENT_SIZE else 7
    between = SIZE_BYTES + CHECKSUM_BYTES if flags & BLOCK_CHECKSUMS else SIZE_BYTES
    for _ in range(BLOCKS_MAX):
        word = int.from_bytes(frame[position : position + SIZE_BYTES], "little")
        if not word:
            return
        if word == NOT_COMPRESSED:
            raise damaged("lz4", "an empty block, at which Kafka's Java clients stop")
        position += between + (word & ~NOT_COMPRESSED)
    raise damaged("lz4", f"more than {BLOCKS_MAX} blocks")
