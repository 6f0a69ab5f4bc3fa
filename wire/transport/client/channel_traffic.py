"""The traffic of connections to other nodes, in plain integers. Source: Kafka's `raft-channel-metrics`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ChannelTraffic:
    """Only grows. Bytes are those of frames, without what TLS adds."""

    requests: int = 0
    responses: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def add(self, other: ChannelTraffic) -> None:
        self.requests += other.requests
        self.responses += other.responses
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
