"""Fetch (1): consumers read, followers replicate.

A fetch that finds enough answers at once. One that must wait is deferred without a task: it leaves an interest with
each of its partitions and its connection's writer waits when its turn comes.
Versions: up to 3 message sets of v0 and v1 (`broker/fetching/old_formats.py`), up to 2 no message larger than asked
for, 7 sessions (KIP-227), 9 the caller's leader epoch, 12 divergence (KIP-595), 13 topic ids, 15 the follower's broker
epoch (KIP-903), 16 who leads now (KIP-951), 18 the follower's high watermark, which we do not need. From 11 on, where
`replica.selector.class` is set, followers serve consumers and leaders send them there (KIP-392).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import TypeAlias

import trio

from trimaran.broker.fetching.fetch import (
    ANSWERED_PER_TURN,
    CONSUMER,
    READ_COMMITTED,
    SLOTS_PER_TURN,
    Fetch,
    FetchReader,
    FetchTerms,
)
from trimaran.broker.fetching.old_formats import (
    FIRST_FETCH_VERSION_OF_BATCHES,
    down_converted,
    stored_bytes,
)
from trimaran.broker.fetching.replica_selection import Client
from trimaran.broker.fetching.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    has_long_names,
)
from trimaran.broker.fetching.slots import Slot, find_held, keys_of
from trimaran.broker.handlers.context import DataContext
from trimaran.broker.metadata.endpoints import leader_endpoints
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.opening import (
    not_begun,
    open_leaders,
    takes_one_turn,
    unopened_of_many,
)
from trimaran.broker.partitions.partition import Partition
from trimaran.node.runtime.steps import Steps, at_once
from trimaran.node.runtime.turns import in_turns, with_checkpoints
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.serving.authorization import may
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition, TopicPartition
from trimaran.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
)
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.memory.pools import holding
from trimaran.wire.transport.requests.access import cluster, topics
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.compute_thread import run_apart
from trimaran.wire.transport.scheduling.events import AutoResetEvent

Answer: TypeAlias = FetchResponse | DeferredResponse[FetchResponse]

# A client may ask to wait for ever; the connection is looked at again after this (Kafka has no bound).
MAX_WAIT_SECONDS = 300.0
# Partitions of a request noted between two checkpoints: 3 ms of work.
NOTED_PER_TURN = 1000
VERSION_NAMING_LEADERS = 16
# To find a member by its class takes as long as the verdict.
READ, TOPIC = Operation.READ, ResourceType.TOPIC
VERSION_OF_WHOLE_MESSAGES = 3  # KIP-74: the first batch comes even if it is larger than allowed
VERSION_OF_STORAGE_ERRORS = 6
VERSION_READING_FOLLOWERS = 11
VERSION_KNOWING_OFFSET_NOT_AVAILABLE = 11  # clients of older versions take it for a fatal error


@handles(
    FetchRequest,
    versions="0-18",
    access=(
        topics(Operation.READ, "topics.topic").in_handler(
            "of the session, too, and topics by id; again whenever a wait ends"
        ),
        cluster(Operation.CLUSTER_ACTION).in_handler("of followers"),
    ),
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def fetch(request: FetchRequest, ctx: DataContext, call: Call) -> Answer:
    in_session = request.session_epoch != FINAL_EPOCH
    follower_id = _replica(request)[0] if in_session else CONSUMER
    if call.heavy:
        open_all = partial(_open_all, request, ctx, follower_id)
        return _opened_first(open_all, partial(_fetch, request, ctx, call, repeat(None)))
    found = find_held(request, ctx.partitions)
    needs_producers = request.isolation_level == READ_COMMITTED
    waited_for = not_begun(found, for_writing=needs_producers, follower_id=follower_id)
    if not waited_for or takes_one_turn(waited_for):
        return _fetch(request, ctx, call, found)
    answer = partial(_fetch, request, ctx, call, found)
    return _opened_first(partial(open_leaders, waited_for), answer)


def _opened_first(
    open_logs: Callable[[], Awaitable[None]], answer: Callable[[], Answer]
) -> DeferredResponse[FetchResponse]:
    async def finish() -> FetchResponse:
        await open_logs()
        response = answer()
        return await response.finish() if isinstance(response, DeferredResponse) else response

    return DeferredResponse(finish)


async def _open_all(request: FetchRequest, ctx: DataContext, follower_id: int) -> None:
    keys = await run_apart(keys_of, request)
    needs_producers = request.isolation_level == READ_COMMITTED
    found = await unopened_of_many(
        ctx.partitions, keys, for_writing=needs_producers, follower_id=follower_id
    )
    await open_leaders(found)


def _fetch(
    request: FetchRequest, ctx: DataContext, call: Call, found: Iterable[Partition | None]
) -> Answer:
    version = call.header.api_version
    terms = _terms(request, ctx, call)
    if version < FIRST_FETCH_VERSION_OF_BATCHES:
        return _down_converted(_full(request, ctx, call, terms, found), request, call)
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        return _full(request, ctx, call, terms, found)
    try:
        session = ctx.fetch_sessions.find(request, trio.current_time())
    except KafkaError as error:
        return FetchResponse(error_code=error.code, responses=[])
    return _incremental(request, ctx, call, session, terms)


def _down_converted(
    answer: Answer, request: FetchRequest, call: Call
) -> DeferredResponse[FetchResponse]:
    version = call.header.api_version

    async def finish() -> FetchResponse:
        response = await answer.finish() if isinstance(answer, DeferredResponse) else answer
        async with holding(call.connection.memory.answers, stored_bytes(response)):
            await down_converted(response, request, version, call.connection.id)
        _hide_storage_errors(response)
        return response

    return DeferredResponse(finish)


def _hide_storage_errors(response: FetchResponse) -> None:
    """Clients of that time do not know the code, and would not look for another leader."""
    for topic in response.responses:
        for data in topic.partitions:
            if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER


def _terms(request: FetchRequest, ctx: DataContext, call: Call) -> FetchTerms:
    version = call.header.api_version
    replica_id, epoch = _replica(request)
    most = min(request.max_bytes, ctx.limits.fetch_bytes_max)
    refused = ErrorCode.NONE
    if replica_id >= 0:
        refused = _refusal(replica_id, epoch, ctx, call)
    elif ctx.quotas.fetch.is_set:
        most = ctx.quotas.fetch_bytes_max(call, most)
    if replica_id >= 0 and not refused:
        call.is_exempt = True  # replication is not to wait for what clients may have
    # Only where it was asked for: `replica.selector.class`.
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
    """Who may read a topic now may not later in the same fetch."""
    return lambda topic: may(ctx, call, Action(READ, TOPIC, topic))


def _acl_epoch(ctx: DataContext) -> int:
    return 0 if ctx.authorizer is None else ctx.authorizer.epoch


def _preference(
    request: FetchRequest, ctx: DataContext, call: Call
) -> Callable[[PartitionLeader, int], int]:
    """Whom this consumer should read from, asked of each partition that is led here."""
    selector = ctx.replica_selector
    assert selector is not None
    client = Client(request.rack_id, call.connection.listener)
    cluster = ctx.metadata.image.cluster
    return lambda leader, offset: selector(leader, offset, client, cluster, ctx.partitions.node_id)


def _replica(request: FetchRequest) -> tuple[int, int]:
    """The id and the broker epoch of a follower; negative for consumers."""
    state = request.replica_state
    if state.replica_id >= 0:
        return state.replica_id, state.replica_epoch
    return request.replica_id, -1


def _refusal(replica_id: int, broker_epoch: int, ctx: DataContext, call: Call) -> ErrorCode:
    """Who fetches as a follower moves the ISR and the watermark, so it must be that broker (CVE-2018-1288)."""
    if not may(ctx, call, Action(Operation.CLUSTER_ACTION)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    broker = ctx.metadata.image.cluster.brokers.get(replica_id)
    if broker is None or replica_id == ctx.partitions.node_id or broker_epoch < 0:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if broker_epoch < broker.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if broker_epoch > broker.epoch:
        # Retriable: the registration has not arrived here yet.
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE


def _full(
    request: FetchRequest,
    ctx: DataContext,
    call: Call,
    terms: FetchTerms,
    found: Iterable[Partition | None],
) -> Answer:
    """Every partition is named, and answered; perhaps the first of a session."""
    if request.session_id != NO_SESSION:
        ctx.fetch_sessions.close(request.session_id)
    session = None
    if request.session_epoch == INITIAL_EPOCH and request.topics:
        session = _open_session(request, ctx, call, terms)
    slots: dict[TopicPartition | TopicIdPartition, Slot]
    if session is None:
        reader, slots = FetchReader(), {}
        prepare = _add_slots(request, reader, terms, slots, found)
    else:
        reader, slots = session.reader, session.slots
        prepare = session.update(request.topics, ())
    reader.clock.tick(trio.current_time())
    fetch = Fetch(reader, ctx.partitions, terms)

    def answer() -> Steps[FetchResponse]:
        if _is_throttled(fetch, terms, ctx, call):
            if session is not None:
                ctx.fetch_sessions.close(session.id)
            return _throttled(call, NO_SESSION)
        responses = yield from fetch.answer_all(list(slots.values()))
        if session is not None:
            fetch.keep_unfinished()
            session.finished(fetch)
        return _response(responses, ctx, call, NO_SESSION if session is None else session.id)

    def proceed() -> Answer:
        if fetch.look() or request.max_wait_ms <= 0 or not slots:
            return _answered(fetch, answer)
        return _defer(fetch, reader, slots.values(), ctx, request.max_wait_ms, answer)

    if session is not None:
        session.begin(fetch)
        return _prepared(prepare, call, fetch, reader, proceed)
    return _forgetting(_prepared(prepare, call, fetch, reader, proceed), reader)


def _forgetting(response: Answer, reader: FetchReader) -> Answer:
    """Returns the same response, whose end clears `reader.changed`. The reader refers to slots that it has not looked
    at, and slots refer to their reader: a frozen cycle (`FROZEN_ELEMENTS_MIN`) would never be freed.
    """
    if not isinstance(response, DeferredResponse):
        return response

    async def finish() -> FetchResponse:
        try:
            return await response.finish()
        finally:
            reader.changed.clear()

    return replace(response, finish=finish)


def _prepared(
    prepare: Steps[None],
    call: Call,
    fetch: Fetch,
    reader: FetchReader,
    proceed: Callable[[], Answer],
) -> Answer:
    """What `proceed` gives when the partitions asked for are noted: those of a large request some at a time. Where
    there are many to look at, looks at them before, a few at a time.
    """
    if not call.heavy:
        for _ in prepare:
            pass
        if len(reader.changed) <= SLOTS_PER_TURN:
            return proceed()

    async def finish() -> FetchResponse:
        await in_turns(prepare, NOTED_PER_TURN)
        if len(reader.changed) > SLOTS_PER_TURN:
            await fetch.look_ahead()
        response = proceed()
        return await response.finish() if isinstance(response, DeferredResponse) else response

    return DeferredResponse(finish)


def _answered(fetch: Fetch, answer: Callable[[], Steps[FetchResponse]]) -> Answer:
    return (
        at_once(answer())
        if fetch.is_small
        else DeferredResponse(lambda: with_checkpoints(answer(), ANSWERED_PER_TURN))
    )


def _open_session(
    request: FetchRequest, ctx: DataContext, call: Call, terms: FetchTerms
) -> FetchSession | None:
    sessions = ctx.fetch_sessions
    if has_long_names(request.topics):
        return None
    session = sessions.open(
        privileged=terms.is_follower,
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


def _add_slots(
    request: FetchRequest,
    reader: FetchReader,
    terms: FetchTerms,
    slots: dict[TopicPartition | TopicIdPartition, Slot],
    found: Iterable[Partition | None],
) -> Steps[None]:
    """One slot a partition; of one named twice the last counts, as in Kafka."""
    known = iter(found)
    for topic in request.topics:
        for wanted in topic.partitions:
            slot = Slot(reader, topic, wanted, next(known), upto_end=terms.is_follower)
            if (replaced := slots.get(slot.key)) is not None:
                del reader.changed[replaced]
            slots[slot.key] = slot
            reader.changed[slot] = None
            yield 1


def _incremental(
    request: FetchRequest, ctx: DataContext, call: Call, session: FetchSession, terms: FetchTerms
) -> Answer:
    """Only changes are named and answered."""
    reader = session.reader
    reader.clock.tick(trio.current_time())
    fetch = Fetch(reader, ctx.partitions, terms)

    def answer() -> Steps[FetchResponse]:
        if not fetch.released and _is_throttled(fetch, terms, ctx, call):
            fetch.release()
            session.finished(fetch)
            return _throttled(call, session.id)
        responses = [] if fetch.released else (yield from fetch.answer_changes())
        if not fetch.released:
            fetch.keep_unfinished()
        session.finished(fetch)
        return _response(responses, ctx, call, session.id)

    def proceed() -> Answer:
        if fetch.look() or request.max_wait_ms <= 0:
            return _answered(fetch, answer)
        return _defer(fetch, reader, (), ctx, request.max_wait_ms, answer)

    session.begin(fetch)
    session.heed(_acl_epoch(ctx))
    prepare = session.update(request.topics, request.forgotten_topics_data)
    return _prepared(prepare, call, fetch, reader, proceed)


def _is_throttled(fetch: Fetch, terms: FetchTerms, ctx: DataContext, call: Call) -> bool:
    is_metered = ctx.quotas.fetch.is_set and not terms.is_follower
    return is_metered and ctx.quotas.fetched(call, fetch.size) > 0


def _throttled(call: Call, session_id: int) -> FetchResponse:
    """Who fetched too much gets nothing now, and asks again for the same (KIP-219)."""
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


def _defer(
    fetch: Fetch,
    reader: FetchReader,
    passing: Iterable[Slot],
    ctx: DataContext,
    max_wait_ms: int,
    answer: Callable[[], Steps[FetchResponse]],
) -> DeferredResponse[FetchResponse]:
    """Waits for enough or for the time to be up; `passing` slots are attached for the time of the wait."""
    deadline = trio.current_time() + min(max_wait_ms / 1000, MAX_WAIT_SECONDS)
    acl_epoch = _acl_epoch(ctx)

    async def finish() -> FetchResponse:
        changed = AutoResetEvent()

        def wake() -> None:
            changed.set()

        try:
            if not reader.in_session:
                await in_turns(attach_changed(passing, reader, ctx), SLOTS_PER_TURN)
            reader.wake = wake
            with trio.move_on_at(deadline) as waiting:
                while not (fetch.is_worth_a_look and fetch.look()):
                    await changed.wait()
                    await fetch.look_ahead()
            if waiting.cancelled_caught:
                fetch.look()  # at watermarks that moved, for which a follower is not woken
            if _acl_epoch(ctx) != acl_epoch:
                await fetch.look_again()
        finally:
            if reader.wake is wake:
                reader.wake = None
            if not reader.in_session:
                for slot in passing:
                    slot.detach()
        return await with_checkpoints(answer(), ANSWERED_PER_TURN)

    return DeferredResponse(finish)


def attach_changed(slots: Iterable[Slot], reader: FetchReader, ctx: DataContext) -> Iterator[None]:
    """Attaches slots that were looked at before, and marks those where something happened since; one at each step."""
    for slot in slots:
        yield
        try:
            partition = slot.partition(ctx.partitions)
            leader = partition.open_leader() if partition.leads else None
        except KafkaError:
            reader.changed[slot] = None
            continue
        slot.attach(partition)
        if leader is None:  # a follower is read, or the epoch has ended since: the next look tells
            reader.changed[slot] = None
            continue
        upto = leader.log.log_end_offset if slot.upto_end else leader.committed_end
        if upto != slot.seen_upto:
            reader.changed[slot] = None
