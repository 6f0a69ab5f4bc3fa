"""Why replicas of this broker are out of service, as it was said last: a reason is logged once, however often their
logs are asked for.
"""

from __future__ import annotations

import logging
from pathlib import Path

from broker import events

log = logging.getLogger(__name__)

Key = tuple[str, int]


class OutOfService:
    """At most the replicas of this broker."""

    def __init__(self) -> None:
        self._reasons: dict[Key, str] = {}
        # Of those that were not found: where the controller has them, or had before it was told that they are lost.
        self._were_in: dict[Key, bytes] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._reasons

    def note(self, key: Key, reason: str, directory: Path | None) -> None:
        """`directory` is the log directory of the replica; None: it was not found."""
        if self._reasons.get(key) == reason:
            return
        self._reasons[key] = reason
        name = f"{key[0]}-{key[1]}"
        if directory is None:
            events.REPLICA_NOT_MADE.log(log, partition=name, error=reason)
        else:
            events.REPLICA_OFFLINE.log(log, partition=name, error=reason, folder=directory / name)

    def note_before(self, key: Key, assigned: bytes) -> None:
        """A replica was not found, and the controller has it in the directory `assigned`."""
        self._were_in[key] = assigned

    def take_back(self, key: Key) -> bytes | None:
        """The directory that `note_before` was told, once."""
        return self._were_in.pop(key, None)

    def forget(self, key: Key) -> None:
        self._reasons.pop(key, None)
        self._were_in.pop(key, None)
