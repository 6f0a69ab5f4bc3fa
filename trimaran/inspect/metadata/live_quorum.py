"""A running quorum, ours or Apache Kafka's, as a source of metadata."""

from __future__ import annotations

from trimaran.errors.user_error import Exit, UserError
from trimaran.inspect.metadata.source import Base
from trimaran.quorum.observing import live_quorum
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.identity import LeaderEpoch, Offset


class LiveSource(live_quorum.LiveQuorum):
    """A running quorum; `name` is for messages."""

    def __init__(self, client: BlockingClient, name: str) -> None:
        super().__init__(client)
        self.name = name

    def base(self, upto: Offset | None) -> Base | None:
        """Returns the leader's snapshot, if the leader no longer has offset 0, or if reading from the snapshot on is
        shorter.
        """
        snapshot = self.begins_with()
        if snapshot is None:
            return None
        if upto is not None and snapshot.end_offset > upto:
            raise UserError(
                f"{self.name} does not reach back that far",
                f"the leader's log begins with a snapshot of the offsets below {snapshot.end_offset}",
                f"name an offset from {snapshot.end_offset - 1} on, or the directory of a controller that has older "
                f"snapshots",
                exit_code=Exit.USAGE,
            )
        end_offset, epoch = Offset(snapshot.end_offset), LeaderEpoch(snapshot.epoch)
        return Base(end_offset, epoch, self.snapshot(end_offset, epoch))

    def begins_after(self) -> Base | None:
        """Returns the leader's snapshot, before which its log has no records."""
        return self.base(None)
