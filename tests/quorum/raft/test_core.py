"""Single rules of the core: bad requests (mA14), the table of roles, guarantees of a leader."""

from __future__ import annotations

from itertools import product

import pytest

from tests.quorum.raft.interaction import Middle
from tests.simulation.snapshots import Content, encode
from tests.simulation.storage import Entry, SimLog, chain
from trimaran.quorum.raft import leading
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.core import NotLeader, Raft
from trimaran.quorum.raft.leader_state import OBSERVERS_MAX, LeaderState, majority_offset
from trimaran.quorum.raft.log_view import (
    ON_OUR_LOG,
    FetchValidation,
    truncation_offset,
    validate_fetch,
)
from trimaran.quorum.raft.ready import ControlBatch, FollowerAppend, Send, SnapshotChunk
from trimaran.quorum.raft.roles import (
    HIGHER_EPOCH,
    SAME_EPOCH,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
    is_allowed,
)
from trimaran.quorum.raft.types import (
    EPOCH_JUMP_MAX,
    EPOCH_LIMIT,
    EPOCH_MAX,
    ElectionState,
    Identity,
    InvariantViolated,
    OffsetAndEpoch,
    Peer,
    ReplicaKey,
    Timeouts,
)
from trimaran.quorum.raft.voters import Voter, VoterSet
from trimaran.wire.errors import ErrorCode

VOTERS = {i: Peer(i, "test", i) for i in (1, 2, 3)}
ME = Identity(1, bytes([1]) * 16, "ours", VOTERS)
ME_AS_VOTER = Voter(ME.key)
SET = VoterSet.static(VOTERS.values())


def log_of(*batches: tuple[int, int]) -> SimLog:
    """Returns a log of batches (records, epoch)."""
    log = SimLog()
    for size, epoch in batches:
        base = log.end_offset
        log.append(Entry(base, base + size, epoch, base, chain(log.end_chain, epoch, base)))
    log.recover()
    return log


class Talk:
    """A core that receives inputs and responds at once. `sent` has all its requests with their targets; `taken`,
    `truncated` and `chunks` are the commands to its log: appends, truncations, and chunks of snapshots.
    """

    def __init__(
        self,
        log: SimLog | None = None,
        election: ElectionState | None = None,
        me: Identity = ME,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.log = log or log_of()
        election = election or ElectionState()
        self.raft = Raft(me, self.log, election, timeouts=timeouts, prng=Middle(), now=0.0)
        self.sends: list[core.Request] = []
        self.replies: list[core.AnyResponse] = []
        self.now = 0.0
        self.tokens: list[int] = []
        self.sent: list[Send] = []
        self.taken: list[object] = []
        self.truncated: list[int] = []
        self.chunks: list[SnapshotChunk] = []
        self._drain()

    def _drain(self) -> None:
        while (ready := self.raft.ready()) is not None:
            self.replies += [reply.response for reply in ready.replies]
            self.sends += [send.request for send in ready.sends]
            self.tokens += [send.token for send in ready.sends]
            self.sent += ready.sends
            if ready.truncate_to is not None or ready.snapshot is not None:
                self._replace_log(ready.truncate_to, ready.snapshot)
            if isinstance(ready.append, FollowerAppend):
                self._take(ready.append.records)
            if ready.append is not None:
                for batch in getattr(ready.append, "batches", ()):
                    base, epoch = self.log.end_offset, self.raft.epoch
                    control = batch.records if isinstance(batch, ControlBatch) else ()
                    fingerprint = chain(self.log.end_chain, epoch, base)
                    end = base + batch.record_count
                    self.log.append(Entry(base, end, epoch, base, fingerprint, control))
                self.log.recover()
                self.raft.log_changed(self.now)

    def _take(self, records: object) -> None:
        """Appends entries; for bytes it only notes that they were to be appended."""
        self.taken.append(records)
        for entry in records if isinstance(records, list) else ():
            self.log.append(entry)

    def _replace_log(self, truncate_to: int | None, chunk: SnapshotChunk | None) -> None:
        if truncate_to is not None:
            self.truncated.append(truncate_to)
            self.log.truncate_to(truncate_to)
        if chunk is not None:
            self.chunks.append(chunk)
            if chunk.is_last:
                self.log.start_at_snapshot(chunk.snapshot_id, 0, b"")
        self.raft.log_changed(self.now)

    def at(self, now: float) -> None:
        """Moves the clock and polls the core."""
        self.now = now
        self.raft.handle_timeout(now)
        self._drain()

    def fail(self, token: int) -> None:
        """Fails a request: no response arrives."""
        self.raft.request_failed(token, self.now)
        self._drain()

    def flush(self, upto: int | None = None) -> None:
        """Reports the log as durable, completely or up to that offset."""
        self.raft.flushed(self.log.end_offset if upto is None else upto, self.now)
        self._drain()

    def gone(self, node_id: int) -> None:
        """Reports the end of a node's process."""
        self.raft.peer_down(node_id, self.now)
        self._drain()

    def ask(self, request: core.Request) -> core.AnyResponse | None:
        self.replies.clear()
        self.raft.receive(1, request, self.now)
        self._drain()
        return self.replies[-1] if self.replies else None

    def answer(self, message: core.AnyResponse, token: int | None = None) -> None:
        self.raft.receive(self.tokens[-1] if token is None else token, message, self.now)
        self._drain()

    def lead(self) -> Talk:
        """Wins an election against 2 and 3."""
        self.now = self.raft.deadline()
        self.raft.handle_timeout(self.now)
        self._drain()
        for _ in range(2):
            epoch = self.raft.epoch
            self.answer(core.VoteResponse(epoch=epoch, granted=True))
        self.raft.flushed(self.log.end_offset, self.now)
        self._drain()
        assert isinstance(self.raft.role, Leader)
        return self


def vote(**changes: object) -> core.VoteRequest:
    plain = core.VoteRequest(
        cluster_id="ours",
        epoch=5,
        candidate=ReplicaKey(2),
        voter=ReplicaKey(1),
        last_epoch=0,
        end_offset=0,
        pre_vote=False,
    )
    return plain._replace(**changes)  # type: ignore[arg-type]


def fetch(**changes: object) -> core.FetchRequest:
    plain = core.FetchRequest(
        cluster_id="ours",
        epoch=1,
        replica=ReplicaKey(2),
        fetch_offset=0,
        last_fetched_epoch=0,
        high_watermark=-1,
        max_wait=0.5,
        max_bytes=1 << 20,
    )
    return plain._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "theirs"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"voter": ReplicaKey(3)}, ErrorCode.INVALID_VOTER_KEY),
        ({"voter": ReplicaKey(1, bytes([9]) * 16)}, ErrorCode.INVALID_VOTER_KEY),
        ({"candidate": ReplicaKey(7)}, ErrorCode.INVALID_REQUEST),
        ({"candidate": ReplicaKey(1)}, ErrorCode.INVALID_REQUEST),
        ({"candidate": ReplicaKey(-1)}, ErrorCode.INVALID_REQUEST),
        ({"epoch": EPOCH_MAX}, ErrorCode.INVALID_REQUEST),
        ({"epoch": EPOCH_LIMIT}, ErrorCode.INVALID_REQUEST),
        ({"epoch": EPOCH_JUMP_MAX + 3}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"end_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"last_epoch": 6, "pre_vote": True}, ErrorCode.INVALID_REQUEST),
        ({}, ErrorCode.NONE),
        ({"cluster_id": None, "voter": None}, ErrorCode.NONE),
    ],
)
def test_votes_get_expected_errors(changes, code):
    talk = Talk()
    answer = talk.ask(vote(**changes))
    assert isinstance(answer, core.VoteResponse)
    assert answer.error == code
    assert answer.granted == (code is ErrorCode.NONE)
    if code not in (ErrorCode.NONE, ErrorCode.INVALID_VOTER_KEY):
        assert talk.raft.epoch == 0, "a refused request changes nothing"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "theirs"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"epoch": -1, "last_fetched_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"fetch_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_fetched_epoch": 2}, ErrorCode.INVALID_REQUEST),
        ({"max_wait": -1.0}, ErrorCode.INVALID_REQUEST),
        ({"replica": ReplicaKey(1)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_fetches_get_expected_errors(changes, code):
    answer = Talk().lead().ask(fetch(**changes))
    assert isinstance(answer, core.FetchResponse)
    assert answer.error == code
    assert answer.read is None


def test_only_the_leader_answers_fetches():
    answer = Talk(election=ElectionState(1)).ask(fetch())
    assert answer is not None
    assert answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_fetch_waits_and_is_refused_when_leadership_ends():
    talk = Talk().lead()
    assert talk.ask(fetch(fetch_offset=1, last_fetched_epoch=1, high_watermark=1)) is None
    talk.ask(vote(epoch=7, last_epoch=1, end_offset=9))
    refused = [answer for answer in talk.replies if isinstance(answer, core.FetchResponse)]
    assert [answer.error for answer in refused] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


OBSERVER = ReplicaKey(7)


def test_observer_behind_watermark_is_answered_at_once():
    talk = Talk().lead()
    talk.ask(fetch(fetch_offset=1, last_fetched_epoch=1))
    answer = talk.ask(
        fetch(replica=OBSERVER, fetch_offset=1, last_fetched_epoch=1, high_watermark=0)
    )
    assert isinstance(answer, core.FetchResponse)
    assert answer.high_watermark == 1


def test_waiting_observers_are_bounded_voters_are_not(monkeypatch):
    """An empty response would make the observer fetch again at once; a refusal makes it back off."""
    monkeypatch.setattr(leading, "DEFERRED_MAX", 0)
    talk = Talk().lead()
    assert talk.ask(fetch(fetch_offset=1, last_fetched_epoch=1, high_watermark=1)) is None
    observer = fetch(replica=OBSERVER, fetch_offset=1, last_fetched_epoch=1, high_watermark=1)
    answer = talk.ask(observer)
    assert answer is not None
    assert (answer.error, answer.leader_id) == (ErrorCode.BROKER_NOT_AVAILABLE, 1)
    news = talk.ask(observer._replace(high_watermark=0))
    assert isinstance(news, core.FetchResponse)
    assert (news.error, news.high_watermark) == (0, 1), "what there is it is told"
    none = talk.ask(observer._replace(max_wait=0.0))
    assert none is not None
    assert none.error == 0, "and who does not wait takes no place"


def test_waiting_fetches_are_bounded(monkeypatch):
    monkeypatch.setattr(leading, "DEFERRED_MAX", 1)
    monkeypatch.setattr(leading, "DEFERRED_BY_VOTERS_MAX", 1)
    talk = Talk().lead()
    plain = fetch(fetch_offset=1, last_fetched_epoch=1, high_watermark=1)

    def waits(token: int, replica: ReplicaKey) -> bool:
        talk.replies.clear()
        talk.raft.receive(token, plain._replace(replica=replica), talk.now)
        talk._drain()
        return not talk.replies

    asked = [waits(1, ReplicaKey(2)), waits(2, OBSERVER), waits(3, ReplicaKey(3))]
    assert asked == [True, False, True]
    assert not waits(4, ReplicaKey(2))


def test_refused_observer_retries_leader_after_a_pause():
    talk = Talk()
    talk.ask(core.BeginQuorumEpochRequest("ours", 5, 2, None))
    asked = talk.tokens[-1]
    talk.sends.clear()
    talk.answer(
        core.FetchResponse(error=ErrorCode.BROKER_NOT_AVAILABLE, epoch=5, leader_id=2), asked
    )
    assert talk.raft.leader_id == 2
    talk.raft.handle_timeout(talk.now + Timeouts().retry_backoff / 2)
    talk._drain()
    assert 2 not in [
        talk.raft._state.requests._by_token[t].peer.id for t in talk.tokens if t > asked
    ]


def test_watermark_alone_reaches_voter_after_a_delay():
    talk = Talk().lead()
    assert talk.ask(fetch(fetch_offset=1, last_fetched_epoch=1, high_watermark=0)) is None
    assert talk.raft.high_watermark == 1
    talk.replies.clear()
    before, talk.now = talk.now, talk.raft.deadline()
    assert talk.now == before + Timeouts().watermark_linger
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    assert [answer.high_watermark for answer in talk.replies] == [1]


def test_each_fetch_brings_record_and_watermark_together():
    """There is one fetch for each change: it acknowledges the record and waits for the next one."""
    talk = Talk().lead()
    for end in range(1, 6):
        acknowledges = fetch(fetch_offset=end, last_fetched_epoch=1, high_watermark=end - 1)
        assert talk.ask(acknowledges) is None
        assert talk.raft.high_watermark == end
        talk.replies.clear()
        talk.raft.propose(b"x", 1, talk.raft.epoch)
        talk._drain()
        (answer,) = talk.replies
        assert isinstance(answer, core.FetchResponse)
        assert answer.read is not None
        assert (answer.read.offset, answer.high_watermark) == (end, end)
        talk.raft.flushed(talk.log.end_offset, talk.now)
        talk._drain()


def test_snapshot_fetches_get_expected_errors():
    log = log_of((5, 1))
    log.add_snapshot(OffsetAndEpoch(5, 1), b"x" * 40)
    talk = Talk(log, ElectionState(1)).lead()

    def ask(**changes: object) -> core.FetchSnapshotResponse:
        plain = core.FetchSnapshotRequest(
            cluster_id="ours",
            epoch=2,
            replica=ReplicaKey(2),
            snapshot_id=OffsetAndEpoch(5, 1),
            position=0,
            max_bytes=10,
        )
        answer = talk.ask(plain._replace(**changes))  # type: ignore[arg-type]
        assert isinstance(answer, core.FetchSnapshotResponse)
        return answer

    assert ask().read == (OffsetAndEpoch(5, 1), 0, 10)
    assert ask().size == 40
    assert ask(snapshot_id=OffsetAndEpoch(4, 1)).error == ErrorCode.SNAPSHOT_NOT_FOUND
    assert ask(snapshot_id=OffsetAndEpoch(0, 0)).error == ErrorCode.SNAPSHOT_NOT_FOUND
    assert ask(position=40).error == ErrorCode.POSITION_OUT_OF_RANGE
    assert ask(position=-1).error == ErrorCode.POSITION_OUT_OF_RANGE
    assert ask(epoch=1).error == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(epoch=3).error == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_damaged_snapshot_is_fetched_with_growing_pauses():
    """The leader continues to see fetches, and another snapshot is fetched at once."""
    talk = Talk()
    talk.ask(core.BeginQuorumEpochRequest(cluster_id="ours", epoch=3, leader_id=2, voter=None))
    bad = OffsetAndEpoch(9, 2)

    def told_of(snapshot_id: OffsetAndEpoch) -> None:
        assert isinstance(talk.sends[-1], core.FetchRequest)
        talk.answer(core.FetchResponse(epoch=3, leader_id=2, snapshot_id=snapshot_id))

    pauses, longest_silence = [], 0.0
    told_of(bad)
    for _ in range(12):
        assert isinstance(talk.sends[-1], core.FetchSnapshotRequest)
        lost_at = talk.now
        talk.answer(
            core.FetchSnapshotResponse(
                epoch=3, leader_id=2, error=int(ErrorCode.SNAPSHOT_NOT_FOUND)
            )
        )
        while not isinstance(talk.sends[-1], core.FetchSnapshotRequest) or talk.now == lost_at:
            asked = len(talk.sends)
            deadline = talk.raft.deadline()
            longest_silence = max(longest_silence, deadline - talk.now)
            talk.now = deadline
            talk.raft.handle_timeout(talk.now)
            talk._drain()
            assert len(talk.sends) == asked + 1, "it wakes for something to ask"
            told_of(bad)
        pauses.append(talk.now - lost_at)
    assert [round(pause, 3) for pause in pauses[:4]] == [0.075, 0.15, 0.3, 0.6]
    assert pauses[-2:] == pytest.approx([22.5, 22.5])
    assert longest_silence <= 0.5 + 1e-9
    talk.answer(
        core.FetchSnapshotResponse(epoch=3, leader_id=2, error=int(ErrorCode.SNAPSHOT_NOT_FOUND))
    )
    talk.now = talk.raft.deadline()
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    told_of(OffsetAndEpoch(12, 3))
    assert isinstance(talk.sends[-1], core.FetchSnapshotRequest)
    assert talk.sends[-1].snapshot_id == OffsetAndEpoch(12, 3)


BEGIN = core.BeginQuorumEpochRequest(cluster_id="ours", epoch=3, leader_id=2, voter=None)
END = core.EndQuorumEpochRequest(cluster_id="ours", epoch=3, leader_id=2, successors=())


def follower_of_2(log: SimLog | None = None, me: Identity = ME, **more: object) -> Talk:
    """Returns a follower of node 2 in epoch 3."""
    talk = Talk(log, me=me)
    talk.ask(BEGIN)
    talk.sends.clear()
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    assert isinstance(talk.raft.role, Follower)
    if more:
        talk.answer(fetched(**more))
    return talk


def fetched(**changes: object) -> core.FetchResponse:
    return core.FetchResponse(**{"epoch": 3, "leader_id": 2, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("request_", [BEGIN, END])
def test_second_leader_of_epoch_is_refused(request_):
    """Both followers and the leader refuse: otherwise one packet to each of them would stop the quorum."""
    follower = follower_of_2()
    leader = Talk().lead()
    for talk, other in ((follower, 3), (leader, 2)):
        before = str(talk.raft)
        asked = request_._replace(epoch=talk.raft.epoch, leader_id=other)
        answer = talk.ask(asked)
        assert answer is not None
        assert answer.error == ErrorCode.INVALID_REQUEST
        assert answer.leader_id == talk.raft.leader_id != other
        assert str(talk.raft) == before


@pytest.mark.parametrize(
    "answer",
    [
        fetched(leader_id=3, high_watermark=1),
        fetched(leader_id=3, diverging=OffsetAndEpoch(0, 0)),
        fetched(leader_id=-1, records=b"x"),
        fetched(epoch=EPOCH_MAX, records=b"x"),
        fetched(epoch=EPOCH_LIMIT, records=b"x"),
        fetched(diverging=OffsetAndEpoch(1, 1)),
        fetched(diverging=OffsetAndEpoch(0, 0)),
        fetched(diverging=OffsetAndEpoch(9, 3)),
        fetched(snapshot_id=OffsetAndEpoch(1, 3)),
        fetched(snapshot_id=OffsetAndEpoch(2, 1)),
        fetched(snapshot_id=OffsetAndEpoch(4, 1)),
        fetched(snapshot_id=OffsetAndEpoch(9, 4)),
        fetched(error=9999),
        fetched(error=-9999, leader_id=3),
    ],
    ids=str,
)
@pytest.mark.parametrize("me", [ME, Identity(7, bytes([7]) * 16, "ours", VOTERS)], ids=str)
def test_contradicting_answers_change_nothing_committed(me, answer):
    """The first half of four records in two batches is committed."""
    talk = follower_of_2(log_of((2, 1), (2, 1)), me, high_watermark=2)
    assert talk.raft.high_watermark == 2
    before = str(talk.raft)
    talk.answer(answer)
    assert str(talk.raft) == before
    assert (talk.taken, talk.truncated) == ([], [])
    talk.at(talk.now)
    assert all(isinstance(request, core.FetchRequest) for request in talk.sends)
    assert talk.raft._state.requests.is_backing_off(VOTERS[2], talk.now), "left alone a while"


def test_log_is_not_truncated_below_its_snapshot():
    """Everything below the snapshot is committed, although a starting node has no watermark yet."""
    log = log_of((8, 1))
    content = encode(Content(log.end_chain, 0, None))
    log.add_snapshot(OffsetAndEpoch(8, 1), content)
    log.clean()
    talk = follower_of_2(log, diverging=OffsetAndEpoch(3, 0))
    assert (talk.raft.high_watermark, log.end_offset) == (None, 8)
    assert talk.truncated == []


def test_watermark_of_answer_counts_after_its_records():
    talk = follower_of_2(log_of((2, 1), (2, 2)))
    talk.answer(fetched(diverging=OffsetAndEpoch(2, 1), high_watermark=9, records=b"x"))
    assert talk.raft.high_watermark is None


@pytest.mark.parametrize("count", [1, 1100, 20_000])
def test_any_number_of_successors_is_accepted(count):
    """The last of many waits nearly as long as the first of the rest; a float cannot be halved that often."""
    talk = follower_of_2()
    others = (ReplicaKey(3),) * count
    answer = talk.ask(END._replace(successors=(*others, ReplicaKey(1))))
    assert answer is not None
    assert answer.error == 0
    assert talk.raft.deadline() <= talk.now + talk.raft._state.timeouts.election_backoff_max


def test_level_without_voters_keeps_configured_voters():
    """With only kraft.version 1, the next leader would have no set to repeat."""
    log = log_of((1, 1))
    log.history.set_kraft_version(0, 1)
    talk = Talk(log)
    assert not log.history.is_dynamic
    assert talk.lead().log.history.voters.ids == (1, 2, 3)


def test_leader_outside_the_voters_is_refused():
    talk = Talk()
    begin = core.BeginQuorumEpochRequest(cluster_id="ours", epoch=3, leader_id=8, voter=None)
    answer = talk.ask(begin)
    assert answer is not None
    assert answer.error == ErrorCode.INVALID_REQUEST
    assert talk.raft.leader_id is None


def test_proposal_needs_the_current_epoch():
    talk = Talk().lead()
    assert talk.raft.propose(b"x", 3, 1) == 1
    assert talk.raft.propose(b"x", 1, 1) == 4
    with pytest.raises(NotLeader):
        talk.raft.propose(b"x", 1, 2)


def test_late_answer_is_dropped():
    talk = Talk()
    late = talk.tokens[-1]
    talk.lead()
    before = str(talk.raft)
    talk.answer(core.FetchResponse(epoch=1, leader_id=2, high_watermark=9, records=b"x"), late)
    assert str(talk.raft) == before


@pytest.mark.parametrize(
    "input_",
    [
        lambda raft: raft.receive(2, vote(), 0.0),
        lambda raft: raft.request_failed(1, 0.0),
        lambda raft: raft.handle_timeout(0.0),
        lambda raft: raft.flushed(0, 0.0),
        lambda raft: raft.peer_down(2, 0.0),
        lambda raft: raft.resign(0.0),
        lambda raft: raft.shutdown(0.0),
    ],
)
def test_driver_must_take_ready_before_next_input(input_):
    talk = Talk()
    talk.raft.receive(1, vote(), 0.0)
    with pytest.raises(InvariantViolated):
        input_(talk.raft)


def test_restart_resigns_leadership_and_drops_candidacy():
    assert isinstance(Talk(election=ElectionState(4, 1)).raft.role, Resigned)
    voted = Talk(election=ElectionState(4, -1, ReplicaKey(1))).raft.role
    assert voted == Unattached(4, voted.deadline, -1, ReplicaKey(1))
    assert isinstance(Talk(election=ElectionState(4, 2)).raft.role, Follower)
    assert Talk(log_of((1, 9)), ElectionState(4, 2)).raft.epoch == 9


def test_sole_voter_leads_at_once():
    alone = Identity(1, voters={1: VOTERS[1]})
    talk = Talk(election=ElectionState(3, 1), me=alone)
    assert isinstance(talk.raft.role, Leader)
    assert talk.raft.epoch == 4


ROLES = {
    Unattached: Unattached,
    Prospective: lambda epoch: Prospective(epoch, 1.0, None, -1, None, frozenset({1})),
    Candidate: lambda epoch: Candidate(epoch, 1.0, ReplicaKey(1), frozenset({1})),
    Follower: lambda epoch: Follower(epoch, 1.0, VOTERS[2]),
    Leader: lambda epoch: Leader(
        epoch, 0, LeaderState.begin(ME_AS_VOTER, SET, Timeouts(), 0, frozenset(), 0.0)
    ),
    Resigned: lambda epoch: Resigned(epoch, 1.0),
}


@pytest.mark.parametrize(("before", "after"), list(product(ROLES, ROLES)))
def test_roles_change_according_to_the_table(before, after):
    one = ROLES[before](3)
    assert not is_allowed(one, ROLES[after](2)), "epochs never go back"
    assert is_allowed(one, ROLES[after](4)) == (after in HIGHER_EPOCH[before])
    same = ROLES[after](3)
    keeps_vote = getattr(one, "voted", None) is None or after is Leader
    if keeps_vote:
        assert is_allowed(one, same) == (after in SAME_EPOCH[before])
    else:
        assert not is_allowed(one, same) or same.voted == one.voted


def test_vote_is_never_withdrawn():
    voted = Unattached(3, 1.0, -1, ReplicaKey(2))
    assert not is_allowed(voted, Unattached(3, 1.0, -1, ReplicaKey(3)))
    assert not is_allowed(voted, Follower(3, 1.0, VOTERS[3]))
    assert is_allowed(voted, Follower(3, 1.0, VOTERS[3], ReplicaKey(2)))


def test_epoch_has_one_leader():
    follower = Follower(3, 1.0, VOTERS[2])
    assert is_allowed(follower, Follower(3, 1.0, VOTERS[2]))
    assert not is_allowed(follower, Follower(3, 1.0, VOTERS[3]))
    assert not is_allowed(Unattached(3, 1.0, 2), Unattached(3, 1.0, 3))


@pytest.mark.parametrize("size", range(1, 6))
def test_majority_offset_is_held_by_majority(size):
    for ends in product(range(-1, 3), repeat=size):
        offset = majority_offset(sorted(ends, reverse=True))
        obvious = max(o for o in ends if sum(e >= o for e in ends) >= size // 2 + 1)
        assert offset == obvious


def test_observers_are_bounded():
    leader_state = LeaderState.begin(ME_AS_VOTER, SET, Timeouts(), 0, frozenset(), 0.0)
    for i in range(OBSERVERS_MAX + 50):
        leader_state.fetched_by(ReplicaKey(100 + i), 0, 0, now=1.0)
    assert len(leader_state.observers) == OBSERVERS_MAX
    leader_state.fetched_by(ReplicaKey(5), 0, 0, now=1000.0)
    assert len(leader_state.observers) == 1


@pytest.mark.parametrize(
    ("offset", "epoch", "position"),
    [
        (0, 0, ON_OUR_LOG),
        (10, 2, ON_OUR_LOG),
        (0, 9, ON_OUR_LOG),
        (4, 3, FetchValidation(diverging=OffsetAndEpoch(10, 2))),
        (7, 1, FetchValidation(diverging=OffsetAndEpoch(5, 1))),
        (12, 2, FetchValidation(diverging=OffsetAndEpoch(10, 2))),
        (12, 3, FetchValidation(diverging=OffsetAndEpoch(10, 2))),
        (5, 1, ON_OUR_LOG),
    ],
)
def test_fetch_position_is_validated_against_log(offset, epoch, position):
    log = log_of((5, 1), (5, 2))
    assert validate_fetch(log, offset, epoch) == position


def test_fetch_before_log_start_is_sent_to_snapshot():
    log = log_of((5, 1), (5, 2))
    log.add_snapshot(OffsetAndEpoch(5, 1), b"")
    log.clean()
    position = FetchValidation(snapshot_id=OffsetAndEpoch(5, 1))
    for offset, epoch in ((0, 0), (3, 1), (5, 0), (5, 2), (10, 0)):
        assert validate_fetch(log, offset, epoch) == position
    assert validate_fetch(log, 5, 1) == ON_OUR_LOG


def test_log_is_truncated_to_divergence_point():
    log = log_of((5, 1), (5, 3))
    assert truncation_offset(log, OffsetAndEpoch(3, 1)) == 3
    assert truncation_offset(log, OffsetAndEpoch(8, 1)) == 5
    assert truncation_offset(log, OffsetAndEpoch(7, 2)) == 5
    assert truncation_offset(log, OffsetAndEpoch(7, 3)) == 7
    assert truncation_offset(log, OffsetAndEpoch(0, 0)) == 0
    assert truncation_offset(log, OffsetAndEpoch(99, 0)) == 10


def test_node_with_lost_data_abstains_until_refetched():
    """R15: its log may be shorter than what it acknowledged."""
    log = log_of((5, 1))
    log.refetch_end = 8
    talk = Talk(log, ElectionState(1))
    assert talk.raft.deadline() == float("inf") or not isinstance(talk.raft.role, Prospective)
    for pre_vote in (True, False):
        asked = vote(epoch=5, last_epoch=1, end_offset=99, pre_vote=pre_vote)
        assert not talk.ask(asked).granted
    talk.now += 100
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    assert isinstance(talk.raft.role, Unattached)
    talk.ask(core.BeginQuorumEpochRequest(cluster_id="ours", epoch=5, leader_id=2, voter=None))
    for watermark, stands in ((5, False), (8, True)):
        talk.now += 1
        talk.raft.handle_timeout(talk.now)
        talk._drain()  # the leader receives a fetch
        entry = log_of((5, 1), (3, 1)).entries[-1:] if watermark == 8 else b""
        talk.answer(
            core.FetchResponse(epoch=5, leader_id=2, high_watermark=watermark, records=entry)
        )
        if watermark == 8:
            talk.raft.flushed(log.end_offset, talk.now)
            talk._drain()
            talk.raft.log_changed(talk.now)
            talk._drain()
            talk.answer(core.FetchResponse(epoch=5, leader_id=2, high_watermark=8))
        talk.now += 100
        talk.raft.handle_timeout(talk.now)
        talk._drain()
        assert isinstance(talk.raft.role, Prospective) == stands


def test_recovered_node_is_candidate_against_silent_leader():
    """R15 ends with the response that has the last record and its watermark."""
    log = log_of((5, 1))
    log.refetch_end = 8
    talk = Talk(log, ElectionState(1))
    talk.ask(core.BeginQuorumEpochRequest(cluster_id="ours", epoch=5, leader_id=2, voter=None))
    entries = log_of((5, 1), (3, 1)).entries[-1:]
    talk.answer(core.FetchResponse(epoch=5, leader_id=2, high_watermark=8, records=entries))
    talk.raft.flushed(log.end_offset, talk.now)
    talk._drain()
    talk.now += 100
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    assert isinstance(talk.raft.role, Prospective)


def test_own_slow_flush_is_not_leaders_silence():
    """While records are being flushed we send no request, so the leader has nothing to answer."""
    talk = Talk(log_of((5, 1)))
    talk.ask(core.BeginQuorumEpochRequest(cluster_id="ours", epoch=5, leader_id=2, voter=None))
    entry = log_of((5, 1), (3, 1)).entries[-1:]
    talk.answer(core.FetchResponse(epoch=5, leader_id=2, high_watermark=5, records=entry))
    talk.now = 1.5
    talk.raft.flushed(talk.log.end_offset, talk.now)
    talk._drain()
    talk.now = 2.1  # the last response is older than the fetch timeout
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    assert isinstance(talk.raft.role, Follower)
    talk.now = 3.6
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    assert isinstance(talk.raft.role, Prospective)


def test_resigning_leader_appends_nothing_more():
    """A frozen leader wakes up after its proposals have lingered long enough and the voters have been silent for too
    long.
    """
    timeouts = Timeouts(append_linger=0.025)
    talk = Talk(timeouts=timeouts).lead()
    end = talk.log.end_offset
    talk.raft.propose(b"x", 1, talk.raft.epoch)
    talk.raft.handle_timeout(talk.now)
    talk.now += timeouts.check_quorum
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    assert isinstance(talk.raft.role, Resigned)
    assert talk.log.end_offset == end
