"""A shard with a log in memory and a manual clock, and named operations on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakSet

from trimaran.broker.coordination.effects import UncommittedWrites
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.classic import kind as classic
from trimaran.broker.groups.classic.group import ClassicGroup, pending_bytes
from trimaran.broker.groups.classic.groups import ClassicGroups
from trimaran.broker.groups.classic.joining import Join
from trimaran.broker.groups.classic.operation import GroupWrite
from trimaran.broker.groups.consumer import kind as consumer
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.groups import ConsumerGroups, ConsumerHeartbeat
from trimaran.broker.groups.consumer.settings import ConsumerGroupSettings
from trimaran.broker.groups.kinds import GroupDependencies, GroupKind
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.memory import (
    NAME_BYTES,
    OFFSET_BYTES,
    PARTITION_BYTES,
    ByGroup,
    GroupAccount,
    group_bytes,
    topic_bytes,
)
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.registry import KINDS
from trimaran.broker.groups.shard import GroupCoordinatorShard
from trimaran.broker.groups.store import GroupStore
from trimaran.broker.groups.topics import Topic
from trimaran.broker.metadata.topic_patterns import compiled
from trimaran.node.replicated.state_machine import Result
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from trimaran.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

WALL_CLOCK_MS = 1_700_000_000_000


def subscription(topics: Iterable[str]) -> bytes:
    """Returns version 0 of the consumer protocol's subscription."""
    names = [topic.encode() for topic in topics]
    out = b"\0\0" + len(names).to_bytes(4, "big")
    for name in names:
        out += len(name).to_bytes(2, "big") + name
    return out + b"\xff\xff\xff\xff"


class FakeTopics:
    """Topics by name; the id of a topic is its name. Every change makes a new version."""

    def __init__(self, **counts: int) -> None:
        self._counts = counts or {"t": 4}
        self.version: object = object()
        self.offset = 0

    def set(self, name: str, count: int) -> None:
        """A count of 0 deletes the topic."""
        self._counts = {**self._counts, name: count}
        if not count:
            del self._counts[name]
        self.version = object()
        self.offset += 1

    def find(self, name: str) -> Topic | None:
        count = self._counts.get(name)
        return None if count is None else Topic(name, topic_id(name), count)

    def name_of(self, wanted: bytes) -> str | None:
        return next((name for name in self._counts if topic_id(name) == wanted), None)

    def names(self) -> Iterable[str]:
        return list(self._counts)

    def __len__(self) -> int:
        return len(self._counts)


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"-")


def refusal(regex: str | None) -> KafkaError | None:
    """Returns the error in a pattern, which the coordinator detects before it calls the shard."""
    try:
        compiled(regex or "")
    except KafkaError as error:
        return error
    return None


GROUP_DEPENDENCIES = GroupDependencies({}, FakeTopics)


class Driver:
    """One shard, group `g`. Writes are committed immediately unless `holding`; answers are collected by token. Patterns
    are resolved immediately, or by `match` if `matching_later`.
    """

    def __init__(
        self,
        limits: GroupLimits | None = None,
        *,
        log: Iterable[GroupRecord] = (),
        now: float = 0.0,
        settings: ConsumerGroupSettings | None = None,
        topics: FakeTopics | None = None,
        gone: Iterable[tuple[str, bytes]] = (),
        accounts: WeakSet[GroupAccount] | None = None,
        kinds: Sequence[GroupKind] = KINDS,
    ) -> None:
        self.limits = limits or GroupLimits()
        self.now = now
        self.log = list(log)
        self.gone = set(gone)
        # Also unique across reloads, as random ids are.
        self._serial = len(self.log) * 1000
        self.settings = settings or ConsumerGroupSettings(assignment_interval_ms=0)
        self.topics = FakeTopics() if topics is None else topics
        dependencies = GroupDependencies(self.settings_of_kinds(), lambda: self.topics)
        accounts = WeakSet[GroupAccount]() if accounts is None else accounts
        self.kinds = kinds
        self.shard = GroupCoordinatorShard(
            self.limits, self.knows_topic, dependencies, accounts, kinds
        )
        for offset, record in enumerate(self.log):
            self.shard.replay(offset, record)
        self.shard.finish_load()
        self.shard.loaded(self.at)
        self.uncommitted = UncommittedWrites()
        self.follow_ups: list[str] = []
        self.holding = self.matching_later = False
        self.failing: ErrorCode | None = None
        self.answers: dict[str, object] = {}
        # Generations whose records are in the log but were not committed in time.
        self.in_doubt: set[int] = set()

    def settings_of_kinds(self) -> dict[str, Callable[[str], Any]]:
        return {"consumer": lambda _group_id: self.settings}

    @property
    def classic(self) -> ClassicGroups:
        return self.shard.of(classic.KIND)

    @property
    def groups(self) -> ByGroup[ClassicGroup]:
        """Returns the classic groups in memory."""
        return self.classic.groups

    @property
    def consumers(self) -> ConsumerGroups:
        return self.shard.of(consumer.KIND)

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Returns the group if it is a consumer group."""
        is_one = self.consumers.has(group_id)
        return self.shard.store.of("consumer")[group_id] if is_one else None

    def knows_topic(self, name: str, topic_id: bytes) -> bool:
        return (name, topic_id) not in self.gone

    @property
    def at(self) -> Instant:
        return Instant(self.now, WALL_CLOCK_MS + round(self.now * 1000))

    # -- what the shell does

    def settle(self) -> None:
        """Performs the work of `ShardEpoch` after every input."""
        while True:
            effects = self.shard.take()
            for write in effects.writes:
                self.store(write)
            for token, response in effects.responses:
                assert token not in self.answers, f"{token} is answered twice"
                self.answers[token] = response
            self.follow_ups += effects.follow_ups
            committed = 0 if self.holding else self.acknowledge()
            if not effects.writes and not committed:
                return

    def match(self) -> None:
        """Resolves patterns of groups as `GroupCoordinator` does."""
        groups, self.follow_ups = self.follow_ups, []
        for group_id in groups:
            while (asked := self.consumers.next_regex(group_id)) is not None:
                regex, may_see = asked
                matches = compiled(regex)
                found = frozenset(n for n in self.topics.names() if matches(n) and may_see(n))
                self.consumers.regex_resolved(group_id, regex, found, self.topics.offset, self.at)
                self.settle()

    def store(self, write) -> None:
        if self.failing is not None and write.records:
            self.shard.written(write, self.failing, self.at)
            return
        self.append(write.records)
        deadline = self.at.after_ms(self.limits.commit_timeout_ms)
        self.uncommitted.add(write, len(self.log), deadline)

    def acknowledge(self) -> int:
        """Commits everything in the log; returns how many writes waited for it."""
        committed = self.uncommitted.pop_committed(len(self.log))
        for write in committed:
            self.shard.written(write, ErrorCode.NONE, self.at)
        return len(committed)

    def append(self, records: Iterable[GroupRecord]) -> None:
        for record in records:
            self.log.append(record)
            self.shard.replay(len(self.log) - 1, record)

    def submit(self, result: Result[GroupRecord, Any]) -> Any:
        self.append(result.records)
        self.settle()
        return result.response

    def commit(self) -> None:
        self.holding = False
        self.acknowledge()
        self.settle()

    def advance(self, seconds: float) -> list[float]:
        """Lets time pass, waking the core only at its deadlines; returns the times at which it was woken."""
        end = self.now + seconds
        woken = []
        while (deadline := self.deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            woken.append(self.now)
            for write in self.uncommitted.pop_expired(self.now):
                if isinstance(write, GroupWrite):
                    self.in_doubt.add(write.generation)
                self.shard.written(write, ErrorCode.COORDINATOR_NOT_AVAILABLE, self.at)
            self.shard.handle_timeout(self.at)
            self.settle()
        self.now = end
        return woken

    def close(self) -> None:
        self.uncommitted = UncommittedWrites()
        self.shard.close(self.at)
        self.settle()
        self.shard.unload()

    def deadline(self) -> float | None:
        deadlines = [self.shard.deadline(), *(write.deadline for write in self.uncommitted)]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # -- requests

    def join(
        self,
        token: str,
        member_id: str = "",
        *,
        group: str = "g",
        client: str = "c",
        instance: str | None = None,
        version: int = 9,
        protocols: Iterable[tuple[str, bytes]] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        principal: str = "User:a",
        connection: int = 0,
    ) -> None:
        self._serial += 1
        if protocols is None:
            protocols = [("range", subscription(["t"]))]
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols],
        )
        serial = str(self._serial)
        join = Join(request, version, client, "/127.0.0.1", token, serial, principal, connection)
        self.shard.join(join, self.at)
        self.settle()

    def consumer_heartbeat(
        self,
        member_id: str = "",
        epoch: int = 0,
        *,
        group: str = "g",
        topics: Iterable[str] | None = None,
        owned: dict[str, Iterable[int]] | None = None,
        regex: str | None = None,
        instance: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int | None = None,
        client: str = "c",
        version: int = 1,
        may_see: Callable[[str], bool] = lambda _name: True,
        principal: str = "User:a",
    ) -> ConsumerGroupHeartbeatResponse | ErrorCode:
        """Returns the response, or the error code of the refusal."""
        self._serial += 1
        if epoch == 0:
            owned = owned or {}
            topics = ["t"] if topics is None and regex is None else topics
            rebalance_ms = rebalance_ms or 60_000
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=-1 if rebalance_ms is None else rebalance_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                TopicPartitions(topic_id=topic_id(name), partitions=list(partitions))
                for name, partitions in owned.items()
            ],
        )
        new_id = f"new-{self._serial}"
        refused = refusal(regex)
        given = ConsumerHeartbeat(
            request, version, client, "/127.0.0.1", new_id, may_see, refused, principal
        )
        try:
            result = self.consumers.member_heartbeat(given, self.at)
        except KafkaError as error:
            self.settle()
            return error.code
        self.settle()
        if self.failing is not None and result.records:
            self.consumers.heartbeat_failed(given, self.at)
            return self.failing
        answer = self.submit(result)
        if not self.matching_later:
            self.match()
        return answer

    def sync(
        self,
        token: str,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> None:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=m, assignment=a)
                for m, a in (assignments or {}).items()
            ],
        )
        self.shard.sync(request, token, self.at)
        self.settle()

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        return self.shard.heartbeat(request, self.at)

    def leave(
        self, *identities: tuple[str, str | None], group: str = "g", version: int = 5
    ) -> list[ErrorCode]:
        members = [MemberIdentity(member_id=m, group_instance_id=i) for m, i in identities]
        request = LeaveGroupRequest(
            group_id=group, member_id=members[0].member_id if version < 3 else "", members=members
        )
        responses = self.shard.leave(request, version, self.at)
        self.settle()
        return [ErrorCode(response.error_code) for response in responses]

    def commit_offset(
        self,
        offset: int,
        *,
        member_id: str = "",
        generation: int = -1,
        group: str = "g",
        topic: str = "t",
        partition: int = 0,
        instance: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        version: int = 9,
        topic_id: bytes = bytes(16),
    ) -> ErrorCode:
        """Returns the error code of the partition, or of the request if it was refused as a whole."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=metadata,
                        )
                    ],
                )
            ],
        )
        try:
            result = self.shard.commit_offsets(request, version, self.at)
        except KafkaError as error:
            self.settle()
            return error.code
        self.submit(result)
        return ErrorCode(result.response.topics[0].partitions[0].error_code)

    def offset(self, topic: str = "t", partition: int = 0, group: str = "g") -> int | None:
        value = self.shard.store.offset(group, TopicPartition(topic, partition))
        return None if value is None else value.offset

    def held_bytes(self) -> int:
        """Returns the bytes of the groups, counted again; the shard's account must be equal."""
        of_classic = sum(
            sum(member.held_bytes for member in group.members.values())
            + sum(map(pending_bytes, group.pending))
            for group in self.groups.values()
        )
        of_consumer = 0
        for group in self.shard.store.of("consumer").values():
            of_consumer += sum(member.held_bytes for member in group.members.values())
            for target in group.target.values():
                of_consumer += PARTITION_BYTES * sum(map(len, target.values()))
            for regex, resolved in group.regexes.items():
                of_consumer += len(regex) + NAME_BYTES * len(resolved.topics)
        return of_classic + of_consumer

    def known_bytes(self) -> int:
        """Returns the bytes of known groups and offsets, counted again."""
        store = self.shard.store
        places = (self.groups, store.of("classic"), store.of("consumer"), store.offsets)
        found = sum(
            group_bytes(group_id) for groups in (*places, store.emptied) for group_id in groups
        )
        for topics in store.offsets.values():
            found += sum(map(topic_bytes, topics)) + OFFSET_BYTES * sum(map(len, topics.values()))
        return found

    def check_account(self) -> None:
        account, store = self.shard.account, self.shard.store
        assert account.bytes == self.held_bytes()
        assert sum(account.by_principal.values()) <= account.bytes
        texts = [
            text_bytes(value.metadata)
            for group in store.offsets
            for *_, value in store.offsets_of(group)
        ]
        assert account.offset_metadata_bytes == sum(texts)
        assert account.known_bytes == self.known_bytes()
        members = {
            (group.id, member_id)
            for groups in (self.groups, store.of("consumer"), store.of("share"))
            for group in groups.values()
            for member_id in [*group.members, *getattr(group, "pending", ())]
        }
        assert account._owners.keys() <= members

    def replayed(self) -> GroupStore:
        """Returns the state that another coordinator would load from the log."""
        store = GroupStore(self.kinds)
        for offset, record in enumerate(self.log):
            store.replay(offset, record)
        return store
