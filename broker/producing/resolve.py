"""Stage 1 of Produce: the request becomes one list of partitions, with topics by name, beside the answer that they fill
in.
"""

from __future__ import annotations

from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.producing.partition_append import NO_OFFSET, PartitionAppend
from trimaran.wire.buffers.outgoing import records_view
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_NO_LEADER = LeaderIdAndEpoch()


def resolve(
    request: ProduceRequest, partitions: Partitions
) -> tuple[ProduceResponse, list[PartitionAppend]]:
    """Returns the response laid out as the request is, and the appends in the same order; an append with an unknown
    topic id has failed with UNKNOWN_TOPIC_ID.
    """
    appends: list[PartitionAppend] = []
    topics = []
    for topic in request.topic_data:
        name, held = partitions.named(topic.name, topic.topic_id)
        answers = []
        for data in topic.partition_data:
            answer = _unanswered(data)
            answers.append(answer)
            partition = held.get(data.index)
            key = partition.topic_partition if partition else TopicPartition(name or "", data.index)
            one = PartitionAppend(key, partition, records_view(data.records), answer)
            appends.append(one)
            if name is None:
                one.fail(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID))
        topics.append(_answer_of(topic, answers))
    return ProduceResponse(responses=topics), appends


def refusal(request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """The answer with the same error for every partition."""
    topics = []
    for topic in request.topic_data:
        answers = [_unanswered(data) for data in topic.partition_data]
        for answer in answers:
            answer.error_code, answer.error_message = error.code, error.message
        topics.append(_answer_of(topic, answers))
    return ProduceResponse(responses=topics)


def _unanswered(data: PartitionProduceData) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=data.index, base_offset=NO_OFFSET, current_leader=_NO_LEADER
    )


def _answer_of(
    topic: TopicProduceData, answers: list[PartitionProduceResponse]
) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name, topic_id=topic.topic_id, partition_responses=answers
    )
