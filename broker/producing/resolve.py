"""Stage 1 of Produce: the request becomes one list of partitions, with topics by name, beside the answer that they fill
in.
"""

from __future__ import annotations

from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.producing.partition_append import NO_OFFSET, PartitionAppend
from trimaran.wire.buffers.outgoing import records_view
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import KafkaError
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
    """The answer laid out as the request is, and what is to be appended, in its order; UNKNOWN_TOPIC_ID where an id
    names nothing.
    """
    appends: list[PartitionAppend] = []
    topics = []
    for topic in request.topic_data:
        name, error = _name_of(topic, partitions)
        answers = []
        for data in topic.partition_data:
            answer = _unanswered(data)
            answers.append(answer)
            one = PartitionAppend(name, data.index, records_view(data.records), answer)
            appends.append(one)
            if error is not None:
                one.fail(error)
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


def _name_of(topic: TopicProduceData, partitions: Partitions) -> tuple[str, KafkaError | None]:
    if topic.topic_id == NIL_UUID:
        return topic.name, None
    try:
        return partitions.topic_name(topic.topic_id), None
    except KafkaError as error:
        return "", error


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
