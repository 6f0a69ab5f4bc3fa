"""The image of this replica's own log, committed or not: the best available one before a leader is known.

Used only for logins to a controller, because their credentials must be known by then. Like the voter set, it reflects
the end of the log; the image that the first leader commits replaces it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from trimaran.quorum import events
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, NOWHERE, MetadataImage
from trimaran.quorum.metadata.replay import Replay
from trimaran.quorum.raft_log.metadata_log import MetadataLog
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import Offset
from trimaran.wire.schema import Message

log = logging.getLogger(__name__)


def last_image(metadata_log: MetadataLog, bootstrap: Iterable[Message]) -> MetadataImage:
    """Returns the image at the end of the log; for an empty log, the image of the `bootstrap` records. Blocks."""
    replay = Replay()
    try:
        _follow(replay, metadata_log)
    except RemoteProtocolError as error:
        events.METADATA_LOG_USERS_UNKNOWN.log(log, error=error)
    image = replay.state.image
    if image.features.metadata_version:
        return image
    delta = MetadataDelta(EMPTY)
    for record in bootstrap:
        delta.replay(record)
    return delta.apply(NOWHERE)


def _follow(replay: Replay, metadata_log: MetadataLog) -> None:
    snapshot = metadata_log.load_latest_snapshot()
    if snapshot is not None:
        replay.load_snapshot(snapshot.id.offset, snapshot.id.epoch, memoryview(snapshot.data))
    while replay.next_offset < metadata_log.end_offset:
        before = replay.next_offset
        replay.apply_all(metadata_log.batches(Offset(before), metadata_log.end_offset))
        if replay.next_offset == before:
            return
