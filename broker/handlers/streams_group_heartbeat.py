"""StreamsGroupHeartbeat (88): a member joins, stays in or leaves a streams group, and receives its tasks (KIP-1071).

Versions: 1 the request for a description of the topology (KIP-1331), and the status of missing client tags. Served from
`streams.version` 1 on; below that the response is UNSUPPORTED_VERSION, as in Kafka. The broker creates the internal
topics of the topology with the rights of the client: `KafkaApis.handleStreamsGroupHeartbeat`.
`trimaran.broker.groups.streams.heartbeat` decides on the member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from trimaran.broker.groups.streams import kind as streams
from trimaran.broker.groups.streams.configuring import InternalTopic, Status
from trimaran.broker.groups.streams.groups import StreamsHeartbeat
from trimaran.broker.groups.streams.heartbeat import StreamsHeartbeatAnswer
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.broker.handlers.served_kinds import check_served
from trimaran.broker.handlers.subscriptions import check_subscription
from trimaran.broker.metadata.internal_topics import INTERNAL_TOPICS
from trimaran.node.replicated.pending import settled
from trimaran.quorum.metadata.topic_names import why_illegal
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import INITIAL_ENDPOINT_EPOCH, GroupEpoch
from trimaran.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from trimaran.wire.messages.streams_group_describe import Subtopology as DescribedSubtopology
from trimaran.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling, Wait


def _fail(
    _request: StreamsGroupHeartbeatRequest, code: ErrorCode, message: str
) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        error_code=code,
        error_message=message or code.sentence,
        member_id="",
        member_epoch=GroupEpoch(0),
        heartbeat_interval_ms=0,
        task_offset_interval_ms=0,
        status=[],
        endpoint_information_epoch=INITIAL_ENDPOINT_EPOCH,
    )


@handles(
    StreamsGroupHeartbeatRequest,
    versions="0-1",
    access=(
        groups(Operation.READ, "group_id"),
        topics(Operation.DESCRIBE, "topology").in_handler(
            "a topic of the topology without permission refuses the request"
        ),
        topics(Operation.CREATE)
        .or_cluster(Operation.CREATE)
        .in_handler("missing internal topics are created with this permission"),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def streams_group_heartbeat(
    request: StreamsGroupHeartbeatRequest, ctx: GroupContext, call: Call
) -> Handling[StreamsGroupHeartbeatResponse]:
    if ctx.groups.runtime.is_loading:  # avoids a call, as in ConsumerGroupHeartbeat
        yield from loaded(ctx, (request.group_id,))
    check_served(ctx, streams.KIND)
    if request.topology is not None:
        yield from _check_topics(request.topology, ctx, call)
    pending = ctx.groups.member_heartbeat(
        streams.KIND,
        request.group_id,
        StreamsHeartbeat(
            request=request,
            version=call.header.api_version,
            client_id=call.header.client_id,
            client_host=f"/{call.connection.peer_text}",
            principal=str(call.connection.principal),
        ),
    )
    answer: StreamsHeartbeatAnswer = yield from settled(pending)
    if answer.missing:
        yield from _create_missing(answer, ctx, call)
    return answer.response


def _check_topics(topology: Topology, ctx: GroupContext, call: Call) -> Handling[None]:
    """Raises KafkaError STREAMS_INVALID_TOPOLOGY for topics of brokers and illegal names, TOPIC_AUTHORIZATION_FAILED
    for topics that the client may not describe.
    """
    names: dict[str, None] = {}
    for subtopology in topology.subtopologies:
        names.update(dict.fromkeys(topics_of(subtopology)))
        yield None
    if prohibited := [name for name in names if name in INTERNAL_TOPICS]:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited.",
        )
    illegal = []
    for name in names:
        if why_illegal(name) is not None:
            illegal.append(name)
        yield None
    if illegal:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Topic names {','.join(illegal)[:_NAMES_CHARACTERS_MAX]} are not valid topic names.",
        )
    if ctx.authorizer is not None:
        yield from check_subscription(names, ctx, call)


# The maximum length of the names in an error message.
_NAMES_CHARACTERS_MAX = 1_000


def topics_of(subtopology: Subtopology | DescribedSubtopology) -> Iterator[str]:
    """Yields the names of all topics of a subtopology, those that it writes to included."""
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name
    for topic in subtopology.state_changelog_topics:
        yield topic.name


# -- internal topics


def _create_missing(
    answer: StreamsHeartbeatAnswer, ctx: GroupContext, call: Call
) -> Handling[None]:
    """Creates the missing internal topics, or adds the reason to the status of the response. The topics are in the
    image when the next heartbeat arrives.
    """
    may_create = may_with_topic(ctx, call, Operation.CREATE, or_cluster=Operation.CREATE)
    denied = []
    for name in answer.missing:
        if not may_create(name):
            denied.append(name)
        yield None
    if denied:
        _add(answer.response, f"Unauthorized to CREATE on topics {_listed(denied)}.")
        return
    wanted = {}
    for name, topic in answer.missing.items():
        wanted[name] = _creatable(topic)
        yield None
    seconds = 2 * answer.response.heartbeat_interval_ms / 1000
    failed: Mapping[str, str] = yield Wait(
        partial(ctx.topic_creation.create_for_client, wanted, call, seconds)
    )
    if failed:
        reasons = [f"{name} ({reason})" for name, reason in failed.items()]
        _add(answer.response, f"Creation failed: {_listed(reasons)}.")


def _listed(texts: list[str]) -> str:
    return ", ".join(texts)[:_NAMES_CHARACTERS_MAX]


def _add(response: StreamsGroupHeartbeatResponse, detail: str) -> None:
    """Adds a text to the status of missing internal topics, which the response has."""
    for status in response.status or ():
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {detail}"


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()
        ],
    )
