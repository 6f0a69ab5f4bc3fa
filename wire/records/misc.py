"""Metadata records of the log itself: a leader's no-op, the state of a ZooKeeper migration."""

from trimaran.wire.codec.declarations import int8
from trimaran.wire.schema import Message, record


@record(key=20, versions="0", flexible="0+")
class NoOpRecord(Message):
    """Has no content; it advances the high watermark of an idle quorum."""


@record(key=21, versions="0", flexible="0+")
class ZkMigrationStateRecord(Message):
    zk_migration_state: int8
