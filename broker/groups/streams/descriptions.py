"""The description of a topology that a member has sent (KIP-1331): its nodes, and how they are connected.

Source: Kafka's `StreamsGroupTopologyDescriptionConverter`, `-Manager`, which gives it to a plug-in class. Here the
group's coordinator keeps it in memory; bounds are ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from trimaran.broker.groups.streams.requests import refused
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

# The maximum size of a description: enough for 2,000 nodes.
DESCRIPTION_BYTES_MAX = 256 << 10
# The memory of a node without its texts.
NODE_BYTES = 256

# The time after which the coordinator requests a description again if it has not arrived.
DESCRIPTION_RETRY_MS = 30_000


class NodeType(IntEnum):
    """The types of nodes of the protocol."""

    SOURCE = 1
    PROCESSOR = 2
    SINK = 3


class DescriptionStatus(IntEnum):
    """The presence of a description in StreamsGroupDescribe; the values are those of the protocol."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    ERROR = 2
    AVAILABLE = 3


def check_description_request(request: StreamsGroupTopologyDescriptionUpdateRequest) -> None:
    """Raises KafkaError INVALID_REQUEST for an empty id."""
    if not request.member_id.strip():
        raise refused("MemberId can't be empty.")
    if not request.group_id.strip():
        raise refused("GroupId can't be empty.")


def normal_description(given: TopologyDescription) -> TopologyDescription:
    """Returns the description with the fields of each node's type, and each name once.

    Raises:
        KafkaError: INVALID_REQUEST for an unknown type of node, or a global store without a source and a processor;
            STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED if it is too large.
    """
    if description_bytes(given) > DESCRIPTION_BYTES_MAX:
        raise KafkaError(
            ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,
            f"The description has more than {DESCRIPTION_BYTES_MAX} bytes.",
        )
    return TopologyDescription(
        subtopologies=[
            TopologyDescriptionSubtopology(
                subtopology_id=one.subtopology_id, nodes=[_normal(node) for node in one.nodes]
            )
            for one in given.subtopologies
        ],
        global_stores=[_normal_store(store) for store in given.global_stores],
    )


def description_bytes(given: TopologyDescription) -> int:
    """Returns the approximate size in memory, in bytes."""
    size = 0
    for node in _nodes(given):
        texts = (*node.source_topics, *node.stores, *node.successors, node.sink_topic or "")
        size += NODE_BYTES + text_bytes(node.name) + sum(map(text_bytes, texts))
    return size + sum(NODE_BYTES + text_bytes(one.subtopology_id) for one in given.subtopologies)


def _nodes(given: TopologyDescription) -> Iterator[TopologyDescriptionNode]:
    for subtopology in given.subtopologies:
        yield from subtopology.nodes
    for store in given.global_stores:
        yield store.source
        yield store.processor


def _normal(node: TopologyDescriptionNode) -> TopologyDescriptionNode:
    kind = node.node_type
    if kind not in NodeType.__members__.values():
        raise refused(f"Unknown topology node type: {kind}")
    return TopologyDescriptionNode(
        name=node.name,
        node_type=kind,
        source_topics=_once(node.source_topics) if kind == NodeType.SOURCE else [],
        sink_topic=node.sink_topic if kind == NodeType.SINK else None,
        stores=_once(node.stores) if kind == NodeType.PROCESSOR else [],
        successors=_once(node.successors),
    )


def _normal_store(store: TopologyDescriptionGlobalStore) -> TopologyDescriptionGlobalStore:
    source, processor = _normal(store.source), _normal(store.processor)
    kinds = (source.node_type, processor.node_type)
    if kinds != (NodeType.SOURCE, NodeType.PROCESSOR):
        raise refused("Global store must be composed of a source and a processor node.")
    return TopologyDescriptionGlobalStore(source=source, processor=processor)


def _once(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))
