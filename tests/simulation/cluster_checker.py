"""Invariants C3–C5: the controllers' decisions about brokers and partitions, checked from outside. C3: a new
incarnation of a broker gets a higher epoch and starts fenced, the same incarnation keeps its epoch, and a controller
that knows the new incarnation refuses the old one. C4: a fenced broker leads nothing and is in no ISR (except as the
last one without ELR, so that the partition remembers it); a partition has no leader only while no member of its ISR and
ELR could lead, or while a controller is about to fence those that could: fencing takes several batches, so two seconds
are allowed from its first write to its last. C5: a request that is too large is refused, without side effects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from trimaran.wire.records.brokers import RegisterBrokerRecord
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    from tests.simulation.checker import Checker

# A controller whose write failed waits for a second before it tries again.
GRACE_SECONDS = 2.0


class ClusterChecker:
    """Checks every committed batch once, when the first node applies it, and every image."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._checked_end = 0
        # (broker, incarnation) → epochs, several if a late message of another incarnation came in between; broker → its
        # newest epoch, and the offset of that registration
        self.epochs: dict[tuple[int, bytes], list[int]] = {}
        self.newest: dict[int, tuple[int, int]] = {}
        # (epoch, last offset) of a batch → when it was written; partition → epoch and time at which it was first seen
        # without a leader although one was available
        self.written: dict[tuple[int, int], float] = {}
        self._since: dict[str, tuple[int, float]] = {}

    # --- C3

    def committed(self, base: int, end: int, records: list[Message]) -> None:
        """Checks C3 in log order; a batch that one node skips by a snapshot comes from other nodes."""
        if base != self._checked_end:
            return
        self._checked_end = end
        for offset, record in enumerate(records, base):
            if isinstance(record, RegisterBrokerRecord):
                self._registered(offset, record)

    def _registered(self, offset: int, record: RegisterBrokerRecord) -> None:
        key = (record.broker_id, record.incarnation_id)
        known = self.epochs.setdefault(key, [])
        newest, _ = self.newest.get(record.broker_id, (-1, -1))
        if known and known[-1] == newest:
            self._checker.count("C3 same incarnation")
            if record.broker_epoch != newest:
                self._checker.fail(
                    "C3 broker", *key, "of epoch", newest, "got", record.broker_epoch
                )
            return
        self._checker.count("C3")
        if record.broker_epoch <= newest or not record.fenced:
            self._checker.fail("C3 new incarnation", record, "after epoch", newest)
        known.append(record.broker_epoch)
        self.newest[record.broker_id] = (record.broker_epoch, offset)

    def registers(self, broker_id: int, incarnation: bytes, broker_epoch: int) -> None:
        """Checks the epoch that a broker received."""
        self._checker.count("C3 answer")
        if broker_epoch not in self.epochs.get((broker_id, incarnation), ()):
            self._checker.fail("C3 broker", broker_id, "was told", broker_epoch, "not committed")

    def accepts(self, applied: int, broker_id: int, broker_epoch: int) -> None:
        """Checks a broker's request that a controller accepted after applying the log up to `applied`."""
        newest, offset = self.newest.get(broker_id, (-1, -1))
        if offset < applied and broker_epoch < newest:
            self._checker.fail("C3 epoch", broker_epoch, "of broker", broker_id, "after", newest)

    def refuses(self, broker_id: int, broker_epoch: int) -> None:
        if broker_epoch < self.newest.get(broker_id, (-1, -1))[0]:
            self._checker.count("C3 old incarnation")

    # --- C4

    def published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Checks the changed partitions, or all of them if brokers have changed."""
        if image.cluster is not delta.image.cluster:
            self.check_all(image)
            return
        before = delta.image.topics.by_id
        for topic in image.topics.by_id.values():
            old = before.get(topic.id)
            if old is not topic:
                self._check_topic(topic, image, old)

    def check_all(self, image: MetadataImage) -> None:
        for topic in image.topics.by_id.values():
            self._check_topic(topic, image, None)

    def _check_topic(self, topic: TopicImage, image: MetadataImage, old: TopicImage | None) -> None:
        for number, partition in topic.partitions.items():
            if old is None or old.partitions.get(number) is not partition:
                self._check_partition(f"{topic.name}-{number}", partition, image)

    def _check_partition(self, name: str, partition: PartitionImage, image: MetadataImage) -> None:
        brokers = image.cluster.brokers
        absent = {i for i in partition.replicas if i not in brokers or brokers[i].fenced}
        if absent:
            self._checker.count("C4")
        remembered = set(partition.isr) if partition.leader == NO_LEADER else set()
        may_stay = not image.features.keeps_eligible_leaders and len(remembered) == 1
        if partition.leader in absent or (absent & set(partition.isr) and not may_stay):
            self._checker.fail("C4", name, partition, "though fenced:", sorted(absent))
        if partition.leader != NO_LEADER:
            return
        self._checker.count("C4 no leader")
        self._check_leaderless(name, partition, image)

    def _check_leaderless(self, name: str, partition: PartitionImage, image: MetadataImage) -> None:
        brokers = image.cluster.brokers
        could = [
            i
            for i in (*partition.isr, *partition.elr)
            if i in brokers
            and brokers[i].active
            and brokers[i].has_online(partition.directory_of(i))
        ]
        offset, epoch = image.provenance[:2]
        written = self.written.get((epoch, offset))
        if not could or written is None:
            self._since.pop(name, None)
            return
        since, began = self._since.setdefault(name, (epoch, written))
        if since != epoch:
            self._since[name] = (epoch, written)
        elif written > began + GRACE_SECONDS:
            self._checker.fail("C4", name, partition, "has no leader, though there are", could)

    # --- C5

    def oversized(self, before: tuple[object, ...], after: tuple[object, ...], error: str) -> None:
        """Checks that an oversized request changed nothing; `before` and `after` are `ControllerMember._standing`."""
        self._checker.count("C5")
        if before != after:
            self._checker.fail("C5 a batch too large changes", before, "to", after)
        if error not in ("POLICY_VIOLATION", "RECORD_LIST_TOO_LARGE"):
            self._checker.fail("C5 a batch too large is answered with", error)
