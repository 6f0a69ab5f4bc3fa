"""Compares a broker's response with the logs when it is sent. A response about offsets may return the state at any time
since the request arrived, so `arrives` notes the state at that time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from tests.simulation.coordinators.checker import CoordinatorChecker
from tests.simulation.coordinators.codes import code_of
from tests.simulation.coordinators.membership import assigned
from tests.simulation.coordinators.offsets import Partition
from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from trimaran.wire.messages.end_txn import EndTxnRequest
from trimaran.wire.messages.fetch import FetchRequest
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest
from trimaran.wire.messages.join_group import JoinGroupRequest
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequest
from trimaran.wire.messages.sync_group import SyncGroupRequest
from trimaran.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    from tests.simulation.coordinators.broker import CoordinatorBroker

E = ErrorCode
FENCED = frozenset({E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_ID_MAPPING})
# Errors of a coordinator that does not know a member.
FORGOTTEN = frozenset({E.UNKNOWN_MEMBER_ID, E.GROUP_ID_NOT_FOUND})
BUMPING_VERSION = 5

Before = Any


class Answers(CoordinatorChecker):
    """Checks responses, with `before` as returned by `arrives`; the version of EndTxn determines whether it bumps the
    epoch.
    """

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self._members: set[tuple[str, str]] = set()
        self._synced: dict[tuple[str, int, int, int], str] = {}

    def arrives(self, broker: CoordinatorBroker, request: Message) -> Before:
        self.look()
        if isinstance(request, OffsetFetchRequest):
            return {
                item: (len(self.offsets.versions[item]) - 1, self.offsets.is_pending(item))
                for item in _asked(request)
            }
        if isinstance(request, OffsetCommitRequest | TxnOffsetCommitRequest):
            return self.offsets.is_over(*_committer(request))
        if isinstance(request, HeartbeatRequest | SyncGroupRequest | JoinGroupRequest):
            group = request.group_id
            newest = self.offsets.generations.get(group, -1)
            return _is_loading(broker, group), newest, self.offsets.lives[group]
        return None

    def answers(
        self,
        broker: CoordinatorBroker,
        request: Message,
        version: int,
        response: Any,
        before: Before,
    ) -> None:
        self.look()
        if self.is_void:
            return
        code = code_of(response)
        self.rule(code is not E.UNKNOWN_SERVER_ERROR, "answer", broker.id, "fails on", request)
        check = self._checks.get(type(request))
        if check is not None:
            check(self, broker, request, version, response, before)
        if isinstance(request, FetchRequest):
            self.answered(broker, request, response)

    # --- offsets

    def _offsets_fetched(
        self,
        _broker: CoordinatorBroker,
        request: OffsetFetchRequest,
        _version: int,
        response: Any,
        before: Before,
    ) -> None:
        group = response.groups[0]
        if group.error_code:
            return
        for topic in group.topics:
            for fetched in topic.partitions:
                partition = (group.group_id, topic.name, fetched.partition_index)
                since, pending = before[partition]
                still = pending & self.offsets.is_pending(partition)
                is_unstable = fetched.error_code == E.UNSTABLE_OFFSET_COMMIT
                if request.require_stable and still:
                    self.rule(is_unstable, "G4", partition, "has open commits", still)
                if not fetched.error_code:
                    told = (fetched.committed_offset, fetched.metadata)
                    since_then = [
                        (known.offset, known.note)
                        for known in self.offsets.versions[partition][since:]
                    ]
                    self.rule(told in since_then, "G3", partition, told, "is told, not", since_then)

    def _offsets_committed(
        self, _broker: CoordinatorBroker, request: Any, _version: int, response: Any, before: Before
    ) -> None:
        was_over = before and self.offsets.is_over(*_committer(request))
        for topic, answered in zip(request.topics, response.topics, strict=True):
            for partition, told in zip(topic.partitions, answered.partitions, strict=True):
                if not told.error_code:
                    self.rule(
                        partition.committed_metadata in self.offsets.notes,
                        *("G3", request.group_id, partition, "is answered and not committed"),
                    )
                    self.rule(not was_over, "G1", _committer(request), "commits and is gone")
                elif isinstance(request, TxnOffsetCommitRequest):
                    self._fenced_told(request, told.error_code)

    # --- transactions

    def _begun(
        self,
        _broker: CoordinatorBroker,
        request: InitProducerIdRequest,
        _version: int,
        response: Any,
        _before: Before,
    ) -> None:
        if response.error_code or request.transactional_id is None:
            return
        self._check_producer(response)
        key, producer = request.transactional_id, response.producer_id
        self.rule(
            self.transactions.has_been(key, producer, response.producer_epoch),
            *("T5", key, "is answered", producer, response.producer_epoch, "and is"),
            self.transactions.states.get(key),
        )
        self.outcomes.began(producer, response.producer_epoch)

    def _ended(
        self,
        _broker: CoordinatorBroker,
        request: EndTxnRequest,
        version: int,
        response: Any,
        _before: Before,
    ) -> None:
        if response.error_code:
            self._fenced_told(request, response.error_code)
            return
        if version >= BUMPING_VERSION:
            self._check_producer(response)
        epoch = request.producer_epoch + (version >= BUMPING_VERSION)
        decided = self.transactions.decided.get((request.producer_id, epoch), set())
        self.rule(
            request.committed in decided, "T6", request, "is answered, and decided is", decided
        )

    def _check_producer(self, response: Any) -> None:
        """Checks T5: no producer gets the last epoch, which is reserved for fencing the one before it."""
        last = self.world.rules.epoch_max
        self.rule(response.producer_epoch < last, "T5", response, "has the epoch", last)

    def _fenced_told(self, request: Any, code: int) -> None:
        """Checks T7: a producer is fenced only by another producer."""
        if code in FENCED:
            self.rule(
                self.transactions.may_fence(
                    request.transactional_id, request.producer_id, request.producer_epoch
                ),
                *("T7", request.transactional_id, request.producer_id, request.producer_epoch),
                *("is told", ErrorCode.of(code).name, "in", type(request).__name__),
            )

    # --- groups

    def _beaten(
        self,
        _broker: CoordinatorBroker,
        request: ConsumerGroupHeartbeatRequest,
        _version: int,
        response: Any,
        _before: Before,
    ) -> None:
        who = (request.group_id, request.member_id)
        removed = who in self.offsets.ever_removed
        if response.error_code in FORGOTTEN and who in self._members:
            self.rule(removed, "G5", who, "is told", ErrorCode.of(response.error_code).name)
        if response.error_code or response.member_epoch < 0:
            return
        self._members.add(who)
        known = self.offsets.members[who[0]].get(who[1], -1)
        self.rule(
            known >= response.member_epoch or removed,
            *("G3", who, "is told epoch", response.member_epoch, "and has", known),
        )

    def _generation_told(
        self, broker: CoordinatorBroker, request: Any, _version: int, response: Any, before: Before
    ) -> None:
        """Checks G1: members of an old generation never get a successful response. An exception is the response to a
        heartbeat from a broker that has not learned of its successor: as in Kafka nothing fences that broker, because a
        heartbeat writes nothing.
        """
        is_loading, newest, _ = before
        is_deposed = False
        if isinstance(request, HeartbeatRequest) and not response.error_code:
            index = broker.groups.partition_of(request.group_id)
            state = broker.partitions.state_of(TopicPartition(CONSUMER_OFFSETS, index))
            leads = state is not None and state.leader == broker.id
            self.rule(leads, "G5", broker.id, "answers", request.group_id, "and does not lead it")
            now = self.world.controller.image.topics.by_name[CONSUMER_OFFSETS].partitions[index]
            is_deposed = state is not None and state.leader_epoch < now.leader_epoch
        if not response.error_code and not is_loading and not is_deposed:
            self.rule(
                request.generation_id >= newest,
                *("G1", request.group_id, "is at", newest, "and answers", request.generation_id),
            )
        if isinstance(request, SyncGroupRequest) and not response.error_code:
            known = self.offsets.written_generation(request.group_id, request.member_id)
            self.rule(
                known >= request.generation_id,
                *("G3", request.group_id, request.generation_id, "is answered, written is", known),
            )
            if request.group_id not in self.offsets.generations:
                return  # members of a consumer group may have different epochs
            life = self.offsets.lives[request.group_id]
            for index in sorted(assigned(response.assignment)):
                place = (request.group_id, life, request.generation_id, index)
                who = request.group_instance_id or request.member_id
                owner = self._synced.setdefault(place, who)
                self.rule(owner == who, "G2", place, "is of", owner, "and", who)

    def _joined_told(
        self,
        _broker: CoordinatorBroker,
        request: JoinGroupRequest,
        _version: int,
        response: Any,
        before: Before,
    ) -> None:
        if not response.error_code:
            _, newest, life = before
            # An empty group that changed its kind meanwhile restarts its generations.
            self.rule(
                response.generation_id >= newest or self.offsets.lives[request.group_id] > life,
                *("G1", request.group_id, "goes from", newest, "to", response.generation_id),
            )
            if request.group_instance_id is not None:
                who = (request.group_id, request.group_instance_id)
                self.offsets.told_instances[who] = response.member_id

    _checks: ClassVar[dict[type[Message], Callable[..., None]]] = {
        OffsetFetchRequest: _offsets_fetched,
        OffsetCommitRequest: _offsets_committed,
        TxnOffsetCommitRequest: _offsets_committed,
        InitProducerIdRequest: _begun,
        EndTxnRequest: _ended,
        ConsumerGroupHeartbeatRequest: _beaten,
        HeartbeatRequest: _generation_told,
        SyncGroupRequest: _generation_told,
        JoinGroupRequest: _joined_told,
    }


def _committer(request: Any) -> tuple[str, str, str | None]:
    return request.group_id, request.member_id, request.group_instance_id


def _is_loading(broker: CoordinatorBroker, group_id: str) -> bool:
    """Whether the group's shard is loading, during which members get responses without an error, as in Kafka."""
    index = broker.groups.partition_of(group_id)
    return any(
        epoch.partition_index == index and epoch.state is ShardState.LOADING
        for epoch in broker.groups.runtime.epochs
    )


def _asked(request: OffsetFetchRequest) -> list[Partition]:
    return [
        (group.group_id, topic.name, index)
        for group in request.groups
        for topic in group.topics or ()
        for index in topic.partition_indexes
    ]
