"""A voter on a real disk and real sockets, with two fellow voters that send anything: it continues, and its directory
is readable afterwards.

For the core alone see `tests/quorum/raft/test_hostile.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cluster.nodes import CLUSTER_ID
from tests.cluster.quorum_nodes import HOST, Member, quorum_nodes
from tests.simulation.nonsense import Nonsense
from tests.wire.random_messages import random_message
from trimaran.log.batches.control_records import build_control_batch
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.types import Peer, Timeouts, VoterEndpoint
from trimaran.quorum.raft_log.snapshot_format import encode_snapshot
from trimaran.quorum.raft_log.voter_records import kraft_version_record, voters_record
from trimaran.quorum.translate import requests, voters
from trimaran.quorum.translate import responses as answers
from trimaran.wire.client.errors import VersionMismatch
from trimaran.wire.errors import ErrorCode, LocalProtocolError
from trimaran.wire.messages.add_raft_voter import AddRaftVoterRequest
from trimaran.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from trimaran.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from trimaran.wire.messages.fetch import FetchRequest
from trimaran.wire.messages.fetch_snapshot import FetchSnapshotRequest
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from trimaran.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from trimaran.wire.messages.vote import VoteRequest
from trimaran.wire.records.metadata import encode_metadata_record
from trimaran.wire.records.topics import TopicRecord
from trimaran.wire.schema import Message
from trimaran.wire.transport.client.node_connection import open_node_connection
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.server.server import serve_listener

# All timeouts are short, so that many messages are sent.
HURRY = Timeouts(
    election=0.03,
    fetch=0.06,
    election_backoff_max=0.02,
    request=0.2,
    patience=0.01,
    retry_backoff=0.001,
    retry_backoff_max=0.002,
    fetch_max_wait=0.01,
    start_delay=0.005,
)
ANSWERS, ASKED, SECONDS_MAX = 400, 300, 3.0
# The fraction of responses with random content that the schema allows.
WILD_SHARE = 0.15
TOPIC = encode_metadata_record(TopicRecord(name="t", topic_id=bytes(15) + b"\1"), 0)


class OnTheWire(Nonsense):
    """Random messages with bytes in place of the simulation's values."""

    def cluster_id(self) -> str | None:
        return self.prng.choice((CLUSTER_ID, CLUSTER_ID, CLUSTER_ID, None, "theirs"))

    def endpoints(self) -> tuple[VoterEndpoint, ...]:
        one = VoterEndpoint("CONTROLLER", HOST, 1)
        return self.prng.choice(((one,), (one,), (), (VoterEndpoint("", "", 0),), (one, one)))

    def _error(self) -> int:
        error = super()._error()
        # a voter that first gets it from a majority has the wrong directory, and must end
        return 0 if error == ErrorCode.INCONSISTENT_CLUSTER_ID else error

    def _entries(self, request: core.FetchRequest, answer: core.FetchResponse) -> Any:
        prng, offset = self.prng, request.fetch_offset
        found = bytearray()
        for _ in range(prng.randint(0, 3)):
            batch = bytearray(self._batch())
            epoch = prng.choice((answer.epoch, request.epoch, request.last_fetched_epoch))
            count = int.from_bytes(batch[57:61], "big")
            batch[0:8] = (offset + prng.choice((0, 0, 0, 0, 0, 1))).to_bytes(8, "big")
            batch[12:16] = epoch.to_bytes(4, "big", signed=True)
            found += batch
            offset += count
        if found and prng.random() < 0.1:
            found[prng.randrange(len(found))] ^= 1 << prng.randrange(8)
        return bytes(found)

    def _batch(self) -> bytes:
        if self.prng.random() < 0.7:
            return build_batch([NewRecord(None, TOPIC, 5)] * self.prng.randint(1, 3))
        possible = (kraft_version_record(self.prng.choice((0, 1))), voters_record(self.voters()))
        return build_control_batch(
            self.prng.choices(possible, k=self.prng.randint(1, 3)), timestamp_ms=5
        )

    def _snapshot_fetched(self, request: core.FetchSnapshotRequest) -> core.AnyResponse:
        answer: Any = super()._snapshot_fetched(request)
        whole = b"".join(encode_snapshot(request.snapshot_id, [TOPIC], appended_at_ms=5, now_ms=6))
        if self.is_so() and request.position <= len(whole):
            answer.size, answer.data = len(whole), whole[request.position :]
            answer.position, answer.snapshot_id = request.position, request.snapshot_id
        return answer


class Liar:
    """A node that poses as voters 2 and 3."""

    def __init__(self, seed: int, member: Member) -> None:
        self.prng = random.Random(seed)
        self.member = member
        self.answered: Counter[str] = Counter()
        self.enough = trio.Event()

    @property
    def nonsense(self) -> OnTheWire:
        raft = self.member.node._driver.raft  # type: ignore[union-attr]
        return OnTheWire(self.prng, raft, raft.log)  # type: ignore[arg-type]

    def answer(
        self, request: Message, version: int, write: Callable[[Any, int], Message], of: core.Request
    ) -> Message:
        self.answered[type(request).__name__] += 1
        if self.answered.total() >= ANSWERS:
            self.enough.set()
        if self.prng.random() < WILD_SHARE:
            return random_message(RESPONSES[request.KEY], version, self.prng.randrange(1 << 20))
        answer = self.nonsense.response(of)
        if answer.leader is not None:
            answer.leader = Peer(answer.leader_id, HOST, 1)
        return write(answer, version)


@handles(VoteRequest, versions="0-2", access=open_to_all("a test"))
def vote(request: VoteRequest, liar: Liar, call: Any) -> Any:
    version = call.header.api_version
    return liar.answer(request, version, answers.write_vote_response, requests.read_vote(request))


@handles(BeginQuorumEpochRequest, versions="0-1", access=open_to_all("a test"))
def begin(request: BeginQuorumEpochRequest, liar: Liar, call: Any) -> Any:
    version = call.header.api_version
    return liar.answer(request, version, answers.write_begin_response, requests.read_begin(request))


@handles(EndQuorumEpochRequest, versions="0-1", access=open_to_all("a test"))
def end(request: EndQuorumEpochRequest, liar: Liar, call: Any) -> Any:
    version = call.header.api_version
    return liar.answer(request, version, answers.write_end_response, requests.read_end(request))


@handles(FetchRequest, versions="12-18", access=open_to_all("a test"))
def fetch(request: FetchRequest, liar: Liar, call: Any) -> Any:
    version = call.header.api_version
    return liar.answer(request, version, answers.write_fetch_response, requests.read_fetch(request))


@handles(FetchSnapshotRequest, versions="0-1", access=open_to_all("a test"))
def fetch_snapshot(request: FetchSnapshotRequest, liar: Liar, call: Any) -> Any:
    version, of = call.header.api_version, requests.read_fetch_snapshot(request)
    return liar.answer(request, version, answers.write_snapshot_response, of)


@handles(AddRaftVoterRequest, versions="0-1", access=open_to_all("a test"))
def add(request: AddRaftVoterRequest, liar: Liar, call: Any) -> Any:
    version = call.header.api_version
    return liar.answer(request, version, voters.write_add_response, voters.read_add(request))


@handles(RemoveRaftVoterRequest, versions="0", access=open_to_all("a test"))
def remove(request: RemoveRaftVoterRequest, liar: Liar, call: Any) -> Any:
    version = call.header.api_version
    return liar.answer(request, version, voters.write_remove_response, voters.read_remove(request))


@handles(UpdateRaftVoterRequest, versions="0", access=open_to_all("a test"))
def update(request: UpdateRaftVoterRequest, liar: Liar, call: Any) -> Any:
    version = call.header.api_version
    return liar.answer(request, version, voters.write_update_response, voters.read_update(request))


LIES = (vote, begin, end, fetch, fetch_snapshot, add, remove, update)


async def ask_anything(liar: Liar, peer: Peer, done: trio.Event) -> None:
    """Sends requests under false identities."""
    async with open_node_connection(peer.host, peer.port) as connection:
        for _ in range(ASKED):
            request = liar.nonsense.request()
            if isinstance(request, core.FetchRequest):
                request = request._replace(max_wait=0.0, max_bytes=1 << 20)
            if isinstance(request, core.EndQuorumEpochRequest):
                # The rest is not read
                request = request._replace(successors=request.successors[:900])
            if isinstance(request, core.FetchSnapshotRequest):
                request = request._replace(max_bytes=1 << 20)
            try:
                version = connection.negotiated.best(_wire_type(request))
                message = requests.write_request(request, version)
                await connection.call(message, version=version, timeout=5)
            except (LocalProtocolError, VersionMismatch):
                continue  # the message cannot be encoded, or not for this node
    done.set()


def _wire_type(request: core.Request) -> type[Message]:
    from trimaran.quorum.replica.peers import _WIRE

    return _WIRE[type(request)]


@pytest.mark.parametrize("seed", range(2))
async def test_voter_continues_among_lying_peers(tmp_path: Path, seed: int) -> None:
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path, 3, HURRY) as cluster:
            member = await cluster.start(1)
            liar = Liar(seed, member)
            for node_id in (2, 3):
                await cluster.nursery.start(
                    serve_listener, [cluster._listener(node_id)], Registry(LIES), liar
                )
            asked = trio.Event()
            cluster.nursery.start_soon(ask_anything, liar, cluster.voters[1], asked)
            await asked.wait()
            with trio.move_on_after(
                SECONDS_MAX
            ):  # a node that was made to lead alone sends no requests
                await liar.enough.wait()
            assert not member.gone.is_set()
            assert liar.answered.total() >= 2
            await member.kill()
            # the records of the run are readable, and more can be appended
            again = await cluster.start(1)
            assert again.node.high_watermark is not None
