"""TxnOffsetCommit (28): stores a group's offsets in a producer's transaction; they count when it is committed.

Versions: 2 leader epochs, 3 the member and its generation (KIP-447), 4 TRANSACTION_ABORTABLE, 5 takes the group into
the transaction as well (KIP-890). Source: `KafkaApis.handleTxnOffsetCommitRequest`,
`GroupCoordinatorService.commitTransactionalOffsets`.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimaran.broker.coordination.writing import response_code
from trimaran.broker.handlers.context import Context
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS
from trimaran.node.replicated.state_machine import Producer
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
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics, transactional_ids
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.slices import COMMITS_PER_SLICE, Slices

# Older clients take COORDINATOR_LOAD_IN_PROGRESS for fatal.
LOADING_VERSION = 2
# From here on every transaction has an epoch of its own.
BUMPING_VERSION = 5

Codes = Mapping[TopicPartition, int]


def _fail(
    request: TxnOffsetCommitRequest, code: ErrorCode, _message: str
) -> TxnOffsetCommitResponse:
    return _respond(request, {}, code)


@handles(
    TxnOffsetCommitRequest,
    versions="0-5",
    access=(
        transactional_ids(Operation.WRITE, "transactional_id"),
        groups(Operation.READ, "group_id"),
        topics(Operation.READ, "topics.name", "topics"),
    ),
    on_error=_fail,
    slices=Slices("topics.partitions", "topics.partitions", COMMITS_PER_SLICE),
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
async def txn_offset_commit(
    request: TxnOffsetCommitRequest, ctx: Context, call: Call
) -> TxnOffsetCommitResponse:
    version = call.header.api_version
    await ctx.groups.wait_loaded((request.group_id,))
    admitted = [
        topic for topic in (_admit(one, ctx) for one in request.topics) if topic is not None
    ]
    codes: Codes = {}
    if admitted:
        try:
            codes = await _commit(request, admitted, ctx, version)
        except KafkaError as error:
            code = response_code(error.code)
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_VERSION:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            codes = {
                TopicPartition(topic.name, one.partition_index): code
                for topic in admitted
                for one in topic.partitions
            }
    return _respond(request, codes, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _admit(topic: TxnOffsetCommitRequestTopic, ctx: Context) -> OffsetCommitRequestTopic | None:
    """What exists of a topic."""
    found = ctx.metadata.image.topics.by_name.get(topic.name)
    if found is None:
        return None
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=one.partition_index,
            committed_offset=one.committed_offset,
            committed_leader_epoch=one.committed_leader_epoch,
            committed_metadata=one.committed_metadata,
        )
        for one in topic.partitions
        if one.partition_index in found.partitions
    ]
    return OffsetCommitRequestTopic(name=topic.name, topic_id=found.id, partitions=partitions)


async def _commit(
    request: TxnOffsetCommitRequest,
    admitted: list[OffsetCommitRequestTopic],
    ctx: Context,
    version: int,
) -> Codes:
    producer = Producer(request.producer_id, request.producer_epoch)
    verified_from = ctx.groups.unverified_from(request.group_id, producer)
    if verified_from is not None:
        partition = TopicPartition(CONSUMER_OFFSETS, ctx.groups.partition_of(request.group_id))
        code = await ctx.verifier.check_offset_commit(
            request.transactional_id, producer, partition, version
        )
        if code:
            raise KafkaError(code)
        if version >= BUMPING_VERSION:
            verified_from = None  # as in `trimaran.broker.producing.verify`
    commit = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=admitted,
    )
    pending = ctx.groups.commit_offsets_in_transaction(commit, producer, verified_from)
    return _codes(await pending.wait())


def _codes(response: OffsetCommitResponse) -> Codes:
    return {
        TopicPartition(topic.name, one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }


def _respond(
    request: TxnOffsetCommitRequest, codes: Codes, otherwise: ErrorCode
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=codes.get(
                            TopicPartition(topic.name, one.partition_index), otherwise
                        ),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
