"""The topics for which offsets are committed, named by id or by name.

Source: `KafkaApis.handleOffsetCommitRequest` and `handleTxnOffsetCommitRequest` of Kafka 4.4 (KIP-848, KIP-1319).
"""

from __future__ import annotations

from collections.abc import Callable

from trimaran.quorum.metadata.image import TopicImage, TopicsImage
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.offset_commit import OffsetCommitRequestTopic
from trimaran.wire.messages.txn_offset_commit import TxnOffsetCommitRequestTopic


def find_topic(
    topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic,
    topics: TopicsImage,
    may_read: Callable[[str], bool],
    *,
    by_id: bool,
) -> tuple[TopicImage | None, ErrorCode]:
    """Returns the topic if it exists and may be read, and the code for partitions that cannot be committed."""
    if by_id:
        image = topics.by_id.get(topic.topic_id)
        if image is None:  # without a known name there is nothing to authorize
            return None, ErrorCode.UNKNOWN_TOPIC_ID
    else:
        image = topics.by_name.get(topic.name)
    # A client that may not read a topic must not learn whether it exists.
    if not may_read(topic.name if image is None else image.name):
        return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return image, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
