"""One node's state machine above the log: the real loader of metadata, and the batches of the leader if there is no
controller.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.simulation.storage import Entry
from trimaran.quorum.controller.tasks.activation import activation_records
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.metadata.loader import Manifest, MetadataLoader
from trimaran.quorum.metadata.records import image_to_records
from trimaran.quorum.metadata.versions import LATEST, METADATA_VERSION
from trimaran.quorum.raft.listener import CommittedBatch, LoadedSnapshot
from trimaran.quorum.raft.roles import Leader, Role
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.topics import RemoveTopicRecord, TopicRecord
from trimaran.wire.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    from tests.simulation.metadata import Metadata
    from tests.simulation.node import SimNode

BOOTSTRAP = (FeatureLevelRecord(name=METADATA_VERSION, feature_level=LATEST),)
# bounds the cost of comparing whole images
TOPICS_MAX = 12


class Member:
    """The state machine of one node process: its applied state, and its actions as the leader."""

    def __init__(self, shared: Metadata, node: SimNode) -> None:
        self.shared, self.node = shared, node
        self.loader = MetadataLoader([self])
        self.active_epoch = -1
        self.transaction = -1
        self.written = 0
        self._failure: Exception | None = None

    # --- the state machine

    def saw_role(self, role: Role) -> None:
        """Called after every event of the node."""

    def stopped(self) -> None:
        """Called when the node's process has ended."""

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        """Compares the image with those of other nodes. The loader swallows a publisher's failure, so a violation is
        raised later.
        """
        try:
            self.shared.saw(self.node, delta, image)
        except AssertionError as failure:
            self._failure = failure

    def apply(self, entry: Entry) -> None:
        self.loader.apply_committed(self._batch(entry))
        self._raise()

    def load(self, snapshot_id: OffsetAndEpoch) -> None:
        self.loader.load_snapshot(self._snapshot(snapshot_id))
        self._raise()

    def _batch(self, entry: Entry) -> CommittedBatch:
        records = self.shared.records_of(entry)
        return CommittedBatch(entry.base, entry.next - 1, entry.epoch, 0, 1, records)

    def _snapshot(self, snapshot_id: OffsetAndEpoch) -> LoadedSnapshot:
        return LoadedSnapshot(*snapshot_id, 0, self.shared.snapshots[snapshot_id])

    def save(self, snapshot_id: OffsetAndEpoch) -> None:
        """Checks R9: snapshots of an offset are identical on all nodes."""
        records = list(image_to_records(self.loader.image))
        known = self.shared.snapshots.setdefault(snapshot_id, records)
        self.shared.world.checker.count("R9 image")
        if known != records and sorted(map(repr, known)) != sorted(map(repr, records)):
            self.shared.world.checker.fail("R9", self.node.id, "snapshot differs", snapshot_id)

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    # --- the controller

    def decide(self, prng: random.Random) -> list[Message]:
        """Returns the leader's next batch, which is empty until the leader has applied its predecessors' commits."""
        role = self.node.raft.role
        if not isinstance(role, Leader) or self.node.applied <= role.start_offset:
            return []
        if self.node.applied < self.node.log.end_offset:
            return []  # each decision is based on committed state
        if self.active_epoch != role.epoch:
            self.active_epoch, self.transaction = role.epoch, -1
            records = activation_records(
                self.loader.image, BOOTSTRAP, in_transaction=self.loader.in_transaction
            )
            if any(isinstance(record, AbortTransactionRecord) for record in records):
                self.shared.world.happened["transaction aborted"] += 1
            return records
        if self.transaction >= 0:
            return self._go_on(prng)
        return self._begin(prng)

    def _begin(self, prng: random.Random) -> list[Message]:
        number = self.shared.world.next_payload()
        topics = self.loader.image.topics.by_name
        if len(topics) > TOPICS_MAX:
            return [RemoveTopicRecord(topic_id=topics[name].id) for name in _whole(topics, prng)]
        kind = prng.random()
        if kind < 0.4:
            self.transaction, self.written = number, 0
            return [BeginTransactionRecord(name=str(number))]
        if kind < 0.7:
            return [_topic(f"topic-{number}", number)]
        return [
            ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value=str(number))
        ]

    def _go_on(self, prng: random.Random) -> list[Message]:
        if self.written >= 2 and prng.random() < 0.5:
            self.shared.sizes[self.transaction] = self.written
            self.transaction = -1
            return [EndTransactionRecord()]
        self.written += 1
        name = f"txn-{self.transaction}-{self.written}"
        return [_topic(name, self.shared.world.next_payload())]


def _topic(name: str, number: int) -> TopicRecord:
    return TopicRecord(name=name, topic_id=number.to_bytes(16, "big"))


def _whole(names: object, prng: random.Random) -> list[str]:
    """Returns a random topic, together with all others that the same transaction created."""
    listed = sorted(names)  # type: ignore[call-overload]
    chosen = prng.choice(listed)
    if not chosen.startswith("txn-"):
        return [chosen]
    prefix = chosen.rsplit("-", 1)[0] + "-"
    return [name for name in listed if name.startswith(prefix)]
