"""A topic: its map of partitions over brokers, offsets, sizes and configs. A partition: the history of its leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimaran.client.configs import config_rows
from trimaran.client.partitions import topics_of
from trimaran.client.topics import add_offsets
from trimaran.console.charts import TimeSpan, bands
from trimaran.console.page import NotHere, Page, PageRequest, table
from trimaran.errors.user_error import UserError
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.metadata.image import TOPIC_RESOURCE
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicIdPartition

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient


def view(question: PageRequest) -> dict[str, Any]:
    name = question.path["topic"]
    with question.cluster.client() as client:
        topic = described(client, name)
        rows = [
            {
                "partition": partition.partition_index,
                "leader": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replica_nodes),
                "isr": list(partition.isr_nodes),
            }
            for partition in topic.partitions
        ]
        shown = table(question, rows, columns=("partition", "leader"), sort="partition", search=())
        add_offsets(client, name, shown["rows"])
        configs = config_rows(client, TOPIC_RESOURCE, name)
    return {
        "topic": name,
        "topic_id": uuid_to_text(topic.topic_id),
        "internal": topic.is_internal,
        "brokers": sorted({broker for row in rows for broker in row["replicas"]}),
        "configs": configs,
        **shown,
    }


def described(client: BlockingClient, name: str) -> Any:
    """Returns the topic. Raises NotHere."""
    topic = single_item(topics_of(client, [name]), "topic")
    if topic.error_code:
        raise NotHere(
            f"there is no topic {name[:249]}",
            f"the brokers answer {ErrorCode.of(topic.error_code).name}",
            "the list of topics shows what there is, and what you may see",
        )
    return topic


def view_partition(question: PageRequest) -> dict[str, Any]:
    name, wanted = question.path["topic"], int(question.path["partition"])
    with question.cluster.client() as client:
        topic = described(client, name)
    found = next(
        (partition for partition in topic.partitions if partition.partition_index == wanted), None
    )
    if found is None:
        raise NotHere(
            f"topic {name} has no partition {wanted} (it has {len(topic.partitions)})",
            "partitions are counted from 0",
            "the page of the topic shows them",
        )
    return {
        "topic": name,
        "partition": wanted,
        "leader": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "replicas": list(found.replica_nodes),
        "isr": list(found.isr_nodes),
        **_history(question, TopicIdPartition(topic.topic_id, wanted)),
    }


def _history(question: PageRequest, partition: TopicIdPartition) -> dict[str, Any]:
    """Returns rows of the changes of the partition, the newest first, and bands of leaders and in-sync replicas."""
    nothing = {"rows": None, "leaders": None, "in_sync": None}
    if question.cluster.controllers is None:
        return nothing
    try:
        changes = question.cluster.log.changes_of(partition)
    except UserError:
        return nothing
    if not changes:
        return nothing
    ends = [each_change.timestamp_ms for each_change in changes[1:]] + [now_ms()]
    leaders, in_sync = [], []
    for change, end in zip(changes, ends, strict=True):
        who = f"broker {change.leader}" if change.leader >= 0 else "no broker"
        leaders.append(
            TimeSpan(who, f"leader from offset {change.offset}", change.timestamp_ms, end)
        )
        in_sync += [
            TimeSpan(f"broker {broker}", "in sync", change.timestamp_ms, end)
            for broker in change.isr
        ]
    return {
        "rows": [
            {
                "offset": each_change.offset,
                "timestamp_ms": each_change.timestamp_ms,
                "leader": each_change.leader,
                "isr": list(each_change.isr),
                "replicas": list(each_change.replicas),
            }
            for each_change in reversed(changes)
        ],
        "leaders": bands(leaders),
        "in_sync": bands(in_sync),
    }


PAGE = Page("/topics/{topic}", "Topic", "topic.html", view)
PAGE_OF_PARTITION = Page(
    "/topics/{topic}/{partition:int}", "Partition", "partition.html", view_partition
)
