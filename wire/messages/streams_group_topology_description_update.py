"""StreamsGroupTopologyDescriptionUpdate (93): a Streams client describes the topology of its group (KIP-1331).

The type of a node is 1 (source), 2 (processor) or 3 (sink). Source topics belong to sources, the sink topic to sinks,
and the names of stores to processors. A sink without a topic chooses it for each record.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    int8,
    int16,
    int32,
    int32_topology_epoch,
    string,
)
from trimaran.wire.schema import Message, request, response


class TopologyDescriptionNode(Struct):
    name: string
    node_type: int8
    source_topics: list[string]
    sink_topic: string | None = None
    stores: list[string]
    successors: list[string]


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: string
    nodes: list[TopologyDescriptionNode]


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode


class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology]
    global_stores: list[TopologyDescriptionGlobalStore]


@request(key=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateRequest(Message):
    group_id: string
    member_id: string
    topology_epoch: int32_topology_epoch
    topology_description: TopologyDescription


@response(key=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
