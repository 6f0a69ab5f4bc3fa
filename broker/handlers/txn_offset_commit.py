"""TxnOffsetCommit (28): stores a group's offsets in a producer's transaction; they take effect when it is committed.

Versions: 2 leader epochs, 3 the member and its generation (KIP-447), 4 TRANSACTION_ABORTABLE, 5 also adds the group to
the transaction (KIP-890), 6 topics by id, and the codes GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319). Source:
`KafkaApis.handleTxnOffsetCommitRequest`, `GroupCoordinatorService.commitTransactionalOffsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from trimaran.broker.coordination.writing import response_code
from trimaran.broker.handlers.batches import in_batches
from trimaran.broker.handlers.committed_topics import find_topic
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS
from trimaran.node.replicated.pending import PendingResponse, settled
from trimaran.node.replicated.state_machine import Producer
from trimaran.quorum.metadata.image import TopicImage
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from trimaran.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics, transactional_ids
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

# Older clients treat COORDINATOR_LOAD_IN_PROGRESS as fatal.
LOADING_VERSION = 2
# From this version on, every transaction has its own producer epoch.
BUMPING_VERSION = 5
TOPIC_ID_VERSION = 6

Codes = Mapping[TopicPartition, int]
_Admitted = tuple[TopicImage, Sequence[OffsetCommitRequestPartition]]
_Found = tuple[TopicImage | None, ErrorCode]


def _fail(
    request: TxnOffsetCommitRequest, code: ErrorCode, _message: str
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@handles(
    TxnOffsetCommitRequest,
    versions="0-6",
    access=(
        transactional_ids(Operation.WRITE, "transactional_id"),
        groups(Operation.READ, "group_id"),
        topics(Operation.READ, "topics.name").in_handler("topics by id, too"),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def txn_offset_commit(
    request: TxnOffsetCommitRequest, ctx: GroupContext, call: Call
) -> Handling[TxnOffsetCommitResponse]:
    yield from loaded(ctx, (request.group_id,))
    by_id = call.header.api_version >= TOPIC_ID_VERSION
    may_read, image = may_with_topic(ctx, call, Operation.READ), ctx.metadata.image.topics
    found: list[_Found] = []
    admitted: list[_Admitted] = []
    for topic in request.topics:
        found.append(find_topic(topic, image, may_read, by_id=by_id))
        known, (stored, _) = [], found[-1]
        for partition in topic.partitions:
            if stored is not None and partition.partition_index in stored.partitions:
                known.append(_commit_of(partition))
            yield None
        if stored is not None and known:
            admitted.append((stored, known))
        yield None
    codes: dict[TopicPartition, int] = {}
    if admitted:
        yield from _committed(request, admitted, ctx, call, codes)
    return (yield from _responses(request, found, codes, call))


def _commit_of(partition: TxnOffsetCommitRequestPartition) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        committed_metadata=partition.committed_metadata,
    )


def _committed(
    request: TxnOffsetCommitRequest,
    admitted: Iterable[_Admitted],
    ctx: GroupContext,
    call: Call,
    codes: dict[TopicPartition, int],
) -> Handling[None]:
    """Fills `codes` once all offsets that could be written are committed."""
    decided: list[tuple[OffsetCommitRequest, PendingResponse[OffsetCommitResponse]]] = []
    for batch in in_batches(admitted):
        commit = OffsetCommitRequest(
            group_id=request.group_id,
            generation_id_or_member_epoch=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic.name, topic_id=topic.id, partitions=list(partitions)
                )
                for topic, partitions in batch
            ],
        )
        try:
            pending = yield from _decided(commit, request, ctx, call)
        except KafkaError as error:
            codes |= dict.fromkeys(_keys(commit), _shown(error.code, call))
        else:
            decided.append((commit, pending))
        yield None
    for commit, pending in decided:
        try:
            response = yield from settled(pending)
        except KafkaError as error:
            codes |= dict.fromkeys(_keys(commit), _shown(error.code, call))
        else:
            codes |= _codes(response)
        yield None


def _decided(
    commit: OffsetCommitRequest, request: TxnOffsetCommitRequest, ctx: GroupContext, call: Call
) -> Handling[PendingResponse[OffsetCommitResponse]]:
    """Writes the offsets once the coordinator of the transaction has confirmed that the group is part of it. Raises
    KafkaError if nothing was written.
    """
    version, producer = (
        call.header.api_version,
        Producer(request.producer_id, request.producer_epoch),
    )
    verified_from = ctx.groups.unverified_from(request.group_id, producer)
    if verified_from is not None:
        partition = TopicPartition(CONSUMER_OFFSETS, ctx.groups.partition_of(request.group_id))
        code = yield from ctx.verifier.checking_offset_commit(
            request.transactional_id, producer, partition, version
        )
        if code:
            raise KafkaError(code)
        if version >= BUMPING_VERSION:
            verified_from = None  # as in `trimaran.broker.producing.verify`
    return ctx.groups.commit_offsets_in_transaction(commit, version, producer, verified_from)


def _shown(code: ErrorCode, call: Call) -> ErrorCode:
    code = response_code(code)
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and call.header.api_version < LOADING_VERSION:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def _keys(commit: OffsetCommitRequest) -> Iterator[TopicPartition]:
    for topic in commit.topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index)


def _codes(response: OffsetCommitResponse) -> Codes:
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }


def _responses(
    request: TxnOffsetCommitRequest, found: Iterable[_Found], codes: Codes, call: Call
) -> Handling[TxnOffsetCommitResponse]:
    responses = []
    for topic, (stored, refused) in zip(request.topics, found, strict=True):
        partitions = (
            _response(stored, partition.partition_index, codes, refused)
            for partition in topic.partitions
        )
        responses.append(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=(yield from call.room().encoding(partitions)),
            )
        )
        yield None
    return TxnOffsetCommitResponse(topics=responses)


def _response(
    stored: TopicImage | None, index: int, codes: Codes, refused: ErrorCode
) -> TxnOffsetCommitResponsePartition:
    code: int = refused
    if stored is not None:
        code = codes.get(TopicPartition(stored.name, index), refused)
    return TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
