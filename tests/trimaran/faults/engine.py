"""A client and a broker around the engine of one connection, without I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trimaran.faults.connection_faults import ConnectionFaults
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.observations import FaultPeer
from trimaran.faults.verdicts import RelayVerdict, SendFrame, Verdicts
from trimaran.wire.messages.header import (
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
)
from trimaran.wire.messages.registry import REQUESTS, RESPONSES
from trimaran.wire.schema import Message


@dataclass
class EngineHarness:
    """Sends requests through an engine; `answer` is the broker."""

    answer: Callable[[Message, int], Message | None]
    faults: FaultSet = field(default_factory=lambda: FaultSet(clock=lambda: 0.0))
    peer: FaultPeer = field(default_factory=lambda: FaultPeer(0, "PLAINTEXT", 1))
    received: list[tuple[int, Message]] = field(default_factory=list)
    responses: list[bytes] = field(default_factory=list)
    verdicts: list[RelayVerdict] = field(default_factory=list)
    sent: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.engine = ConnectionFaults(self.faults, lambda: self.peer)
        self._next_id = 0
        self._pending: list[tuple[int, int, int, Message]] = []

    def request(self, request: Message, version: int, client_id: str = "c") -> Verdicts:
        """Sends a request; the broker keeps it until `respond`."""
        self._next_id += 1
        self.sent[self._next_id] = (request.KEY, version)
        frame = bytes(encode_request(request, version, self._next_id, client_id))
        return self._take(self.engine.on_request(frame))

    def respond(self, count: int = 1000) -> list[RelayVerdict]:
        """Has the broker answer the oldest requests; returns the verdicts for the client."""
        verdicts: list[RelayVerdict] = []
        for _ in range(min(count, len(self._pending))):
            _key, version, correlation_id, message = self._pending.pop(0)
            answer = self.answer(message, version)
            if answer is not None:
                frame = bytes(encode_response(answer, version, correlation_id))
                verdicts += self._take(self.engine.on_response(frame)).to_client
        return verdicts

    def call(self, request: Message, version: int) -> Any:
        """Sends a request and has it answered; returns the response, or None if the client gets none."""
        count = len(self.responses)
        self.request(request, version)
        self.respond()
        got = self.decoded()[count:]
        return got[-1][1] if got else None

    def decoded(self) -> list[tuple[int, Message]]:
        """Returns correlation id and message of each response that the client got."""
        found = []
        for frame in self.responses:
            correlation_id = int.from_bytes(frame[:4], "big")
            key, version = self.sent[correlation_id]
            _, start = decode_response_header(frame, key, version)
            found.append((correlation_id, RESPONSES[key].decode(frame[start:], version)))
        return found

    def _take(self, verdicts: Verdicts) -> Verdicts:
        for verdict in verdicts.to_broker:
            if isinstance(verdict, SendFrame):
                header, start = decode_request_header(verdict.frame)
                message = REQUESTS[header.api_key].decode(
                    bytes(verdict.frame[start:]), header.api_version
                )
                self.received.append((header.correlation_id, message))
                self._pending.append(
                    (header.api_key, header.api_version, header.correlation_id, message)
                )
        self.responses += [
            bytes(each.frame) for each in verdicts.to_client if isinstance(each, SendFrame)
        ]
        self.verdicts += [*verdicts.to_broker, *verdicts.to_client]
        return verdicts
