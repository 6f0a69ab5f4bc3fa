"""The acknowledgements in a ShareFetch or ShareAcknowledge: checked, decided, and awaited.

Source: `KafkaApis.handleAcknowledgements` and `validateAcknowledgementBatches` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self

from trimaran.broker.groups.share import kind as share_kind
from trimaran.broker.groups.share.settings import MEMBER_ID_CHARACTERS_MAX
from trimaran.broker.handlers.context import SharingContext
from trimaran.broker.handlers.served_kinds import check_served
from trimaran.broker.sharing.acknowledging import Acknowledgement
from trimaran.broker.sharing.rules import AcknowledgeType
from trimaran.node.replicated.pending import PendingResponse
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.errors import ErrorCode, KafkaError, KeptError
from trimaran.wire.identity import SharePartitionKey, TopicIdPartition, TopicPartition
from trimaran.wire.messages import share_acknowledge, share_fetch
from trimaran.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from trimaran.wire.messages.share_fetch import ShareFetchRequest
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.scheduling.effects import Handling, Wait
from trimaran.wire.transport.scheduling.pauses import pauses

AcknowledgementBatch = share_acknowledge.AcknowledgementBatch | share_fetch.AcknowledgementBatch
AcknowledgedTopic = share_acknowledge.AcknowledgeTopic | share_fetch.FetchTopic
# The error in the response by partition; None means success.
Outcomes = dict[TopicIdPartition, KeptError | None]

VERSION_OF_RENEWALS = 2
# The number of batches of a partition that are checked in one step: a request may have fifty thousand batches.
BATCHES_A_STEP = 2_000
# The number of partitions or topics that are settled or counted in one step, about a millisecond.
PARTITIONS_A_STEP = 100


def _identified(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """Returns the ids of group and member. Raises KafkaError INVALID_REQUEST if one of them is missing or too long."""
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not member_id or len(member_id) > MEMBER_ID_CHARACTERS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return group_id, member_id


class Acknowledger:
    """Decides the acknowledgements of one request. `may_read` is the permission for a topic by name."""

    def __init__(
        self,
        ctx: SharingContext,
        group_id: str,
        member_id: str,
        may_read: Callable[[str], bool],
        *,
        may_renew: bool,
        is_renewal: bool,
    ) -> None:
        self._ctx = ctx
        self.group_id, self.member_id = group_id, member_id
        self.may_read = may_read
        self._types_max = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
        self._is_renewal = is_renewal
        self._outcomes: Outcomes = {}
        self._pending: dict[TopicIdPartition, PendingResponse[None]] = {}
        self._decided: dict[TopicIdPartition, Sequence[AcknowledgementBatch]] = {}
        # The topics that may be read, by partition.
        self._topics: dict[TopicIdPartition, str] = {}

    @classmethod
    def of(
        cls, request: ShareFetchRequest | ShareAcknowledgeRequest, ctx: SharingContext, call: Call
    ) -> Self:
        """Returns the acknowledger of a request.

        Raises:
            KafkaError: UNSUPPORTED_VERSION: share groups are not served. INVALID_REQUEST: no group or member is named.
        """
        check_served(ctx, share_kind.KIND)
        return cls(
            ctx,
            *_identified(request.group_id, request.member_id),
            may_with_topic(ctx, call, Operation.READ),
            may_renew=call.header.api_version >= VERSION_OF_RENEWALS,
            is_renewal=request.is_renew_ack,
        )

    def decide(self, topics: Iterable[AcknowledgedTopic]) -> Handling[None]:
        """Decides all acknowledgements of the request; of a partition named twice, those named last count."""
        wanted: dict[TopicIdPartition, Sequence[AcknowledgementBatch]] = {}
        for topic in topics:
            for partition in topic.partitions:
                key = TopicIdPartition(topic.topic_id, partition.partition_index)
                wanted[key] = partition.acknowledgement_batches
                yield None
        for key, batches in wanted.items():
            try:
                self._outcomes[key] = None
                yield from self._decide(key, batches)
            except KafkaError as error:
                self._outcomes[key] = KeptError.of(error)
            yield None

    def _decide(
        self, key: TopicIdPartition, batches: Sequence[AcknowledgementBatch]
    ) -> Handling[None]:
        name = self._ctx.partitions.topic_name(key.topic_id)
        acknowledgements = yield from self._checked(batches)
        if not self.may_read(name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if self._ctx.partitions.state_of(TopicPartition(name, key.partition)) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._topics[key] = name
        if not batches:
            return
        share = self._ctx.sharing.find(SharePartitionKey(self.group_id, *key))
        if share is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._pending[key] = yield from share.acknowledge(self.member_id, acknowledgements)
        self._decided[key] = batches

    def _checked(self, batches: Iterable[AcknowledgementBatch]) -> Handling[list[Acknowledgement]]:
        """Returns the acknowledgements. Raises KafkaError INVALID_REQUEST for batches that contradict themselves or
        each other.
        """
        before = -1
        found: list[Acknowledgement] = []
        pause = pauses(BATCHES_A_STEP)
        for batch in batches:
            types, first, last = batch.acknowledge_types, batch.first_offset, batch.last_offset
            if last < first or first < before:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "batches are not in order")
            if len(types) not in (1, last - first + 1):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "a batch needs one acknowledge type, or one for each offset",
                )
            if min(types) < AcknowledgeType.GAP or max(types) > self._types_max:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "an acknowledge type does not exist")
            if not self._is_renewal and max(types) == AcknowledgeType.RENEW:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "renewals need a request that says so")
            before = last
            found.append(Acknowledgement(first, last, types))
            yield from next(pause)
        return found

    def settled(self) -> Handling[Outcomes]:
        """Returns the outcomes when all changes are stored, or cannot be."""
        pause = pauses(PARTITIONS_A_STEP)
        for key, pending in self._pending.items():
            try:
                if not pending.ready():
                    yield Wait(pending.wait, pending.ready, when_ready=pending.when_ready)
                else:
                    _ = pending.response
            except KafkaError as error:
                self._outcomes[key] = KeptError.of(error)
            else:
                self._count(self._decided[key])
            yield from next(pause)
        yield from self._count_topics()
        return self._outcomes

    def _count(self, batches: Iterable[AcknowledgementBatch]) -> None:
        """Counts the acknowledged records by type."""
        counted = self._ctx.sharing.counts.acknowledgements
        for batch in batches:
            types = batch.acknowledge_types
            if len(types) == 1:
                counted[types[0]] += batch.last_offset - batch.first_offset + 1
            else:
                counted.update(types)

    def _count_topics(self) -> Handling[None]:
        """Counts the request once for each topic, as in Kafka."""
        failed = dict.fromkeys(self._topics.values(), False)
        for key, name in self._topics.items():
            failed[name] |= self._outcomes[key] is not None
        pause = pauses(PARTITIONS_A_STEP)
        for name, has_failed in failed.items():
            if (traffic := self._ctx.partitions.traffic.find(name)) is not None:
                traffic.share_acknowledgements += 1
                traffic.failed_share_acknowledgements += has_failed
            yield from next(pause)
