"""ShareAcknowledge (79): a member of a share group acknowledges records, or extends their locks (KIP-932).

Versions: 2 renewals (KIP-1222). Served from `share.version` 1 on. Source: `KafkaApis.handleShareAcknowledgeRequest`.
"""

from __future__ import annotations

from trimaran.broker.fetching.sessions import FINAL_EPOCH
from trimaran.broker.handlers.context import SharingContext
from trimaran.broker.handlers.share_acknowledgements import Acknowledger, Outcomes
from trimaran.broker.metadata.endpoints import leader_endpoints
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_BROKER, NO_LEADER_EPOCH, TopicIdPartition, TopicPartition
from trimaran.wire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def _fail(
    _request: ShareAcknowledgeRequest, code: ErrorCode, message: str
) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        error_code=code, error_message=message or code.sentence, responses=[], node_endpoints=[]
    )


@handles(
    ShareAcknowledgeRequest,
    versions="1-2",
    access=(
        groups(Operation.READ, "group_id"),
        topics(Operation.READ).in_handler("topics are named by id"),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def share_acknowledge(
    request: ShareAcknowledgeRequest, ctx: SharingContext, call: Call
) -> Handling[ShareAcknowledgeResponse]:
    acknowledger = Acknowledger.of(request, ctx, call)
    group_id, epoch = acknowledger.group_id, request.share_session_epoch
    session = ctx.sharing.sessions.acknowledge(group_id, acknowledger.member_id, epoch)
    yield from acknowledger.decide(request.topics)
    if epoch == FINAL_EPOCH:
        yield from ctx.sharing.end_session(session)
    outcomes = yield from acknowledger.settled()
    return (yield from _response(outcomes, group_id, ctx, call))


def _response(
    outcomes: Outcomes, group_id: str, ctx: SharingContext, call: Call
) -> Handling[ShareAcknowledgeResponse]:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    leaders = []
    for key, error in outcomes.items():
        data = PartitionData(
            partition_index=key.partition,
            current_leader=LeaderIdAndEpoch(leader_id=NO_BROKER, leader_epoch=NO_LEADER_EPOCH),
        )
        if error is not None:
            data.error_code, data.error_message = error.code, error.message
            if error.code in ELSEWHERE:
                data.current_leader = leader_of(key, ctx)
                leaders.append(data.current_leader)
        topic = topics.get(key.topic_id)
        if topic is None:
            topic = ShareAcknowledgeTopicResponse(topic_id=key.topic_id, partitions=[])
            topics[key.topic_id] = topic
        topic.partitions.append(data)
        yield None
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=ctx.sharing.settings_of(group_id).lock_ms,
        responses=list(topics.values()),
        node_endpoints=leader_endpoints(
            NodeEndpoint, leaders, ctx.metadata.image.cluster, call.connection.listener
        ),
    )


def leader_of(key: TopicIdPartition, ctx: SharingContext) -> LeaderIdAndEpoch:
    """Returns the current leader of a partition whose leader is not this broker any more."""
    topic = ctx.metadata.image.topics.by_id.get(key.topic_id)
    state = None
    if topic is not None:
        state = ctx.partitions.state_of(TopicPartition(topic.name, key.partition))
    if state is None:
        return LeaderIdAndEpoch(leader_id=NO_BROKER, leader_epoch=NO_LEADER_EPOCH)
    return LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
