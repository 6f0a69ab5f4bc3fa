"""`/brokers/ids/N`: a live broker and its listeners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import Address, BrokerId
from trimaran.wire.text.endpoint import PROTOCOL_NUMBERS, SECURITY_PROTOCOLS
from trimaran.zkcompat.znodes.json_form import decode_json, encode_json, member, number

BROKER_IDS = "/brokers/ids"

PORT_DIGITS_MAX = 5
NO_PORT = -1


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    name: str
    host: str
    port: int
    security_protocol: int

    def connection_string(self) -> str:
        return f"{self.name}://{Address(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A registered, unfenced broker. `timestamp_ms` is the time of the write and is not compared."""

    broker_id: BrokerId
    endpoints: Sequence[ListenerAddress]
    rack: str | None
    timestamp_ms: int
    jmx_port: int = NO_PORT

    @staticmethod
    def path(broker_id: BrokerId) -> str:
        return f"{BROKER_IDS}/{broker_id}"

    def encode(self) -> bytes:
        # Clients before 0.9 read host and port; they support only plaintext.
        plain = next((e for e in self.endpoints if e.security_protocol == 0), None)
        protocols = {e.name: SECURITY_PROTOCOLS[e.security_protocol] for e in self.endpoints}
        members: dict[str, Any] = {
            "features": {},
            "listener_security_protocol_map": protocols,
            "endpoints": [endpoint.connection_string() for endpoint in self.endpoints],
        }
        if self.rack is not None:
            members["rack"] = self.rack
        members["jmx_port"] = self.jmx_port
        members["port"] = plain.port if plain else NO_PORT
        members["host"] = plain.host if plain else None
        members["version"] = 5
        members["timestamp"] = str(self.timestamp_ms)
        return encode_json(members)

    @classmethod
    def decode(cls, broker_id: BrokerId, data: bytes | None) -> BrokerInfo:
        members = decode_json(data)
        protocols = member(members, "listener_security_protocol_map", dict)
        endpoints = []
        for text in member(members, "endpoints", list):
            name, _, address = str(text).partition("://")
            host, _, port = address.rpartition(":")
            protocol = PROTOCOL_NUMBERS.get(str(protocols.get(name)))
            if protocol is None or not port.isdecimal() or len(port) > PORT_DIGITS_MAX:
                raise RemoteProtocolError(f"an endpoint {str(text)[:80]!r} of broker {broker_id}")
            endpoints.append(ListenerAddress(name, host.strip("[]"), int(port), protocol))
        rack = member(members, "rack", str) if members.get("rack") is not None else None
        jmx_port = member(members, "jmx_port", int)
        return cls(broker_id, tuple(endpoints), rack, number(members, "timestamp"), jmx_port)
