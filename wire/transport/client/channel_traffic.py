"""Counts of the traffic on connections to other nodes, as plain integers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ChannelTraffic:
    """Counters that only grow. Bytes are counted as frames, without the overhead of TLS."""

    requests: int = 0
    responses: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def add(self, other: ChannelTraffic) -> None:
        self.requests += other.requests
        self.responses += other.responses
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
