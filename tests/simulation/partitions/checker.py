"""Checks the invariants of partitions after every event (docs/invariants.md, P, I and T)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.simulation.checker import Violation
from tests.simulation.partitions.replica_logs import Entry, ReplicaLog, entries_in, read_entries
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.partition import Partition
from trimaran.quorum.metadata.image import MetadataImage, PartitionImage
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.alter_partition import AlterPartitionRequest
from trimaran.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    from tests.simulation.partitions.broker import SimBroker
    from tests.simulation.partitions.world import World

Key: TypeAlias = tuple[bytes, int]
READ_COMMITTED = 1
RECOVERING = 1


class History:
    """The committed content of a partition, and the facts that its clients know. After an unclean election
    (`is_unclean`) nothing is promised: checkpoints keep watermarks of the previous history, as in Kafka.
    """

    def __init__(self) -> None:
        self.committed: list[Entry] = []
        self.written: dict[tuple[int, int], tuple[Entry, Entry | None]] = {}
        self.told: dict[int, tuple[int, int]] = {}
        self.taken_again: set[Entry] = set()
        self.start = 0  # everything below was deleted on some replica
        self.deleted_to = 0  # the highest offset to which a client deleted records
        self.is_unclean = False

    @property
    def end(self) -> int:
        return self.committed[-1].last + 1 if self.committed else 0

    def is_held(self, entry: Entry, replica: ReplicaLog, *, on_disk: bool = False) -> bool:
        """Whether the replica has a committed batch. Records deleted by a leader (KIP-107) need not be on any replica:
        below the leader's start a follower may have another history, which it discards with the next response.
        """
        end = replica.durable_end if on_disk else replica.end
        return end > entry.last and (replica.holds(entry) or entry.last < self.start)

    def may_come_again(self, entry: Entry, replica: ReplicaLog) -> bool:
        """Whether a retry may be appended a second time: its earlier copies were deleted before the replica last loaded
        its producers, so that, as in Kafka, the replica cannot recognize the retry (docs/invariants.md, I1).
        """
        copies = [copy for copy in self.committed if copy.crc == entry.crc]
        return bool(copies) and all(copy.last < replica.unknown_below for copy in copies)

    def at(self, base: int) -> Entry | None:
        index = bisect_left(self.committed, base, key=lambda entry: entry.base)
        found = self.committed[index : index + 1]
        return found[0] if found and found[0].base == base else None


class Checker:
    def __init__(self, world: World) -> None:
        self.world = world
        self.evaluations: Counter[str] = Counter()
        self.histories: dict[Key, History] = {}
        self.replicas: dict[tuple[int, Key], ReplicaLog] = {}
        self.acked: dict[Key, dict[int, int]] = {}
        self._sent: dict[int, Key] = {}
        self._refused: set[int] = set()
        self._verified: dict[PartitionLeader, int] = {}
        # The first violation. It is kept, because a broker turns any exception in a handler into an error response.
        self._violation: Violation | None = None

    def count(self, name: str) -> None:
        self.evaluations[name] += 1

    def require(self, holds: bool, name: str, *why: object) -> None:
        self.evaluations[name] += 1
        if not holds:
            violation = Violation(f"{name} {' '.join(map(str, why))}")
            self._violation = self._violation or violation
            raise violation

    # --- topics

    def made(self, key: Key) -> None:
        self.histories[key] = History()
        self.acked[key] = {}

    def gone(self, key: Key) -> None:
        """Forgets a deleted topic; the only remaining promise is that its bytes never appear in another topic."""
        del self.histories[key], self.acked[key]

    # --- replicas

    def look(self) -> None:
        if self._violation is not None:
            raise self._violation
        for broker in self.world.brokers.values():
            if broker.alive:
                self.look_at(broker)

    def look_at(self, broker: SimBroker) -> None:
        if broker.is_over:
            return
        for partition in broker.partitions:
            log = partition.open_log
            if log is None:
                continue
            key = (partition.topic_id, partition.index)
            if key not in self.histories:
                continue
            replica = self.replicas.get((broker.id, key))
            if replica is None:
                replica = self.replicas[broker.id, key] = ReplicaLog()
            leader = partition.leader_or_none
            if leader is not None and not leader.ended:
                self._knows_the_isr(broker, leader, key)
            seen = (
                log,
                log.log_end_offset,
                log.truncations,
                log.log_start_offset,
                log.flushed_offset,
                leader,
                partition.high_watermark,
            )
            if seen != replica.seen:
                replica.seen = seen
                self._look_at(broker, partition, replica, key)

    def _look_at(
        self, broker: SimBroker, partition: Partition, replica: ReplicaLog, key: Key
    ) -> None:
        history, log = self.histories[key], partition.open_log
        assert log is not None
        history.start = max(history.start, log.log_start_offset)
        self._read(broker, replica, key, log)
        self.require(
            log.flushed_offset <= log.log_end_offset, "P6", partition.name, "flushed above its end"
        )
        if history.is_unclean:
            return
        leader = partition.leader_or_none
        if replica.leader not in (None, leader):
            self._look_at_leader(broker, replica.leader, replica, key)  # checks its last watermark
        replica.leader = leader
        if leader is not None:
            self._look_at_leader(broker, leader, replica, key)
        elif partition.follows:
            self._look_at_follower(broker, partition, replica, history)
        if self.world.rules.retention_bytes < 0:
            self.require(
                log.log_start_offset <= history.deleted_to,
                *(
                    "P13",
                    broker.id,
                    "starts at",
                    log.log_start_offset,
                    "deleted",
                    history.deleted_to,
                ),
            )
        self.require(
            log.log_start_offset <= history.end,
            *("P13", broker.id, "starts at", log.log_start_offset, "committed", history.end),
        )

    def _read(self, broker: SimBroker, replica: ReplicaLog, key: Key, log: Any) -> None:
        before = replica.entries
        # A follower below the leader's start discards its records, perhaps of another history, and forgets the
        # producers.
        lay_below = replica.leader is None and replica.end <= log.log_start_offset
        if replica.log is not log or replica.truncations != log.truncations or lay_below:
            replica.unknown_below = log.log_start_offset
        if replica.log is not log or replica.truncations != log.truncations:
            replica.entries = []
            self._add(
                broker, replica, key, log, self._entries(broker, key, log, log.log_start_offset)
            )
            if replica.log is not log:
                self._compare_after_restart(broker, replica, before, log)
                replica.opened_end = log.log_end_offset
            # Data that was on disk before a restart is still there, although the new process may not know it yet.
            shared_end = min(replica.shared_end(before), log.log_end_offset)
            replica.durable_end = min(replica.durable_end, shared_end)
        elif log.log_end_offset > replica.end:
            self._add(broker, replica, key, log, self._entries(broker, key, log, replica.end))
        replica.log, replica.truncations, replica.flushed = log, log.truncations, log.flushed_offset
        replica.start, replica.end = log.log_start_offset, log.log_end_offset
        replica.durable_end = max(replica.durable_end, log.flushed_offset)
        end = replica.entries[-1].last + 1 if replica.entries else log.log_end_offset
        self.require(end == log.log_end_offset, "P8", broker.id, "its end cannot be read")

    def _entries(self, _broker: SimBroker, _key: Key, log: Any, start: int) -> list[Entry]:
        """Returns the batches of a log from `start` on, as written."""
        return read_entries(log, start)

    def _compare_after_restart(
        self, broker: SimBroker, replica: ReplicaLog, before: list[Entry], log: Any
    ) -> None:
        """Checks that the next process finds everything that was reported as durable."""
        for entry in before:
            if entry.last < replica.durable_end and entry.base >= log.log_start_offset:
                self.require(
                    replica.at(entry.base) == entry,
                    *("P6", broker.id, "lost", entry, "that was flushed"),
                )

    def _add(
        self, broker: SimBroker, replica: ReplicaLog, key: Key, log: Any, new: list[Entry]
    ) -> None:
        history, entries = self.histories[key], replica.entries
        for entry in new:
            previous = entries[-1] if entries else None
            if previous is not None:
                self.require(
                    previous.last + 1 == entry.base and previous.epoch <= entry.epoch,
                    *("P10", broker.id, "has", entry, "after", previous),
                )
            known = history.written.get((entry.epoch, entry.base))
            if known is None:
                history.written[entry.epoch, entry.base] = (entry, previous)
                self._first_seen(broker, key, entry)
                if history.may_come_again(entry, replica):
                    history.taken_again.add(entry)
            else:
                self.require(known[0] == entry, "P8", broker.id, entry, "is elsewhere", known[0])
                if previous is not None and known[1] and previous.last >= history.start:
                    self.require(
                        known[1] == previous, "P8", broker.id, entry, "follows", previous, known[1]
                    )
            self._check_epoch(broker, entry, log)
            entries.append(entry)

    def _check_epoch(self, broker: SimBroker, entry: Entry, log: Any) -> None:
        found = log.epochs.epoch_for(max(entry.base, log.log_start_offset))
        self.require(
            found == entry.epoch or entry.last < log.log_start_offset,
            *("P10", broker.id, entry, "is of epoch", found),
        )

    def _first_seen(self, broker: SimBroker, key: Key, entry: Entry) -> None:
        meant_for = self._sent.get(entry.crc, key)
        self.require(meant_for == key, "P14", broker.id, entry, "was sent to another topic")
        self.require(
            entry.crc not in self._refused, "P16", broker.id, "has", entry, "that was refused"
        )

    # --- leaders

    def _knows_the_isr(self, broker: SimBroker, leader: PartitionLeader, key: Key) -> None:
        """Checks P26: the ISR grows only at the leader's request, so it always waits for every member (KIP-497)."""
        state, isr = self.world.state_of(key), leader.isr
        if state is None or (state.leader, state.leader_epoch) != (broker.id, leader.epoch):
            return
        self.require(
            isr.maximal.issuperset(state.isr),
            *("P26", broker.id, "waits for", sorted(isr.maximal), "of the ISR", state.isr),
        )
        if isr.partition_epoch == state.partition_epoch:
            self.require(
                set(isr.isr) == set(state.isr),
                *("P26", broker.id, "knows the ISR", isr.isr, "as that of", state.isr),
            )

    def _look_at_leader(
        self, broker: SimBroker, leader: PartitionLeader, replica: ReplicaLog, key: Key
    ) -> None:
        watermark = leader.high_watermark.offset
        if leader not in self._verified:
            self._began(broker, leader, replica, key)
        if watermark <= self._verified[leader]:
            return
        self._verified[leader] = watermark
        self.require(
            watermark <= leader.log.log_end_offset or leader.ended,
            *("P7", broker.id, "watermark above the end"),
        )
        self._commit(broker, replica, key, watermark)

    def _began(
        self, broker: SimBroker, leader: PartitionLeader, replica: ReplicaLog, key: Key
    ) -> None:
        history, state = self.histories[key], self.world.state_of(key)
        self._verified[leader] = -1
        if state is not None and state.leader_epoch == leader.epoch:
            self._has_all_committed(broker.id, replica, history)

    def _has_all_committed(self, broker_id: int, replica: ReplicaLog, history: History) -> None:
        if history.committed:
            last = history.committed[-1]
            held = history.is_held(last, replica)
            self.require(held, "P5", "leader", broker_id, "lacks", last)

    def _commit(self, broker: SimBroker, replica: ReplicaLog, key: Key, watermark: int) -> None:
        history = self.histories[key]
        known = replica.before(min(watermark, history.end))
        if known is not None and known.last >= history.start and history.at(known.base):
            self.require(
                history.at(known.base) == known,
                *("P8", broker.id, "committed", known, "not", history.at(known.base)),
            )
        end = history.end
        if watermark <= end:
            return
        new = [entry for entry in replica.entries if end <= entry.base and entry.last < watermark]
        if history.committed and new:
            self.require(
                history.is_held(history.committed[-1], replica),
                *("P5", broker.id, "commits other records"),
            )
        history.committed += new
        self.is_safe(key)

    def is_safe(self, key: Key) -> None:
        """Checks P1: every electable replica has all committed records on disk."""
        history, state = self.histories.get(key), self.world.state_of(key)
        if history is None or state is None or history.is_unclean or not history.committed:
            return
        last = history.committed[-1]
        for member in dict.fromkeys((*state.isr, *state.elr)):
            if self.world.brokers[member].was_wiped:
                continue
            replica = self.replicas.get((member, key))
            self.require(
                replica is not None and history.is_held(last, replica, on_disk=True),
                *("P1", "broker", member, "is in ISR or ELR without", last),
            )
        leader = self.replicas.get((state.leader, key))
        opened = self.world.leader_epoch(key, state)
        if leader is not None and opened is not None and opened in self._verified:
            self._has_all_committed(state.leader, leader, history)

    # --- followers

    def _look_at_follower(
        self, broker: SimBroker, partition: Partition, replica: ReplicaLog, history: History
    ) -> None:
        """Checks P9: records that a follower considers committed are committed."""
        if partition._follower is None:
            return
        watermark = min(partition.high_watermark, replica.end)
        self.require(
            watermark <= history.end, "P9", broker.id, "knows", watermark, "of", history.end
        )
        last = replica.before(watermark)
        if last is not None and last.last >= history.start and history.at(last.base):
            self.require(
                history.at(last.base) == last, "P9", broker.id, "takes", last, "for committed"
            )

    # --- brokers and metadata

    def process_ended(self, broker: SimBroker) -> None:
        if not broker.is_within_call:
            self.look_at(broker)
        for (broker_id, _), replica in self.replicas.items():
            if broker_id == broker.id:
                replica.seen, replica.log, replica.leader = (), None, None

    def wiped(self, broker: SimBroker) -> None:
        for lost in [replica for replica in self.replicas if replica[0] == broker.id]:
            del self.replicas[lost]

    def metadata_applied(self, broker: SimBroker) -> None:
        """Forgets the broker's replicas of partitions that are no longer assigned to it."""
        for broker_id, key in list(self.replicas):
            if broker_id == broker.id:
                topic = broker.metadata.image.topics.by_id.get(key[0])
                state = None if topic is None else topic.partitions.get(key[1])
                if state is None or broker.id not in state.replicas:
                    del self.replicas[broker_id, key]

    def metadata_changed(self, before: MetadataImage, after: MetadataImage) -> None:
        for topic_id, topic in after.topics.by_id.items():
            old = before.topics.by_id.get(topic_id)
            for index, state in topic.partitions.items():
                was = None if old is None else old.partitions.get(index)
                if was is not None and was is not state:
                    self._changed((topic_id, index), was, state)

    def _changed(self, key: Key, was: PartitionImage, state: PartitionImage) -> None:
        history = self.histories[key]
        if state.leader_recovery_state == RECOVERING and state.leader_epoch != was.leader_epoch:
            self.world.happened["unclean election"] += 1
            self._elected_uncleanly(key, state.leader, history)
            history.is_unclean = True
        if history.is_unclean:
            return
        joined = set(state.isr) - set(was.isr)
        if joined and state.leader == was.leader and state.leader_epoch == was.leader_epoch:
            self._joined(key, state, joined)
        self.is_safe(key)

    def _elected_uncleanly(self, key: Key, leader: int, history: History) -> None:
        """Keeps only the acknowledged records that are on the disk of the elected leader."""
        replica = self.replicas.get((leader, key), ReplicaLog())
        for base in list(self.acked[key]):
            entry = history.at(base)
            if entry is None or not history.is_held(entry, replica, on_disk=True):
                del self.acked[key][base]

    def _joined(self, key: Key, state: PartitionImage, joined: set[int]) -> None:
        """Checks P3: the new members have reached the start of the leader's epoch, with its history."""
        leader = self.world.leader_epoch(key, state)
        if leader is None:
            return
        for member in joined:
            replica = self.replicas.get((member, key))
            if replica is not None:
                self._has_no_other(member, replica, self.histories[key])
            end = 0 if replica is None else replica.durable_end
            if not self.world.brokers[member].was_wiped:
                self.require(
                    end >= leader.start_offset,
                    *(
                        "P3",
                        member,
                        "joins at",
                        end,
                        "below the epoch's start",
                        leader.start_offset,
                    ),
                )

    def _has_no_other(self, member: int, replica: ReplicaLog, history: History) -> None:
        for entry in replica.entries:
            if entry.base >= replica.start and entry.last < history.end:
                known = history.at(entry.base)
                self.require(known == entry, "P3", member, "joins with", entry, "not", known)

    def asked(self, broker: SimBroker, request: AlterPartitionRequest) -> None:
        for topic in request.topics:
            for partition in topic.partitions:
                members = [member.broker_id for member in partition.new_isr_with_epochs]
                self.require(
                    broker.id in members and len(set(members)) == len(members),
                    *("P12", broker.id, "asks for the ISR", members),
                )

    # --- clients

    def sends(self, key: Key, crc: int) -> None:
        self._sent[crc] = key

    def refused(self, crc: int) -> None:
        """Notes NOT_ENOUGH_REPLICAS for a batch that was sent only once."""
        self._refused.add(crc)

    def deletes(self, key: Key, start: int) -> None:
        """Notes that a client deletes the records below `start`."""
        history = self.histories.get(key)
        if history is not None:
            history.deleted_to = max(history.deleted_to, start)

    def acks(self, key: Key, base: int, crc: int) -> None:
        """Checks an acknowledgement with acks=all; the records must exist forever."""
        history = self.histories.get(key)
        if history is None or history.is_unclean:
            return
        found = history.at(base)
        self.require(
            found is not None and found.crc == crc,
            *("P5", base, "is acknowledged and not committed:", found),
        )
        self.acked[key][base] = crc
        self.world.say("acknowledged:", f"{self.world.name_of(key)}-{key[1]}", found)

    def tells(self, key: Key, epoch: int, watermark: int) -> None:
        """Checks a high watermark that a leader returned to a client."""
        history = self.histories.get(key)
        if history is None or history.is_unclean:
            return
        for other, (first, most) in history.told.items():
            if other <= epoch:
                self.require(watermark >= most, "P7", f"epoch {epoch}", watermark, "after", most)
            else:
                self.require(watermark <= first, "P7", f"epoch {epoch}", watermark, "before", first)
        first, most = history.told.get(epoch, (watermark, watermark))
        history.told[epoch] = (first, max(most, watermark))

    def answered(self, broker: SimBroker, request: Message, response: Message) -> None:
        """Checks a broker's responses to consumers."""
        if isinstance(request, FetchRequest) and request.replica_state.replica_id < 0:
            assert isinstance(response, FetchResponse)
            asked = {
                (topic.topic_id, partition.partition): partition
                for topic in request.topics
                for partition in topic.partitions
            }
            for topic in response.responses:
                for data in topic.partitions:
                    key = (topic.topic_id, data.partition_index)
                    if not data.error_code:
                        self._gives(broker, request, asked[key], key, data)

    def _gives(
        self, broker: SimBroker, request: FetchRequest, asked: Any, key: Key, data: PartitionData
    ) -> None:
        history = self.histories.get(key)
        replica = self.replicas.get((broker.id, key))
        partition = broker.partitions.find(TopicPartition(self.world.name_of(key), key[1]))
        if history is None or replica is None or partition is None or history.is_unclean:
            return
        epoch = partition.state.leader_epoch
        self.require(
            asked.current_leader_epoch in (-1, epoch), "P11", broker.id, "answers of", epoch
        )
        if data.diverging_epoch.end_offset >= 0:
            return
        records = entries_in(bytes(data.records or b""))
        if not records and request.isolation_level != READ_COMMITTED:
            self.tells(key, epoch, data.high_watermark)
        if not records:
            self.count("read nothing")
        elif asked.fetch_offset < data.high_watermark:
            first = records[0]
            self.require(
                first.base <= asked.fetch_offset <= first.last,
                *("P8", "asked for", asked.fetch_offset, "got", first),
            )
        self._are_committed(broker, history, records, data)
        if request.isolation_level == READ_COMMITTED:
            self._are_decided(broker, replica, records, data)

    def _are_committed(
        self, broker: SimBroker, history: History, records: list[Entry], data: PartitionData
    ) -> None:
        for entry in records:
            self.require(
                entry.last < data.high_watermark and history.at(entry.base) == entry,
                *("P8", broker.id, "gives", entry, "committed", history.at(entry.base)),
            )

    def _are_decided(
        self, broker: SimBroker, replica: ReplicaLog, records: list[Entry], data: PartitionData
    ) -> None:
        """Checks T3 and T8: all transactions of the returned records have ended, and the aborted ones are listed."""
        stable = data.last_stable_offset
        self.require(stable <= data.high_watermark, "T3", broker.id, "LSO", stable)
        aborted = {
            (aborted_transaction.producer_id, aborted_transaction.first_offset)
            for aborted_transaction in data.aborted_transactions or ()
        }
        for entry in records:
            self.require(entry.last < stable, "T3", broker.id, "gives", entry, "above", stable)
            if not entry.transactional or entry.commits is not None:
                continue
            marker = next(
                (
                    later
                    for later in replica.entries
                    if later.producer == entry.producer
                    and later.commits is not None
                    and later.base > entry.base
                ),
                None,
            )
            # As in Kafka, a marker that was in the log at a start counts although it may not be replicated: its
            # coordinator would write it again.
            decided_below = max(data.high_watermark, replica.opened_end)
            self.require(
                marker is not None and marker.last < decided_below,
                *("T3", broker.id, "gives", entry, "of an open transaction"),
            )
            if marker is not None and not marker.commits:
                named = any(
                    producer == entry.producer and first <= entry.base
                    for producer, first in aborted
                )
                self.require(named, "T8", broker.id, "does not say that", entry, "was aborted")

    # --- the end

    def agree(self) -> None:
        """Checks P15: once all activity has stopped, all replicas have the same records; and P14: directories that were
        moved aside are deleted.
        """
        for broker in self.world.brokers.values():
            self._has_only_its_own(broker)
        for key, history in self.histories.items():
            state = self.world.state_of(key)
            assert state is not None
            leader = self.replicas.get((state.leader, key))
            if leader is None:
                self.require(not self.acked[key], "P15", key, "has no leader's log")
                continue
            for member in state.replicas:
                replica = self.replicas.get((member, key), ReplicaLog())
                start = max(leader.start, replica.start)
                if replica.log is not None and replica.log.sealed_segments:
                    self.world.happened["rolled"] += 1
                mine = [entry for entry in replica.entries if entry.base >= start]
                theirs = [entry for entry in leader.entries if entry.base >= start]
                self.require(mine == theirs, "P15", member, "differs from", state.leader)
            self._acked_are_there(key, leader)
            if not history.is_unclean:
                self._no_doubles(history)

    def _has_only_its_own(self, broker: SimBroker) -> None:
        """Checks P14 for existing topics. Remains of a namesake are moved aside only when the name is opened, or at a
        start.
        """
        topics = self.world.controller.image.topics.by_name
        for directory in broker.directories.online:
            for name, index in directory.partitions():
                topic = topics.get(name)
                if (
                    topic is not None
                    and directory.topic_id(TopicPartition(name, index)) == topic.id
                ):
                    is_here = broker.id in topic.partitions[index].replicas
                    self.require(is_here, "P14", broker.id, f"has still {name}-{index}")

    def _acked_are_there(self, key: Key, leader: ReplicaLog) -> None:
        for base, crc in self.acked[key].items():
            found = leader.at(base)
            if base >= leader.start:
                self.require(found is not None and found.crc == crc, "P5", "acked", base, "is lost")

    def _no_doubles(self, history: History) -> None:
        """Checks I1: a batch that an idempotent producer resent is in the log once."""
        seen: set[int] = set()
        for entry in history.committed:
            if entry.producer >= 0 and entry.commits is None:
                is_once = entry.crc not in seen or entry in history.taken_again
                self.require(is_once, "I1", entry, "is there twice")
                seen.add(entry.crc)
