"""The engine of one connection: requests in, requests and answers out, in order. It does no I/O.

Responses of a connection have the order of its requests. So an answer that the broker does not give waits here until
all earlier responses have arrived; and after a request or a response is lost, nothing later is sent in its direction.
Frames of unknown APIs and versions, and those of a login, pass unchanged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from trimaran.faults.actions import EndMoment, RunScript, Side
from trimaran.faults.apply import RuleApplication
from trimaran.faults.fates import RequestFate
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.fetch_sessions import decline_session, is_in_session, needs_whole_fetches
from trimaran.faults.frames import (
    expects_response,
    is_request,
    request_frame,
    response_frame,
    software_of,
)
from trimaran.faults.logins import LOGIN_APIS, SeenLogin
from trimaran.faults.matcher import matches_peer, matching_items, request_items
from trimaran.faults.observations import FaultPeer, Observation, ObservationLog
from trimaran.faults.proxy_addresses import AddressRewriter
from trimaran.faults.response_edits import remember_leaders
from trimaran.faults.rule_state import RuleState
from trimaran.faults.scripts import run_script
from trimaran.faults.topic_names import TEACHERS
from trimaran.faults.verdicts import (
    EndBoth,
    GoSilent,
    RelayVerdict,
    SendFrame,
    SendPart,
    Verdicts,
)
from trimaran.wire.errors import LocalProtocolError, RemoteProtocolError
from trimaran.wire.messages.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
)
from trimaran.wire.messages.registry import REQUESTS, RESPONSES, ApiKey
from trimaran.wire.schema import Message

# The maximum number of requests of a connection that wait for their responses. Clients send a few; with more the
# connection is closed.
OUTSTANDING_MAX = 10_000
# Requests that identify the client.
_READ_ALWAYS = frozenset({ApiKey.API_VERSIONS, *LOGIN_APIS})

Frame = bytes | memoryview


@dataclass(slots=True)
class OutstandingRequest:
    """A request whose response has not been sent. With `ready` the broker does not answer it."""

    correlation_id: int
    api: int
    version: int
    fate: RequestFate | None = None
    seen: list[tuple[ObservationLog, Observation]] = field(default_factory=list)
    ready: tuple[RelayVerdict, ...] | None = None
    is_login: bool = False
    # True for the second response to a request that was duplicated.
    is_lost: bool = False


class ConnectionFaults:
    """The faults of one connection. `facts` returns what is known of the connection now; a proxy has a `rewriter`,
    which changes responses before rules see them.
    """

    def __init__(
        self,
        faults: FaultSet,
        facts: Callable[[], FaultPeer],
        rewriter: AddressRewriter | None = None,
    ) -> None:
        self._faults = faults
        self._facts = facts
        self._rewriter = rewriter
        self._number = 0
        self._software = ""
        # A node has the users of its connections; a proxy has to read them from the logins that pass through it.
        self._login_seen = SeenLogin() if rewriter is not None else None
        self._outstanding: deque[OutstandingRequest] = deque()
        self._tickets: list[int] = []
        # Set once a request was lost: nothing later reaches the broker.
        self._is_cut = False
        self._is_silent = False

    # Requests

    def on_request(self, frame: Frame) -> Verdicts:
        """Returns the verdicts upon a frame of the client.

        Raises:
            RemoteProtocolError: too many requests wait for responses.
        """
        with self._faults.changed:
            if self._is_cut:
                return Verdicts()
            try:
                header, start = decode_request_header(frame)
            except RemoteProtocolError:
                return self._login(frame)
            if not is_request(header):
                return self._login(frame)
            return self._decided(frame, header, start)

    def _expect(self, outstanding: OutstandingRequest) -> None:
        if len(self._outstanding) >= OUTSTANDING_MAX:
            raise RemoteProtocolError(f"{OUTSTANDING_MAX} requests wait for responses")
        self._outstanding.append(outstanding)

    def _login(self, frame: Frame) -> Verdicts:
        """Passes a token of a login, which has no header."""
        if self._login_seen is not None:
            self._login_seen.see_token(frame)
        self._expect(OutstandingRequest(0, -1, -1, is_login=True))
        return Verdicts(to_broker=(SendFrame(frame),))

    def _decided(self, frame: Frame, header: RequestHeader, start: int) -> Verdicts:
        api, version = header.api_key, header.api_version
        outstanding = OutstandingRequest(header.correlation_id, api, version)
        peer = self._peer(header)
        states = [
            state
            for state in self._faults.states_of(api)
            if matches_peer(state.rule.match, api, version, peer)
            and not state.is_spent(self._faults.clock())
        ]
        request = self._decode(header, frame, start, wanted=bool(states))
        if request is None or not states:
            return self._passed(frame, header, start, outstanding)
        is_whole = api == ApiKey.FETCH and needs_whole_fetches(states, version)
        if is_whole:
            if is_in_session(request):
                self._trace(peer, header, "", "session declined")
                outstanding.ready = self._answered(outstanding, decline_session())
                return self._queued(outstanding)
            request.session_epoch = -1  # type: ignore[attr-defined]
        fate = RequestFate(request, version, request_items(request, version, self._faults.names))
        fate.is_changed = is_whole
        for state in states:
            self._examine(state, outstanding, fate, peer, header, len(frame))
            if fate.is_decided:
                break
        if not outstanding.seen and not is_whole:
            return self._passed(frame, header, start, outstanding)
        outstanding.fate = fate
        return self._sent(frame, start, outstanding, fate)

    def _peer(self, header: RequestHeader) -> FaultPeer:
        self._number = self._number or self._faults.next_connection()
        facts = self._facts()
        return replace(
            facts,
            connection=self._number,
            client_id=header.client_id,
            software=self._software or facts.software,
            principal=(self._login_seen and self._login_seen.principal) or facts.principal,
        )

    def _decode(
        self, header: RequestHeader, frame: Frame, start: int, *, wanted: bool
    ) -> Message | None:
        """Returns the body if rules want it; None if it cannot be decoded, or is not wanted."""
        api, version = header.api_key, header.api_version
        cls = REQUESTS.get(api)
        if cls is None or version not in cls.VERSIONS or not (wanted or api in _READ_ALWAYS):
            return None
        try:
            # Brokers permit bytes after a request; librdkafka sends some.
            request, _ = cls.decode_prefix(bytes(frame[start:]), version)
        except RemoteProtocolError:
            return None
        if api == ApiKey.API_VERSIONS:
            self._software = software_of(request)
        elif api in LOGIN_APIS and self._login_seen is not None:
            self._login_seen.see_request(request)
        return request

    def _passed(
        self, frame: Frame, header: RequestHeader, start: int, outstanding: OutstandingRequest
    ) -> Verdicts:
        if expects_response(header, frame[start:]):
            self._expect(outstanding)
        return Verdicts(to_broker=(SendFrame(frame),))

    def _examine(
        self,
        state: RuleState,
        outstanding: OutstandingRequest,
        fate: RequestFate,
        peer: FaultPeer,
        header: RequestHeader,
        frame_bytes: int,
    ) -> None:
        """Applies one rule, if it matches and is due."""
        faults, match = self._faults, state.rule.match
        items = matching_items(match, fate.items)
        if not items or not all(condition.holds(fate.request) for condition in match.where):
            return
        number = state.counters.applied
        random = state.matched(peer.connection, faults.clock())
        if random is None:
            faults.changed.notify_all()
            return
        api, correlation_id = ApiKey(header.api_key), header.correlation_id
        seen = Observation(
            state.rule.name,
            peer,
            api,
            header.api_version,
            correlation_id,
            fate.request,
            tuple(item.roles for item in items),
            frame_bytes=frame_bytes,
        )
        application = RuleApplication(faults, state.rule, fate, items, random, self._tickets)
        actions = state.rule.actions(number)
        scripted = [a for each in actions for a in self._unscripted(each, seen, fate)]
        seen.done = ", ".join(application.run(action) for action in scripted)
        outstanding.seen.append((state.seen, seen))
        state.seen.add(seen)
        self._trace(peer, header, state.rule.name, seen.done or "seen", seen)
        faults.release_for(state.rule.name)
        faults.changed.notify_all()

    def _unscripted(self, action: object, seen: Observation, fate: RequestFate) -> list:  # type: ignore[type-arg]
        """Returns the actions that a script wants, or the action itself."""
        if not isinstance(action, RunScript):
            return [action]
        try:
            return run_script(action.function, seen, fate)
        except Exception as error:  # noqa: BLE001 - it is reported to the test
            self._faults.failed(error)
            return []

    def _trace(
        self,
        peer: FaultPeer,
        header: RequestHeader,
        rule: str,
        done: str,
        seen: Observation | None = None,
    ) -> None:
        api = ApiKey(header.api_key).spelling
        shown = "" if seen is None else seen.item_text
        client = f"{peer.client_id!r} " if peer.client_id else ""
        by = f"{rule}: " if rule else ""
        self._faults.trace.add(
            f"connection {peer.connection} {client}{api} v{header.api_version}{shown}: {by}{done}"
        )

    def _sent(
        self, frame: Frame, start: int, outstanding: OutstandingRequest, fate: RequestFate
    ) -> Verdicts:
        """Returns the verdicts upon a request whose fate is decided."""
        answers = expects_response(
            RequestHeader(outstanding.api, outstanding.version, 0, ""), frame[start:]
        )
        if fate.ends_before:
            assert fate.end is not None
            outstanding.ready = (*fate.before_request, EndBoth(fate.end.by_reset))
            return self._queued(outstanding)
        if Side.REQUEST in fate.dropped:
            self._is_cut = (
                answers  # with acks=0 the client does not notice, so its later requests pass
            )
            return Verdicts(to_broker=tuple(fate.before_request))
        rest = None if fate.answer is not None else fate.remaining_request()
        if rest is None:
            outstanding.ready = (
                (*fate.before_request, *self._answered(outstanding, fate.own_answer()))
                if answers
                else (
                    EndBoth(by_reset=False),
                )  # with acks=0, Kafka closes the connection after an error
            )
            return self._queued(outstanding)
        if fate.is_changed or rest is not fate.request:
            frame = self._encoded(frame, start, rest, outstanding, fate)
        copies = 2 if Side.REQUEST in fate.doubled else 1
        if answers:
            self._expect(outstanding)
            if copies > 1:
                again = replace(outstanding, fate=None, seen=[], is_lost=True)
                self._expect(again)
        if fate.is_silent:
            self._is_cut = True
        return Verdicts(to_broker=(*fate.before_request, *[SendFrame(frame)] * copies))

    def _encoded(
        self,
        frame: Frame,
        start: int,
        request: Message,
        outstanding: OutstandingRequest,
        fate: RequestFate,
    ) -> Frame:
        """Returns the frame of a changed request; the given one if its version cannot express the change."""
        try:
            return request_frame(frame[:start], request, outstanding.version, fate)
        except LocalProtocolError as error:
            self._faults.trace.add(f"{type(request).__name__} was not changed: {error}")
            return frame

    def _queued(self, outstanding: OutstandingRequest) -> Verdicts:
        self._expect(outstanding)
        return Verdicts(to_client=self._flushed())

    def _answered(
        self, outstanding: OutstandingRequest, response: Message
    ) -> tuple[RelayVerdict, ...]:
        """Returns the verdicts upon an answer that the broker did not give."""
        try:
            frame = response_frame(outstanding.correlation_id, response, outstanding.version)
        except (
            LocalProtocolError
        ) as error:  # a script returned a response that this version cannot express
            self._faults.failed(error)
            return (EndBoth(by_reset=False),)
        for log, seen in outstanding.seen:
            log.answered(seen, response, len(frame))
        return self._delivered(frame, outstanding.fate)

    # Responses

    def on_response(self, frame: Frame) -> Verdicts:
        """Returns the verdicts upon a frame of the broker. Responses arrive in the order of requests."""
        with self._faults.changed:
            outstanding = self._answered_by(frame)
            if outstanding is None:  # the request was sent before there were rules
                return Verdicts(to_client=() if self._is_silent else (SendFrame(frame),))
            verdicts = () if outstanding.is_lost else self._responded(frame, outstanding)
            return Verdicts(to_client=(*verdicts, *self._flushed()))

    def _answered_by(self, frame: Frame) -> OutstandingRequest | None:
        """Returns the request that a response belongs to, and forgets it."""
        if not self._outstanding:
            return None
        first = self._outstanding[0]
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if not first.is_login and first.correlation_id != correlation_id:
            return None
        return self._outstanding.popleft()

    def _responded(self, frame: Frame, outstanding: OutstandingRequest) -> tuple[RelayVerdict, ...]:
        response = self._decoded_response(frame, outstanding)
        if response is not None:
            for log, seen in outstanding.seen:
                log.answered(seen, response, len(frame))
            frame = self._edited(frame, response, outstanding)
            self._faults.changed.notify_all()
        return self._delivered(frame, outstanding.fate)

    def _decoded_response(self, frame: Frame, outstanding: OutstandingRequest) -> Message | None:
        """Returns the decoded response if a rule, a rewriter or the names of topics need it."""
        api, version = outstanding.api, outstanding.version
        cls = RESPONSES.get(api)
        if cls is None or version not in cls.VERSIONS:
            return None
        teaches = api in TEACHERS and self._faults.is_active
        if outstanding.fate is None and not teaches and not self._rewrites(outstanding):
            return None
        try:
            _, start = decode_response_header(frame, api, version)
            body = frame[start:]
            response = cls.decode(bytes(body) if outstanding.seen else body, version)
        except RemoteProtocolError:  # for example ApiVersions, which is answered in version 0
            return None
        self._faults.names.learn(response)
        if api == ApiKey.METADATA:
            remember_leaders(response, self._faults.first_leaders)
        return response

    def _rewrites(self, outstanding: OutstandingRequest) -> bool:
        rewriter = self._rewriter
        return rewriter is not None and rewriter.wants(outstanding.api, outstanding.version)

    def _edited(self, frame: Frame, response: Message, outstanding: OutstandingRequest) -> Frame:
        """Returns the frame of the response as rewritten and edited; the given one if nothing changes."""
        fate, rewrites = outstanding.fate, False
        if self._rewriter is not None and self._rewrites(outstanding):
            rewrites = self._rewriter.rewrite(response)
        if fate is not None and fate.reads_response:
            fate.edit(response)
        elif not rewrites:
            return frame
        try:
            return response_frame(outstanding.correlation_id, response, outstanding.version)
        except LocalProtocolError as error:
            self._faults.trace.add(f"{type(response).__name__} was not changed: {error}")
            return frame

    def _delivered(self, frame: Frame, fate: RequestFate | None) -> tuple[RelayVerdict, ...]:
        """Returns the verdicts upon a response that is the next one for the client."""
        if self._is_silent:
            return ()
        if fate is None:
            return (SendFrame(frame),)
        if fate.is_silent or Side.RESPONSE in fate.dropped:
            self._is_silent = True
            return (*fate.before_response, GoSilent())
        if fate.truncated is not None:
            frame = frame[: fate.truncated]
        sent: tuple[RelayVerdict, ...] = (SendFrame(frame),)
        if Side.RESPONSE in fate.doubled:
            sent *= 2
        if fate.end is not None:
            if fate.end.moment is EndMoment.MIDDLE:
                sent = (SendPart(frame, len(frame) // 2),)
            sent = (*sent, EndBoth(fate.end.by_reset))
        return (*fate.before_response, *sent)

    def _flushed(self) -> tuple[RelayVerdict, ...]:
        """Returns the answers that no longer wait for an earlier response."""
        verdicts: list[RelayVerdict] = []
        while self._outstanding and self._outstanding[0].ready is not None:
            verdicts += self._outstanding.popleft().ready or ()
        return tuple(verdicts)

    def on_close(self) -> None:
        """Forgets the frames of this connection that rules hold."""
        with self._faults.changed:
            for ticket in self._tickets:
                self._faults.held.forget(ticket)
            self._tickets.clear()
            self._outstanding.clear()
