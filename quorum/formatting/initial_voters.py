"""The initial voters of a formatted directory: `id@host:port:directory,…`, or the node alone.

Source: KIP-853, Kafka's `DynamicVoters`, `StorageTool`.
"""

from __future__ import annotations

from trimaran.node.config.server import ServerConfig
from trimaran.quorum.raft.types import EPOCH_MAX, ReplicaKey, VoterEndpoint
from trimaran.quorum.raft.voters import DYNAMIC_QUORUM, STATIC_QUORUM, Voter, VoterSet
from trimaran.wire.buffers.primitives import uuid_from_text
from trimaran.wire.identity import NodeId

FORM = "ID@HOST:PORT:DIRECTORY_ID"


def parse_initial_voters(text: str, listener: str) -> VoterSet:
    """Parses `--initial-controllers`. `listener` is the controllers' first listener, to which all the addresses belong.

    Raises:
        ValueError: the text does not have that form, or names a node twice.
    """
    voters = [_parse(word.strip(), listener) for word in text.split(",") if word.strip()]
    if not voters:
        raise ValueError(f"no voters were given; they are written {FORM},…")
    found = VoterSet.of(voters)
    if len(found) < len(voters):
        raise ValueError("a node is listed more than once")
    return found


def _parse(text: str, listener: str) -> Voter:
    head, _, directory = text.rpartition(":")
    node_id, at, address = head.partition("@")
    host, _, port = address.rpartition(":")
    try:
        if not at or not host or (":" in host and not (host[0] == "[" and host[-1] == "]")):
            raise ValueError("parts are missing")
        if not 0 <= int(node_id) <= EPOCH_MAX or not 0 <= int(port) <= 65535:
            raise ValueError("a number is out of range")
        key = ReplicaKey(NodeId(node_id), uuid_from_text(directory))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a voter, which is written {FORM}: {error}") from None
    endpoint = VoterEndpoint(listener.upper(), host.strip("[]"), int(port))
    return Voter(key, (endpoint,), STATIC_QUORUM, DYNAMIC_QUORUM)


def standalone_voter(config: ServerConfig, directory_id: bytes) -> VoterSet:
    """Returns the voter for this controller alone, with its advertised listener.

    Raises:
        ValueError: the node is not a controller.
    """
    if not config.is_controller:
        raise ValueError("only a controller can be a quorum by itself")
    first = config.advertised_controller_listeners[0]
    endpoint = VoterEndpoint(first.name.upper(), first.host or "localhost", first.port)
    key = ReplicaKey(config.node_id, directory_id)
    return VoterSet.of([Voter(key, (endpoint,), STATIC_QUORUM, DYNAMIC_QUORUM)])
