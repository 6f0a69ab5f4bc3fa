"""Remembers why replicas of this broker are out of service, and logs each reason once, however often requests need
their logs.
"""

from __future__ import annotations

import logging
from pathlib import Path

from trimaran.broker import events
from trimaran.wire.identity import TopicPartition

log = logging.getLogger(__name__)


class OutOfService:
    """The replicas out of service; at most one entry for each replica of this broker."""

    def __init__(self) -> None:
        self._reasons: dict[TopicPartition, str] = {}
        # The directory of each missing replica in the controller's metadata, now or before LOST was reported.
        self._were_in: dict[TopicPartition, bytes] = {}

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self._reasons

    def note(self, key: TopicPartition, reason: str, directory: Path | None) -> None:
        """Logs a new reason. `directory` is the log directory of the replica, or None if it was not found."""
        if self._reasons.get(key) == reason:
            return
        self._reasons[key] = reason
        name = f"{key}"
        if directory is None:
            events.REPLICA_NOT_MADE.log(log, partition=name, error=reason)
        else:
            events.REPLICA_OFFLINE.log(log, partition=name, error=reason, folder=directory / name)

    def note_before(self, key: TopicPartition, assigned: bytes) -> None:
        """Notes that a replica was not found, and that it is in the directory `assigned` according to the metadata."""
        self._were_in[key] = assigned

    def take_back(self, key: TopicPartition) -> bytes | None:
        """Removes and returns the directory given to `note_before`."""
        return self._were_in.pop(key, None)

    def forget(self, key: TopicPartition) -> None:
        self._reasons.pop(key, None)
        self._were_in.pop(key, None)
