"""Checks the copies of replicas in the directories of brokers (docs/invariants.md, P19 to P25)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING

from tests.simulation.partitions.checker import Checker, Key
from tests.simulation.partitions.disk import Directory, Node
from tests.simulation.partitions.replica_logs import Entry, ReplicaLog
from tests.simulation.partitions.storing import StoringBroker
from trimaran.broker.partitions.partition import Partition
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.buffers.primitives import uuid_to_text

# The fields of a batch up to its checksum: base offset, length of the rest, leader epoch, magic, CRC.
HEADER, LENGTHS = Struct(">qiibI"), 12

if TYPE_CHECKING:
    from tests.simulation.partitions.broker import SimBroker
    from tests.simulation.partitions.world import World


class CopiesChecker(Checker):
    """A checker of brokers with several directories."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        # By replica: the last batch that was acknowledged while the replica was in the ISR.
        self._held: dict[tuple[int, Key], Entry] = {}
        # Replicas that were once to be deleted; their remains may be missing.
        self._let_go: set[tuple[int, Key]] = set()

    def _look_at(
        self, broker: SimBroker, partition: Partition, replica: ReplicaLog, key: Key
    ) -> None:
        assert isinstance(broker, StoringBroker)
        history, log = self.histories[key], partition.open_log
        assert log is not None
        before, end, was = replica.entries, replica.end, replica.log
        truncations = replica.truncations
        if was is not log and log.health.offline is not None:
            return  # the directory failed when the log was opened
        _lower_what_was_to_be_cut(replica)
        if was is not log:
            self._is_the_one(broker, partition, log.directory)
            if was is None and self._is_spare(broker, partition, log.directory):
                replica.entries, replica.end, replica.durable_end = [], 0, 0
                before, end = [], 0
            elif log.log_end_offset == log.log_start_offset:
                self._has_no_copy(broker, replica, key, log)
            if was is not None:
                if was.directory.parent != log.directory.parent:
                    self.world.say(broker.id, partition.name, "lies in", log.directory.parent)
                    self.world.happened["replica moved"] += 1
                self.require(
                    log.log_end_offset >= end,
                    *("P19", broker.id, partition.name, "ends at", log.log_end_offset, "not", end),
                )
                self.require(
                    log.log_start_offset >= replica.start,
                    *("P19", broker.id, "starts at", log.log_start_offset, "not", replica.start),
                )
        led = replica.leader if was is log else None
        leads = led is not None and led is partition.leader_or_none
        super()._look_at(broker, partition, replica, key)
        if was is log and replica.entries is not before and not history.is_unclean:
            self._was_to_be_cut(broker, partition, replica, before, leads)
        if was is not log or replica.truncations != truncations:
            self.look_at_disks(broker, key)

    # --- P22, P20

    def _is_the_one(self, broker: StoringBroker, partition: Partition, directory: Path) -> None:
        """Checks P22: only one directory has a log of the replica, and the log belongs to the topic."""
        name = (partition.topic, partition.index)
        serving = [
            directory.path for directory in broker.directories.online if name in directory._logs
        ]
        self.require(
            serving == [directory.parent],
            *("P22", broker.id, "has logs of", partition.name, "in", serving),
        )
        told = self._topic_of(broker, directory)
        self.require(
            told == uuid_to_text(partition.topic_id),
            *("P22", broker.id, directory, "is of topic", told),
        )

    def _topic_of(self, broker: StoringBroker, directory: Path) -> str:
        """Returns the topic id in a directory's `partition.metadata`. A damaged file is recognized by its content,
        because its directory may have been renamed since.
        """
        file = directory / "partition.metadata"
        try:
            content = bytes(broker.disks[directory.parent]._file(file).content)
        except OSError:
            return "none"
        for _, damaged in broker.damaged:
            if damaged.path.name == file.name and damaged.after == content:
                return _topic_in(damaged.before)
        return _topic_in(content)

    def _is_spare(self, broker: StoringBroker, partition: Partition, directory: Path) -> bool:
        """Whether the replica may restart empty: its records are in a missing directory, another broker leads, and the
        replica is neither in the ISR nor in the ELR.
        """
        state, topic = partition.state, uuid_to_text(partition.topic_id)
        if state.leader in (-1, broker.id) or broker.id in (*state.isr, *state.elr):
            return False
        return any(
            path.name == directory.name
            and path.parent in broker.absent
            and self._topic_of(broker, path) == topic
            for path, _ in self._directories_of(broker, directory.name)
        )

    def _has_no_copy(
        self, broker: StoringBroker, replica: ReplicaLog, key: Key, log: PartitionLog
    ) -> None:
        """Checks P20: an empty log never replaces one with records. A log whose extra records were never durable may
        remain as a copy if it was moved aside or is being moved here.
        """
        if (broker.id, key) in self._let_go:
            return
        directory, topic = log.directory, uuid_to_text(key[0])
        had_records = log.log_end_offset < replica.durable_end
        for path, files in self._directories_of(broker, directory.name):
            if path == directory or self._topic_of(broker, path) != topic:
                continue
            has_records = any(
                name.endswith(".log") and isinstance(node, Node) and any(node.content)
                for name, node in files.names.items()
            )
            counts = had_records or (path.name == directory.name and not log.log_end_offset)
            self.require(
                not (counts and has_records),
                *("P20", broker.id, "has an empty log in", directory, "and records in", path),
            )
        self.count("P20")

    def _directories_of(self, broker: StoringBroker, name: str) -> Iterator[tuple[Path, Directory]]:
        for path, disk in broker.disks.items():
            for found, node in disk._directory(path).names.items():
                if isinstance(node, Directory) and (found == name or found.startswith(name + ".")):
                    yield path / found, node

    # --- P19

    def _was_to_be_cut(
        self,
        broker: StoringBroker,
        partition: Partition,
        replica: ReplicaLog,
        before: list[Entry],
        leads: bool,
    ) -> None:
        key = (partition.topic_id, partition.index)
        start = max(self.histories[key].start, replica.start)
        gone = [
            entry for entry in before if entry.last >= start and replica.at(entry.base) != entry
        ]
        if not gone:
            return
        self.require(not leads, "P19", broker.id, "leads and has cut", gone[0])
        state = partition.state
        leader = self.replicas.get((state.leader, key))
        opened = self.world.leader_epoch(key, state)
        if leader is not None and opened is not None:
            self.require(
                leader.at(gone[0].base) != gone[0],
                *("P19", broker.id, "has cut", gone[0], "which its leader has"),
            )

    # --- P23

    def acks(self, key: Key, base: int, crc: int) -> None:
        super().acks(key, base, crc)
        history, state = self.histories.get(key), self.world.state_of(key)
        found = None if history is None else history.at(base)
        if history is None or history.is_unclean or state is None or found is None:
            return
        for member in state.isr:
            last = self._held.get((member, key))
            if not self.world.brokers[member].was_wiped and (last is None or last.base < base):
                self._held[member, key] = found

    def look_at_all_disks(self) -> None:
        """Checks P23: acknowledged records are on the disks of each broker that was in the ISR at that time, whichever
        disks fail.
        """
        for broker_id, key in list(self._held):
            broker = self.world.brokers[broker_id]
            assert isinstance(broker, StoringBroker)
            self.look_at_disks(broker, key)

    def look_at_disks(self, broker: StoringBroker, key: Key) -> None:
        entry, history = self._held.get((broker.id, key)), self.histories.get(key)
        if entry is None or history is None or history.is_unclean or entry.last < history.start:
            return
        name = f"{self.world.name_of(key)}-{key[1]}"
        topic = uuid_to_text(key[0])
        held = any(
            self._topic_of(broker, path) == topic and has_batch(files, entry)
            for path, files in self._directories_of(broker, name)
        )
        self.require(held, "P23", broker.id, "has not", entry, "which was acknowledged")

    # --- ended processes and deleted replicas

    def process_ended(self, broker: SimBroker) -> None:
        for (broker_id, _), replica in self.replicas.items():
            if broker_id == broker.id:
                _lower_what_was_to_be_cut(replica)
        super().process_ended(broker)

    def disks_left(self, broker: StoringBroker) -> None:
        """Checks the disks that an ended process left for the next one."""
        for broker_id, key in list(self._held):
            if broker_id == broker.id:
                self.look_at_disks(broker, key)

    def metadata_applied(self, broker: SimBroker) -> None:
        before = {replica for replica in self.replicas if replica[0] == broker.id}
        super().metadata_applied(broker)
        self._let_go |= (gone := before - self.replicas.keys())
        self._forget(gone)

    def wiped(self, broker: SimBroker) -> None:
        super().wiped(broker)
        self._let_go |= (gone := {(broker.id, key) for key in self.histories})
        self._forget(gone)

    def gone(self, key: Key) -> None:
        super().gone(key)
        self._forget({replica for replica in self._held if replica[1] == key})

    def _forget(self, replicas: set[tuple[int, Key]]) -> None:
        for replica in replicas:
            self._held.pop(replica, None)


def _lower_what_was_to_be_cut(replica: ReplicaLog) -> None:
    """Lowers the durable end after a truncation that failed, or during which the process died: the records to be
    truncated may or may not be there.
    """
    log = replica.log
    if log is not None and log.flushed_offset < replica.flushed:
        replica.durable_end = min(replica.durable_end, log.flushed_offset)


def _topic_in(content: bytes) -> str:
    _, _, topic = content.decode(errors="replace").partition("topic_id: ")
    return topic.partition("\n")[0].strip()


def has_batch(files: Directory, entry: Entry) -> bool:
    """Whether a segment in the directory has the batch."""
    for name, node in files.names.items():
        if not name.endswith(".log") or not isinstance(node, Node) or int(name[:-4]) > entry.base:
            continue
        content, at = bytes(node.content), 0
        while at + HEADER.size <= len(content):
            base, size, epoch, _magic, crc = HEADER.unpack_from(content, at)
            if base == entry.base:
                if (epoch, crc) == (entry.epoch, entry.crc):
                    return True
                break
            if size <= 0:
                break  # preallocated
            at += LENGTHS + size
    return False
