"""ShareFetch (78): a member of a share group acquires records, and acknowledges earlier ones (KIP-932).

A fetch that finds enough is answered at once, else it waits. Its session remembers its partitions; a session's last
request, of epoch -1, only acknowledges. If the session ends while a request is in progress, the response has the
outcomes of its acknowledgements, but no records. Versions: 2 the acquire mode (KIP-1206) and renewals (KIP-1222).
Served from `share.version` 1 on. Source: `KafkaApis.handleShareFetchRequest`, `SharePartitionManager`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import trio

from trimaran.broker.fetching.sessions import FINAL_EPOCH, INITIAL_EPOCH
from trimaran.broker.handlers.context import SharingContext
from trimaran.broker.handlers.share_acknowledge import ELSEWHERE
from trimaran.broker.handlers.share_acknowledge import leader_of as acknowledged_leader_of
from trimaran.broker.handlers.share_acknowledgements import (
    PARTITIONS_A_STEP,
    Acknowledger,
    Outcomes,
)
from trimaran.broker.metadata.endpoints import leader_endpoints
from trimaran.broker.partitions.opening import opening
from trimaran.broker.sharing.counts import ShareCounts
from trimaran.broker.sharing.rules import AcquireMode
from trimaran.broker.sharing.sessions import ShareSession
from trimaran.broker.sharing.share_fetch import FoundRecords, ShareFetch, ShareTerms
from trimaran.wire.errors import ErrorCode, KafkaError, KeptError
from trimaran.wire.identity import (
    NO_BROKER,
    NO_LEADER_EPOCH,
    SharePartitionKey,
    TopicIdPartition,
    TopicPartition,
)
from trimaran.wire.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling, Wait, listed
from trimaran.wire.transport.scheduling.pauses import pauses

Results = dict[TopicIdPartition, FoundRecords | KeptError]

# A client may request an unlimited wait; its fetch is answered after this time (Kafka has no bound).
MAX_WAIT_SECONDS = 300.0
NO_RECORDS = b""


def _fail(_request: ShareFetchRequest, code: ErrorCode, message: str) -> ShareFetchResponse:
    return ShareFetchResponse(
        error_code=code, error_message=message or code.sentence, responses=[], node_endpoints=[]
    )


@handles(
    ShareFetchRequest,
    versions="1-2",
    access=(
        groups(Operation.READ, "group_id"),
        topics(Operation.READ).in_handler("topics are named by id, also those of the session"),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def share_fetch(
    request: ShareFetchRequest, ctx: SharingContext, call: Call
) -> Handling[ShareFetchResponse]:
    acknowledger = Acknowledger.of(request, ctx, call)
    _check_renewal(request)
    acknowledges = any(
        wanted.acknowledgement_batches for topic in request.topics for wanted in topic.partitions
    )
    try:
        session = yield from _session(request, acknowledger, acknowledges, ctx, call)
    except KafkaError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            # The client repeats the request at once.
            seconds = min(max(0, request.max_wait_ms) / 1000, MAX_WAIT_SECONDS)
            yield Wait(partial(trio.sleep, seconds))
        raise
    if acknowledges:
        yield from acknowledger.decide(request.topics)
    results: Results = {}
    is_final = request.share_session_epoch == FINAL_EPOCH
    if is_final:
        yield from ctx.sharing.end_session(session)
    elif not request.is_renew_ack:
        results = yield from _fetched(request, session, acknowledger.may_read, ctx, call)
    outcomes = yield from acknowledger.settled()
    answer = _Answer(ctx, call, session, is_full=request.share_session_epoch == INITIAL_EPOCH)
    return (yield from answer.response(results, outcomes))


def _check_renewal(request: ShareFetchRequest) -> None:
    """Raises KafkaError INVALID_REQUEST if a request that renews also requests records."""
    if not request.is_renew_ack:
        return
    asked = {
        "maxBytes": request.max_bytes,
        "minBytes": request.min_bytes,
        "maxRecords": request.max_records,
        "maxWaitMs": request.max_wait_ms,
    }
    wrong = [f"{name} must be set to 0" for name, value in asked.items() if value]
    if wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{', '.join(wrong)}, if isRenewAck is true.")


def _session(
    request: ShareFetchRequest,
    member: Acknowledger,
    acknowledges: bool,
    ctx: SharingContext,
    call: Call,
) -> Handling[ShareSession]:
    """Returns the session of the request. Raises KafkaError, see `ShareSessions`."""
    sessions, epoch = ctx.sharing.sessions, request.share_session_epoch
    wanted = yield from listed(
        TopicIdPartition(topic.topic_id, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    )
    if epoch != INITIAL_EPOCH:
        forgotten = yield from listed(
            TopicIdPartition(topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        )
        return sessions.resume(member.group_id, member.member_id, epoch, wanted, forgotten)
    session = sessions.begin(member.group_id, member.member_id, wanted, acknowledges=acknowledges)
    end = partial(ctx.sharing.connection_closed, session)
    session.on_close = partial(call.connection.forget_on_close, end)
    call.connection.on_close(end)
    return session


def _fetched(
    request: ShareFetchRequest,
    session: ShareSession,
    may_read: Callable[[str], bool],
    ctx: SharingContext,
    call: Call,
) -> Handling[Results]:
    """Acquires records of the session's partitions, waiting for them if necessary; none if the session ends first."""
    began = time.monotonic()
    terms = _terms(request, session, ctx, call)
    keys = session.rotated(request.share_session_epoch)
    results = Results()
    shares = {}
    names: dict[TopicIdPartition, str] = {}
    for key in keys:
        yield from opening(ctx.partitions, (key,), for_writing=terms.reads_committed)
        if session.is_over:
            break  # without a session, no event would end the share partitions
        try:
            name = ctx.partitions.topic_name(key.topic_id)
            named = TopicPartition(name, key.partition)
            if not may_read(name):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if ctx.partitions.state_of(named) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            names[key] = name
            if terms.max_records > 0 and terms.max_bytes > 0:
                share_key = SharePartitionKey(session.group_id, *key)
                shares[key] = ctx.sharing.open(share_key, ctx.partitions.leader_of(named))
        except KafkaError as error:
            results[key] = KeptError.of(error)
    if shares:
        fetch = ShareFetch(terms, shares)
        yield from _wait(fetch, request.max_wait_ms, ctx.sharing.counts)
        is_throttled = False
        if ctx.quotas.fetch.is_set:
            is_throttled = ctx.quotas.fetched(call, (yield from fetch.size_at_hand())) > 0
        if not is_throttled:
            results |= yield from fetch.acquire()
    now = time.monotonic()
    ctx.sharing.counts.of(session.group_id).acquire_times.observe(now - began, now)
    yield from _count(names, results, ctx)
    return results


def _count(
    names: dict[TopicIdPartition, str], results: Results, ctx: SharingContext
) -> Handling[None]:
    """Counts the request once for each topic that may be read, as in Kafka."""
    failed = dict.fromkeys(names.values(), False)
    for key, name in names.items():
        failed[name] |= isinstance(results.get(key), KeptError)
    pause = pauses(PARTITIONS_A_STEP)
    for name, has_failed in failed.items():
        if (traffic := ctx.partitions.traffic.find(name)) is not None:
            traffic.share_fetches += 1
            traffic.failed_share_fetches += has_failed
        yield from next(pause)


def _terms(
    request: ShareFetchRequest, session: ShareSession, ctx: SharingContext, call: Call
) -> ShareTerms:
    most = max(0, min(request.max_bytes, ctx.limits.fetch_bytes_max))
    if ctx.quotas.fetch.is_set:
        most = ctx.quotas.fetch_bytes_max(call, most)
    try:
        mode = AcquireMode(request.share_acquire_mode)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unknown share acquire mode id: {request.share_acquire_mode}",
        ) from None
    return ShareTerms(
        session=session,
        mode=mode,
        max_records=request.max_records,
        batch_size=max(1, request.batch_size),
        min_bytes=min(request.min_bytes, most),
        max_bytes=most,
        reads_committed=ctx.sharing.settings_of(session.group_id).reads_committed,
    )


def _wait(fetch: ShareFetch, max_wait_ms: int, counts: ShareCounts) -> Handling[None]:
    """Waits until enough can be acquired, at most for `max_wait_ms`."""
    if (yield from fetch.has_enough()) or max_wait_ms <= 0:
        return
    deadline = trio.current_time() + min(max_wait_ms / 1000, MAX_WAIT_SECONDS)
    fetch.attach()
    counts.waiting += 1
    try:
        is_up = False
        while not is_up and not (yield from fetch.has_enough()):
            is_up = yield Wait(partial(_is_up, fetch, deadline))
        counts.expired += is_up
    finally:
        counts.waiting -= 1
        fetch.detach()


async def _is_up(fetch: ShareFetch, deadline: float) -> bool:
    """Waits for a change. Returns True if the time is up first."""
    return not await fetch.changed.wait(deadline)


class _Answer:
    """The response of one request, made in steps."""

    def __init__(
        self, ctx: SharingContext, call: Call, session: ShareSession, *, is_full: bool
    ) -> None:
        self._ctx = ctx
        self._call = call
        self._session = session
        self._is_full = is_full
        self._topics: dict[bytes, ShareFetchableTopicResponse] = {}
        self._leaders: list[LeaderIdAndEpoch] = []

    def response(self, results: Results, outcomes: Outcomes) -> Handling[ShareFetchResponse]:
        """Returns the response with records, errors and the outcomes of acknowledgements."""
        for key, found in results.items():
            is_error = isinstance(found, KeptError)
            has_records = not isinstance(found, KeptError) and found.size > 0
            is_news = self._session.responds(
                key, has_records=has_records, is_error=is_error, is_full=self._is_full
            )
            if is_news or key in outcomes:
                self._add(key, found, outcomes.pop(key, None))
            yield None
        for key, error in outcomes.items():
            self._add(key, None, error)
            yield None
        ctx, call = self._ctx, self._call
        return ShareFetchResponse(
            throttle_time_ms=call.throttle_ms,
            acquisition_lock_timeout_ms=ctx.sharing.settings_of(self._session.group_id).lock_ms,
            responses=list(self._topics.values()),
            node_endpoints=leader_endpoints(
                NodeEndpoint, self._leaders, ctx.metadata.image.cluster, call.connection.listener
            ),
        )

    def _add(
        self,
        key: TopicIdPartition,
        found: FoundRecords | KeptError | None,
        refused: KeptError | None,
    ) -> None:
        data = PartitionData(
            partition_index=key.partition,
            current_leader=LeaderIdAndEpoch(leader_id=NO_BROKER, leader_epoch=NO_LEADER_EPOCH),
            records=NO_RECORDS,
            acquired_records=[],
        )
        if isinstance(found, KeptError):
            data.error_code, data.error_message = found.code, found.message
            if found.code in ELSEWHERE:
                leader = acknowledged_leader_of(key, self._ctx)
                data.current_leader = LeaderIdAndEpoch(
                    leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                )
                self._leaders.append(data.current_leader)
        elif found is not None and found.records is not None:
            data.records = found.records
            data.acquired_records = [
                AcquiredRecords(
                    first_offset=part.first, last_offset=part.last, delivery_count=part.deliveries
                )
                for part in found.acquired
            ]
        if refused is not None:
            data.acknowledge_error_code = refused.code
            data.acknowledge_error_message = refused.message
        topic = self._topics.get(key.topic_id)
        if topic is None:
            topic = ShareFetchableTopicResponse(topic_id=key.topic_id, partitions=[])
            self._topics[key.topic_id] = topic
        topic.partitions.append(data)
