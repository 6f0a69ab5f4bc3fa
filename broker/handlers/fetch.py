"""Fetch (1): serves the reads of consumers and the replication of followers.

A fetch that finds enough data is answered immediately. Otherwise it registers with each of its partitions, and waits
without a task of its own. Versions: up to 3 message sets of v0 and v1 (`broker/fetching/old_formats.py`), up to 2 no
message larger than the limit, 7 sessions (KIP-227), 9 the caller's leader epoch, 12 divergence (KIP-595), 13 topic ids,
15 the follower's broker epoch (KIP-903), 16 the current leader (KIP-951), 18 the follower's high watermark, which is
ignored. From 11 on, if `replica.selector.class` is set, followers serve consumers, and leaders redirect consumers to
them (KIP-392).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import trio

from trimaran.broker.fetching.fetch import (
    CONSUMER,
    Fetch,
    FetchReader,
    FetchTerms,
)
from trimaran.broker.fetching.old_formats import (
    FIRST_FETCH_VERSION_OF_BATCHES,
    down_converted,
    stored_bytes,
)
from trimaran.broker.fetching.replica_selection import ClientMetadata
from trimaran.broker.fetching.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    has_long_names,
)
from trimaran.broker.fetching.slots import Slot
from trimaran.broker.handlers.context import DataContext
from trimaran.broker.metadata.endpoints import leader_endpoints
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.serving.authorization import may
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import (
    INITIAL_ACL_EPOCH,
    NO_BROKER_EPOCH,
    AclEpoch,
    BrokerEpoch,
    BrokerId,
    Offset,
)
from trimaran.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
)
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.memory.pools import holding
from trimaran.wire.transport.requests.access import cluster, topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling, Wait
from trimaran.wire.transport.scheduling.events import AutoResetEvent

# Keyed by topic name, topic id and partition, as in the request.
Slots = dict[tuple[str, bytes, int], Slot]

# A client may request an unlimited wait; its fetch is answered after this time (Kafka does not limit the wait).
MAX_WAIT_SECONDS = 300.0
VERSION_NAMING_LEADERS = 16
# Module constants, because `Operation.READ` costs as much as the whole authorization check.
READ, TOPIC = Operation.READ, ResourceType.TOPIC
VERSION_OF_WHOLE_MESSAGES = 3  # KIP-74: the first batch is returned even if it exceeds the limit
VERSION_OF_STORAGE_ERRORS = 6
VERSION_READING_FOLLOWERS = 11
VERSION_KNOWING_OFFSET_NOT_AVAILABLE = 11  # older clients treat this code as fatal


@handles(
    FetchRequest,
    versions="0-18",
    access=(
        topics(Operation.READ, "topics.topic").in_handler(
            "also topics of the session and by id; checked again after each wait"
        ),
        cluster(Operation.CLUSTER_ACTION).in_handler("of followers"),
    ),
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def fetch(request: FetchRequest, ctx: DataContext, call: Call) -> Handling[FetchResponse]:
    version, epoch = call.header.api_version, request.session_epoch
    terms = _terms(request, ctx, call)
    if request.session_id != NO_SESSION and epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        ctx.fetch_sessions.close(request.session_id)
    if epoch == FINAL_EPOCH:  # versions without sessions also have this epoch
        response = yield from _without_session(request, ctx, call, terms)
        if version < FIRST_FETCH_VERSION_OF_BATCHES:
            yield Wait(partial(_convert, response, request, call))
            _hide_storage_errors(response)
        return response
    if epoch == INITIAL_EPOCH:
        session = _open_session(request, ctx, call, terms) if request.topics else None
        if session is None:
            return (yield from _without_session(request, ctx, call, terms))
        return (yield from _in_session(request, ctx, call, session, terms))
    try:
        session = ctx.fetch_sessions.find(request, trio.current_time())
    except KafkaError as error:
        return FetchResponse(error_code=error.code, responses=[])
    return (yield from _in_session(request, ctx, call, session, terms))


async def _convert(response: FetchResponse, request: FetchRequest, call: Call) -> None:
    version, connection = call.header.api_version, call.connection
    async with holding(connection.memory.responses, stored_bytes(response)):
        await down_converted(response, request, version, connection.id)


def _hide_storage_errors(response: FetchResponse) -> None:
    """Replaces the code for storage errors: clients of these versions do not know it, and would not look for another
    leader.
    """
    for topic in response.responses:
        for data in topic.partitions:
            if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER


def _terms(request: FetchRequest, ctx: DataContext, call: Call) -> FetchTerms:
    version = call.header.api_version
    state = request.replica_state
    replica_id, epoch = BrokerId(state.replica_id), BrokerEpoch(state.replica_epoch)
    if replica_id < 0:
        replica_id, epoch = BrokerId(request.replica_id), NO_BROKER_EPOCH
    most = min(request.max_bytes, ctx.limits.fetch_bytes_max)
    refused = ErrorCode.NONE
    if replica_id >= 0:
        refused = _refusal(replica_id, epoch, ctx, call)
    elif ctx.quotas.fetch.is_set:
        most = ctx.quotas.fetch_bytes_max(call, most)
    if replica_id >= 0 and not refused:
        call.is_exempt = True  # replication is not throttled by client quotas
    # True only if `replica.selector.class` is set.
    reads_followers = (
        replica_id < 0 and ctx.replica_selector is not None and version >= VERSION_READING_FOLLOWERS
    )
    return FetchTerms(
        min_bytes=request.min_bytes,
        max_bytes=max(0, most),
        isolation_level=request.isolation_level,
        replica_id=max(replica_id, CONSUMER),
        replica_epoch=epoch,
        refused=refused,
        names_leaders=version >= VERSION_NAMING_LEADERS,
        whole_messages=version >= VERSION_OF_WHOLE_MESSAGES,
        committed_unknown=ErrorCode.OFFSET_NOT_AVAILABLE
        if version >= VERSION_KNOWING_OFFSET_NOT_AVAILABLE
        else ErrorCode.NOT_LEADER_OR_FOLLOWER,
        reads_followers=reads_followers,
        prefer=_preference(request, ctx, call) if reads_followers else None,
        may_read=None if replica_id >= 0 or ctx.authorizer is None else _reading(ctx, call),
        throttle=ctx.throttles.leader if replica_id >= 0 and ctx.throttles.leader.is_set else None,
    )


def _reading(ctx: DataContext, call: Call) -> Callable[[str], bool]:
    """Returns a check that reads the current ACLs: permissions may change during a fetch."""
    return lambda topic: may(ctx, call, Action(READ, TOPIC, topic))


def _acl_epoch(ctx: DataContext) -> AclEpoch:
    return INITIAL_ACL_EPOCH if ctx.authorizer is None else ctx.authorizer.epoch


def _preference(
    request: FetchRequest, ctx: DataContext, call: Call
) -> Callable[[PartitionLeader, Offset], BrokerId]:
    """Returns a function that selects the replica from which this consumer should read a partition."""
    selector = ctx.replica_selector
    assert selector is not None
    client = ClientMetadata(request.rack_id, call.connection.listener)
    cluster = ctx.metadata.image.cluster
    return lambda leader, offset: selector(leader, offset, client, cluster, ctx.partitions.node_id)


def _refusal(
    replica_id: BrokerId, broker_epoch: BrokerEpoch, ctx: DataContext, call: Call
) -> ErrorCode:
    """Returns the reason to refuse a follower's fetch: it changes the ISR and the watermark, so it must come from that
    broker (CVE-2018-1288).
    """
    if not may(ctx, call, Action(Operation.CLUSTER_ACTION)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    broker = ctx.metadata.image.cluster.brokers.get(replica_id)
    if broker is None or replica_id == ctx.partitions.node_id or broker_epoch < 0:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if broker_epoch < broker.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if broker_epoch > broker.epoch:
        # Retriable: the registration has not reached this broker yet.
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE


def _open_session(
    request: FetchRequest, ctx: DataContext, call: Call, terms: FetchTerms
) -> FetchSession | None:
    sessions = ctx.fetch_sessions
    if has_long_names(request.topics):
        return None
    session = sessions.open(
        privileged=terms.replica_id >= 0,
        by_id=request.topics[0].topic_id != NIL_UUID,
        size=sum(len(topic.partitions) for topic in request.topics),
        now=trio.current_time(),
    )
    if session is not None:
        session.acl_epoch = _acl_epoch(ctx)
        close = partial(sessions.close, session.id)
        session.on_close = partial(call.connection.forget_on_close, close)
        call.connection.on_close(close)
    return session


def _without_session(
    request: FetchRequest, ctx: DataContext, call: Call, terms: FetchTerms
) -> Handling[FetchResponse]:
    """Serves a fetch without a session, which names every partition and is answered for every partition."""
    reader, slots = FetchReader(), Slots()
    fetch = Fetch(reader, ctx.partitions, terms)
    if terms.replica_id >= 0:
        reader.tick(trio.current_time())
    try:
        yield from _add_slots(request, reader, terms, slots, ctx)
        is_enough = yield from fetch.poll()
        if not is_enough and request.max_wait_ms > 0 and slots:
            yield from _wait(fetch, reader, slots.values(), ctx, request.max_wait_ms)
        if _is_throttled(fetch, terms, ctx, call):
            return _throttled(call, NO_SESSION)
        responses = yield from fetch.responses(slots.values())
    finally:
        # A reader refers to its unread slots, and slots refer to their reader: once frozen (`FROZEN_ELEMENTS_MIN`),
        # such a cycle would never be freed.
        reader.changed.clear()
    return _response(responses, ctx, call, NO_SESSION)


def _add_slots(
    request: FetchRequest, reader: FetchReader, terms: FetchTerms, slots: Slots, ctx: DataContext
) -> Handling[None]:
    """Creates one slot per partition; if a partition is named twice, the last one counts, as in Kafka."""
    for topic in request.topics:
        _, held = ctx.partitions.named(topic.topic, topic.topic_id)
        for wanted in topic.partitions:
            if slots:
                yield None
            known = held.get(wanted.partition)
            slot = Slot(reader, topic, wanted, known, upto_end=terms.replica_id >= 0)
            key = topic.topic, topic.topic_id, wanted.partition
            if (replaced := slots.get(key)) is not None:
                del reader.changed[replaced]
            slots[key] = slot
            reader.changed[slot] = None


def _in_session(
    request: FetchRequest, ctx: DataContext, call: Call, session: FetchSession, terms: FetchTerms
) -> Handling[FetchResponse]:
    """Serves a fetch in a session: request and response have changes only, except for the first ones, which have all
    partitions.
    """
    reader, is_first = session.reader, request.session_epoch == INITIAL_EPOCH
    if terms.replica_id >= 0:
        reader.tick(trio.current_time())
    fetch = Fetch(reader, ctx.partitions, terms)
    session.begin(fetch)
    if not is_first:
        session.note_acl_epoch(_acl_epoch(ctx))
    yield from session.update(request.topics, () if is_first else request.forgotten_topics_data)
    is_enough = yield from fetch.poll()
    if not is_enough and request.max_wait_ms > 0:
        yield from _wait(fetch, reader, (), ctx, request.max_wait_ms)
    responses: list[FetchableTopicResponse] = []
    if not fetch.released:
        if _is_throttled(fetch, terms, ctx, call):
            if is_first:
                ctx.fetch_sessions.close(session.id)
                return _throttled(call, NO_SESSION)
            fetch.release()
            session.finished(fetch)
            return _throttled(call, session.id)
        found = fetch.responses(session.slots.values()) if is_first else fetch.changes()
        responses = yield from found
        if not fetch.released:
            fetch.keep_unfinished()
    session.finished(fetch)
    return _response(responses, ctx, call, session.id)


def _wait(
    fetch: Fetch,
    reader: FetchReader,
    passing: Collection[Slot],
    ctx: DataContext,
    max_wait_ms: int,
) -> Handling[None]:
    """Waits until enough data can be read, at most for `max_wait_ms`; attaches `passing` slots only during the wait."""
    acl_epoch = _acl_epoch(ctx)
    deadline = trio.current_time() + min(max_wait_ms / 1000, MAX_WAIT_SECONDS)
    changed = AutoResetEvent()
    wake = changed.set
    try:
        if not reader.in_session:
            yield from attach_changed(passing, reader, ctx)
        reader.wake = wake
        is_up = False
        while not (fetch.may_have_enough and (yield from fetch.poll())) and not is_up:
            is_up = yield Wait(partial(_is_up, changed, deadline))
        if is_up:
            yield from fetch.poll()  # watermarks that moved do not wake a follower
        if _acl_epoch(ctx) != acl_epoch:
            yield from fetch.poll_again()
    finally:
        if reader.wake == wake:
            reader.wake = None
        if not reader.in_session:
            for slot in passing:
                slot.detach()


async def _is_up(changed: AutoResetEvent, deadline: float) -> bool:
    """Waits for a change. Returns True if the time is up first."""
    return not await changed.wait(deadline)


def attach_changed(
    slots: Collection[Slot], reader: FetchReader, ctx: DataContext
) -> Handling[None]:
    """Attaches slots that were read before, and marks those whose partition has changed since."""
    for slot in slots:
        if len(slots) > 1:
            yield None
        try:
            partition = slot.partition(ctx.partitions)
            leader = partition.leader_or_none
            if leader is None and partition.leads:
                leader = partition.open_leader()
        except KafkaError:
            reader.changed[slot] = None
            continue
        slot.attach(partition)
        if leader is None:  # a follower, or the epoch has ended: the next read detects which
            reader.changed[slot] = None
            continue
        upto = leader.log.log_end_offset if slot.upto_end else leader.high_watermark.offset
        if upto != slot.seen_upto:
            reader.changed[slot] = None


def _is_throttled(fetch: Fetch, terms: FetchTerms, ctx: DataContext, call: Call) -> bool:
    is_metered = ctx.quotas.fetch.is_set and terms.replica_id < 0
    return is_metered and ctx.quotas.fetched(call, fetch.size) > 0


def _throttled(call: Call, session_id: int) -> FetchResponse:
    """Returns an empty response to a client over its quota, which then repeats the fetch (KIP-219)."""
    return FetchResponse(throttle_time_ms=call.throttle_ms, session_id=session_id, responses=[])


def _response(
    responses: list[FetchableTopicResponse], ctx: DataContext, call: Call, session_id: int
) -> FetchResponse:
    response = FetchResponse(session_id=session_id, responses=responses)
    if call.header.api_version < VERSION_OF_STORAGE_ERRORS:
        _hide_storage_errors(response)
    if call.header.api_version >= VERSION_NAMING_LEADERS:
        named = (data.current_leader for topic in responses for data in topic.partitions)
        response.node_endpoints = leader_endpoints(
            NodeEndpoint, named, ctx.metadata.image.cluster, call.connection.listener
        )
    return response
