"""The partitions of a topic for `produce` and `consume`, or an error about a mistyped name."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from trimaran.errors.refused import check_topic, no_topic
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import BrokerId
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

# A broker that creates topics responds "unknown" until the controller has committed the topic, which an election may
# delay.
AUTO_CREATE_SECONDS_MAX = 5.0
POLL_SECONDS = 0.05


def leaders_of(client: BlockingClient, topic: str, *, create: bool = False) -> list[BrokerId]:
    """Returns the leaders by partition, -1 for none. With `create` brokers may create the topic, if configured to do
    so.

    Raises:
        UserError: there is no such topic.
        KafkaError: the topic is refused for another reason.
    """
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=create
    )
    unready = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
    deadline = time.monotonic() + (AUTO_CREATE_SECONDS_MAX if create else 0.0)
    while True:
        found = single_item(client.call(None, request).topics, "topic")
        if found.error_code not in unready or time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        why = "and the brokers do not create it" if create else "reading does not create it"
        raise no_topic(topic, f"no broker knows it, {why}")
    check_topic(topic, found.error_code)
    leaders = {p.partition_index: p.leader_id for p in found.partitions}
    return [leaders[index] for index in sorted(leaders)]


def ensure_partitions_exist(topic: str, wanted: Iterable[int], count: int) -> None:
    """Raises UserError for a partition that the topic does not have."""
    for partition in wanted:
        if not 0 <= partition < count:
            raise UserError(
                f"topic {topic} has no partition {partition} (it has {count})",
                "partitions are numbered from 0",
                f"trimaran topics describe {topic} shows its partitions",
                exit_code=Exit.USAGE,
            )
