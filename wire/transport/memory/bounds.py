"""The bounds of the memory that the connections of a listener share (`trimaran.wire.transport.memory.pools`), for code
that does not wait.
"""

from __future__ import annotations

# A thousand busy producers with a megabyte in flight each all get their share within a few milliseconds. One client
# makes a node grow by less than 256 MiB: this bound, one request in excess of each half (60 MiB for 150,000
# partitions), and answers.
REQUEST_BYTES_MAX = 128 << 20
# Records are sent by `sendfile`; only metadata, converted messages and TLS data are in memory. Two of the largest
# responses are created at the same time (`memory/room.py`), the second in excess of the bound.
RESPONSES_BYTES_MAX = 96 << 20
# Smaller amounts never wait: every connection may hold this much.
SMALL_BYTES = 4096
