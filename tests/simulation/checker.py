"""The invariants R1–R12 and R15 of the metadata quorum, checked from outside after every event.

The checker never forgets and trusts no node: it examines roles, disks and messages. Each check counts how often it
applied (`evaluations`); a run in which a counter stays at zero has not tested that invariant. The checker examines only
the changes of an event; `everything.Everything` examines the whole state each time, and a test compares the two.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING

from tests.simulation.storage import GENESIS, Entry
from trimaran.quorum.raft.messages import (
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    Response,
    UpdateVoterRequest,
    VoteRequest,
    VoteResponse,
)
from trimaran.quorum.raft.ready import ControlRecord, VotersChange
from trimaran.quorum.raft.roles import Follower, Leader, Resigned, Role, vote_of
from trimaran.quorum.raft.types import ElectionState, ReplicaKey
from trimaran.quorum.raft.voters import VoterSet

if TYPE_CHECKING:
    from tests.simulation.node import SimNode
    from tests.simulation.world import World


def _voters(node: SimNode) -> tuple[int, ...]:
    """Returns the voters according to the node's own log: the newest set counts, committed or not."""
    return node.log.history.voters.ids


def _majority(voters: tuple[int, ...]) -> int:
    return len(voters) // 2 + 1


# Limit for one node in one second; twice the maximum of hundreds of runs.
REQUESTS_MAX = 200


class Violation(AssertionError):
    """An invariant does not hold; the first word is its id."""


class Checker:
    def __init__(self) -> None:
        self.nodes: dict[int, SimNode] = {}
        self.evaluations: Counter[str] = Counter()
        self.leaders: dict[int, int] = {}
        self.leaders_on_disk: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.votes: dict[tuple[int, int], int] = {}
        # nodes that granted a pre-vote, by candidate and its epoch
        self.pre_votes: dict[tuple[int, int], set[int]] = {}
        # (end offset, epoch of the last batch) → fingerprint of everything below, for every batch ever appended
        self.chains: dict[tuple[int, int], int] = {}
        # everything that was ever below a leader's high watermark: end offset → fingerprint, and the highest end offset
        self.committed: dict[int, int] = {0: GENESIS}
        self.committed_end = 0
        # by end offset: the epoch whose leader committed it
        self.committed_in: dict[int, int] = {}
        # by leader: the epoch in which it last moved the watermark
        self.committed_epoch_seen: dict[int, int] = {}
        self.known: dict[int, int] = {}
        self.acked: dict[int, int] = {}
        # by leader and epoch: when each voter last fetched, and when the voter set last changed
        self.fetches: dict[tuple[int, int], dict[int, float]] = {}
        self.sets: dict[tuple[int, int], tuple[tuple[int, ...], float]] = {}
        # by node: the role seen last; for a leader also its watermark and voters at that time, and when its quorum must
        # be checked
        self.seen: dict[int, Role] = {}
        self.watched: dict[int, tuple[int | None, VoterSet, float]] = {}
        # by node that has lost flushed data: the previous content of its disk, end offset → fingerprint
        self.promised: dict[int, dict[int, int]] = {}

    def fail(self, invariant: str, *facts: object) -> None:
        raise Violation(" ".join([invariant, *map(str, facts)]))

    def look(self, world: World) -> None:
        """Does nothing; the naive twin overrides it to check the whole state after every event."""

    def count(self, invariant: str) -> None:
        self.evaluations[invariant] += 1

    # --- R1, R2: epochs and leaders

    def saw_role(self, node: SimNode, role: Role, now: float) -> None:
        """Checks a node's role after each of its events."""
        if role is not self.seen.get(node.id):
            self._saw_another(node, role)
        if type(role) is Leader:
            self._watch(node, role, now)

    def _saw_another(self, node: SimNode, role: Role) -> None:
        self.seen[node.id] = role
        known = self.epochs.get(node.id, 0)
        if role.epoch < known:
            self.fail("R2 the epoch of", node.id, "went back to", role.epoch)
        if role.epoch > known:
            self.count("R2")
            self.epochs[node.id] = role.epoch
        if isinstance(role, Leader):
            self.watched.pop(node.id, None)
            self._saw_leader(node, role)

    def _saw_leader(self, node: SimNode, role: Leader) -> None:
        known = self.leaders.get(role.epoch)
        if known is None:
            self.leaders[role.epoch] = node.id
            self.fetches[(node.id, role.epoch)] = {}
            self.count("R1")
            self._check_completeness(node, role)
        elif known != node.id:
            self.fail("R1 two leaders in epoch", role.epoch, known, node.id)

    def _watch(self, node: SimNode, role: Leader, now: float) -> None:
        """Checks a leader's watermark and voters if they have changed, and its quorum once the check is due."""
        watermark, voters = role.leader_state.high_watermark, node.log.history.voters
        seen, counted, due = self.watched.get(node.id, (None, None, -inf))
        if watermark == seen and voters is counted and now < due:
            return
        if watermark is not None and watermark != seen:
            self.committed_epoch_seen[node.id] = role.epoch
            self._saw_watermark(node, watermark)
        if voters is not counted or now >= due:
            due = self._check_quorum(node, role, now)
        if watermark != seen or voters is not counted:
            self._check_leads_as_voter(node, role)
        self.watched[node.id] = watermark, voters, due

    def _check_completeness(self, node: SimNode, role: Leader) -> None:
        """Checks R5: a new leader has everything that was ever committed."""
        if self.committed_end == 0:
            return
        self.count("R5")
        if node.log.end_offset < self.committed_end:
            self.fail(
                "R5 leader",
                node.id,
                "of",
                role.epoch,
                "lacks committed offsets below",
                self.committed_end,
            )
        if self.committed_end >= node.log.start_offset:
            found = node.log.chain_at(self.committed_end)
            if found != self.committed[self.committed_end]:
                self.fail(
                    "R5 leader",
                    node.id,
                    "of",
                    role.epoch,
                    "has other data below",
                    self.committed_end,
                )

    def persisted(self, node: SimNode) -> None:
        """Checks R1 for the vote files, too."""
        election = node.disk.election
        if election.leader_id >= 0:
            known = self.leaders_on_disk.setdefault(election.epoch, election.leader_id)
            known = self.leaders.get(election.epoch, known)
            self.count("R1 on disk")
            if known != election.leader_id:
                self.fail(
                    "R1 vote files name two leaders of", election.epoch, known, election.leader_id
                )

    def sends(self, node: SimNode, message: Request | Response) -> None:
        """Checks R2: an epoch is on disk before any message with it is sent."""
        self.evaluations["R2 sent"] += 1
        epoch = getattr(message, "epoch", -1)  # some requests about voters have no epoch
        if epoch > node.disk.election.epoch and node.has_disk:
            self.fail(
                "R2",
                node.id,
                "speaks of epoch",
                epoch,
                "with",
                node.disk.election,
                "on disk",
            )

    # --- R3: votes

    def answers_vote(self, node: SimNode, request: VoteRequest, response: VoteResponse) -> None:
        if not response.granted:
            if (node.log.refetch_end or 0) > (node.raft.high_watermark or 0):
                self.count("R15")
            return
        if request.pre_vote:
            self._grants_pre_vote(node, request)
            return
        self.count("R3")
        self._keeps_promises(node, "votes")
        if request.epoch != node.raft.epoch:
            self.fail("R3", node.id, "votes in", request.epoch, "while in", node.raft.epoch)
        known = self.votes.setdefault((node.id, request.epoch), request.candidate.id)
        if known != request.candidate.id:
            self.fail("R3", node.id, "votes twice in", request.epoch, known, request.candidate.id)
        if self.leaders.get(request.epoch) == node.id:
            self.fail("R3", node.id, "votes in the epoch that it leads", request.epoch)

    def stands(self, node: SimNode, request: VoteRequest) -> None:
        """Checks a candidate's own vote."""
        if not request.pre_vote:
            self._keeps_promises(node, "stands")
            self._stands_after_pre_vote(node, request)
            known = self.votes.setdefault((node.id, request.epoch), node.id)
            if known != node.id:
                self.fail("R3", node.id, "stands in", request.epoch, "where it voted for", known)

    # --- R12: pre-votes

    def _grants_pre_vote(self, node: SimNode, request: VoteRequest) -> None:
        self.count("R12")
        role = node.raft.role
        has_leader = isinstance(role, Follower) and role.has_fetched and not role.leader_down
        if has_leader or isinstance(role, Leader):
            self.fail("R12", node.id, "grants a pre-vote beside a healthy leader", request)
        self.pre_votes.setdefault((request.candidate.id, request.epoch), set()).add(node.id)

    def _stands_after_pre_vote(self, node: SimNode, request: VoteRequest) -> None:
        """Checks that a candidate had pre-votes of a majority before it raised the epoch."""
        voters = _voters(node)
        granted = self.pre_votes.get((node.id, request.epoch - 1), set()) | {node.id}
        if len(granted & set(voters)) < _majority(voters):
            self.fail("R12", node.id, "stands in", request.epoch, "with pre-votes of", granted)

    def _keeps_promises(self, node: SimNode, does: str) -> None:
        """Checks R15: a node that lost flushed data neither votes nor becomes a candidate until it has fetched all of
        it again.
        """
        upto = node.log.refetch_end
        if upto is None:
            return
        if (node.raft.high_watermark or 0) < upto:
            self.fail("R15", node.id, does, "without what was damaged below", upto)

    # --- R4, R8: the log

    def appended(self, node: SimNode, entry: Entry) -> None:
        """Checks R4: two batches with the same end offset and epoch have identical logs below them, on all nodes at all
        times.
        """
        if entry.base != node.log.end_offset:
            self.fail("R4", node.id, "appends", entry, "at", node.log.end_offset)
        known = self.chains.setdefault((entry.next, entry.epoch), entry.chain)
        self.count("R4")
        if known != entry.chain:
            self.fail("R4", node.id, "has another", entry)

    def applies(self, node: SimNode, end: int, chain: int) -> None:
        """Checks R8: committed bytes are identical on all nodes, forever."""
        self.count("R8")
        if end > self.committed_end:
            self.fail(
                "R6", node.id, "applies", end, "where only", self.committed_end, "is committed"
            )
        if self.committed.get(end, chain) != chain:
            self.fail("R8", node.id, "applies other data below", end)

    def truncates(self, node: SimNode, offset: int) -> None:
        """Checks R7: a node truncates nothing that this process knows to be committed, and nothing committed that
        survived a crash. An exception is a follower in an epoch before the one that committed the data, because it was
        not part of that majority.
        """
        self.count("R7")
        lost = self.promised.get(node.id)
        if lost is not None:
            self.promised[node.id] = {end: chain for end, chain in lost.items() if end <= offset}
        if offset < self.known.get(node.id, 0):
            self.fail("R7", node.id, "truncates to", offset, "below", self.known[node.id])
        for entry in node.log.entries:
            is_committed = self.committed.get(entry.next) == entry.chain
            is_late = self.committed_in.get(entry.next, 0) > node.raft.epoch
            if entry.next > offset and is_committed and not is_late:
                self.fail("R7", node.id, "truncates the committed", entry, "to", offset)

    def crashed(self, node: SimNode) -> None:
        """Forgets the watermark that the process knew: an unflushed tail may have vanished or changed, although it is
        committed elsewhere.
        """
        self.known.pop(node.id, None)

    def knows_watermark(self, node: SimNode, offset: int) -> None:
        if offset > node.log.end_offset:
            self.fail("R6", node.id, "knows", offset, "beyond its log's end", node.log.end_offset)
        if isinstance(node.raft.role, Resigned):
            # it was still the leader when the watermark moved, and resigned in the same step because the voter set
            # without it was committed
            self._saw_watermark(node, offset)
        if offset > self.known.get(node.id, 0):
            self.known[node.id] = offset

    # --- R6: the high watermark

    def _saw_watermark(self, node: SimNode, offset: int) -> None:
        if offset <= self.committed_end:
            return
        chain = node.log.chain_at(offset)
        if chain is None:
            self.fail("R6 high watermark", offset, "of", node.id, "is no end of a batch")
        if self.chains.get((offset, node.raft.epoch)) != chain:
            self.fail(
                "R6 high watermark",
                offset,
                "of",
                node.id,
                "is not of its own epoch",
                node.raft.epoch,
            )
        self.count("R6")
        voters = _voters(node)
        holders = [v for v in voters if self._holds(v, offset, chain)]
        if len(holders) < _majority(voters):
            self.fail("R6 high watermark", offset, "of", node.id, "is durable on", holders, "only")
        self._commit_upto(node, offset)

    def _holds(self, voter: int, offset: int, chain: int | None) -> bool:
        """Whether the voter has the log up to `offset` on disk, or reported it as durable and lost it to damage that it
        has noticed and not yet repaired. The second case counts because of the purpose of the promise: a majority that
        elects must share a voter with the majority that commits, and the shared voter must have the data and vote
        accordingly. A voter that has lost the data abstains (R15, checked at every vote), so no electing majority
        contains it: the shared voter is another member of the committing majority. The voter votes again once its
        watermark is at or above everything that it ever had, that is, once it has fetched all of it again from a
        leader, which has the data (R5). Only the data that it really had on disk before the damage counts, and only
        while it abstains.
        """
        log = self.nodes[voter].log
        if log.durable_chain_at(offset) == chain:
            return True
        return log.refetch_end is not None and self.promised[voter].get(offset) == chain

    def lost(self, node: SimNode, promised: dict[int, int]) -> None:
        """Notes that a start found damage in flushed data; `promised` is the content of the disk before."""
        self.promised.setdefault(node.id, {}).update(promised)

    def repaired(self, node: SimNode) -> None:
        """Checks R15: the node knows a watermark at or above everything that it had on disk and that may be committed.

        The end of a batch with a damaged length is unknown. It suffices that the watermark is above the beginning of
        the batch: watermarks are ends of batches, so either this batch is committed up to its end, or another one is in
        its place and this one was never committed.
        """
        self.count("R15 repaired")
        promised, watermark = self.promised.pop(node.id, {}), node.raft.high_watermark or 0
        below = max((end for end in promised if end <= watermark), default=0)
        is_same = self.committed.get(below, promised.get(below)) == promised.get(below)
        if watermark == below < max(promised, default=0) and is_same:
            self.fail("R15", node.id, "forgets its damage before it has everything again")

    def opened(self, node: SimNode, election: ElectionState) -> None:
        """Checks R3: a start finds the written vote or is refused; and R4: all batches found were once appended."""
        for entry in node.log.entries:
            if self.chains.get((entry.next, entry.epoch)) != entry.chain:
                self.fail("R4", node.id, "has another", entry)
        self.count("R3 vote file")
        written = node.disk.election
        # files before KIP-853 lack the directory of the vote
        is_same_vote = written.voted == election.voted or (
            None not in (written.voted, election.voted) and election.voted.matches(written.voted)  # type: ignore[union-attr, arg-type]
        )
        if written[:2] != election[:2] or not is_same_vote:
            self.fail("R3", node.id, "wrote", written, "and finds", election)

    def started(self, node: SimNode) -> None:
        """Checks R3: a replica knows its vote while its epoch is the one in which it voted."""
        written = node.disk.election
        if written.voted is None or node.raft.epoch != written.epoch:
            return
        self.count("R3 start")
        vote = vote_of(node.raft.role)
        if vote is None or not vote.matches(written.voted):
            self.fail("R3", node.id, "voted for", written, "and starts as", node.raft.role)

    def _commit_upto(self, node: SimNode, offset: int) -> None:
        for entry in reversed(node.log.entries):
            if entry.next > offset:
                continue
            if entry.next <= self.committed_end:
                break
            self.committed[entry.next] = entry.chain
            self.committed_in[entry.next] = node.raft.epoch
        before = self.committed_end
        self.committed_end = offset
        if node.log.chain_at(before) not in (None, self.committed[before]):
            self.fail("R8 leader", node.id, "commits over what was committed below", before)

    # --- R9: snapshots

    def snapshots(self, node: SimNode, offset: int, chain: int) -> None:
        self.count("R9")
        if self.committed.get(offset) != chain:
            self.fail("R9 snapshot of", node.id, "at", offset, "is not the committed state")
        if isinstance(node.raft.role, Leader) and node.loading_snapshot:
            self.fail("R9 leader", node.id, "loads a snapshot")

    # --- R11: check-quorum

    def fetched(self, node: SimNode, request: Request, now: float) -> None:
        """Notes an accepted request: a fetch or an update of a voter counts for the leader's quorum."""
        replica: ReplicaKey | None
        if isinstance(request, (FetchRequest, FetchSnapshotRequest)):
            replica = request.replica
        elif isinstance(request, UpdateVoterRequest):
            replica = request.voter
        else:
            return
        heard = self.fetches.get((node.id, node.raft.epoch))
        if heard is not None and replica is not None:
            heard[replica.id] = now

    def _check_quorum(self, node: SimNode, role: Leader, now: float) -> float:
        """Returns the time until which the leader cannot break R11, whatever happens."""
        key = (node.id, role.epoch)
        voters = _voters(node)
        known, changed = self.sets.setdefault(key, (voters, now))
        if known != voters:
            changed = now
            self.sets[key] = (voters, now)
        needed = _majority(voters) - (node.id in voters)
        if needed == 0:
            return inf
        heard = self.fetches[key]
        times = sorted((heard.get(v, changed) for v in voters if v != node.id), reverse=True)
        latest = max(times[needed - 1], changed)
        since = now - latest
        # with five voters, two must have fetched since two had last done so: twice as long in the worst case
        limit = node.timeouts.check_quorum * min(2, needed)
        if since > node.timeouts.fetch:
            self.count("R11")
        if since > limit + 0.1:
            self.fail(
                "R11 leader", node.id, "of", role.epoch, "heard no majority for", f"{since:.1f} s"
            )
        return latest + node.timeouts.fetch

    # --- R10: changes of voters

    def changes_voters(self, node: SimNode, records: tuple[ControlRecord, ...]) -> None:
        """Checks R10 before a leader appends: one uncommitted change at a time, and any two majorities in force share a
        voter.
        """
        for record in records:
            if isinstance(record, VotersChange):
                self._changes_to(node, record.voters)

    def _changes_to(self, node: SimNode, voters: VoterSet) -> None:
        history = node.log.history
        self._check_endpoints(node, voters)
        before, after = set(history.voters.ids), set(voters.ids)
        if before == after:
            return
        self.count("R10")
        if len(before ^ after) > 1:
            self.fail("R10", node.id, "goes from", sorted(before), "to", sorted(after))
        offset = history.voters_offset
        if offset is None or offset >= self.committed_end:
            self.fail("R10", node.id, "changes voters while those at", offset, "are not committed")
        if self.committed_epoch_seen.get(node.id) != node.raft.epoch:
            self.fail("R10", node.id, "changes voters before it has committed in", node.raft.epoch)

    def _check_endpoints(self, node: SimNode, voters: VoterSet) -> None:
        """Checks R16, except in runs with a hostile node, which may answer in another node's name."""
        if node.world.faults.hostile_every:
            return
        for voter in voters:
            self.count("R16")
            ports = {endpoint.port for endpoint in voter.endpoints}
            if ports != {voter.id} or not node.world.nodes[voter.id].identity.can_vote:
                self.fail("R16", node.id, "writes for voter", voter.id, "the endpoints", ports)

    def _check_leads_as_voter(self, node: SimNode, role: Leader) -> None:
        """Checks that a node outside the committed voter set no longer leads."""
        if node.id in node.log.history.voters.by_id:
            return
        self.count("R10 leader outside")
        offset = node.log.history.voters_offset
        if offset is not None and offset < (role.leader_state.high_watermark or 0):
            self.fail("R10", node.id, "leads on, though the voters without it are committed")

    # --- L1: no node is busy in a loop

    def is_calm(self, node: SimNode, sent: int) -> None:
        if sent > REQUESTS_MAX:
            self.fail("L1", node.id, "sends more than", REQUESTS_MAX, "requests in a second")

    # --- clients

    def acks(self, node: SimNode, offset: int, chain: int) -> None:
        """Checks the acknowledgement that a client received for its batch, which ends at `offset`."""
        self.count("ack")
        self.acked[offset] = chain
        if self.committed.get(offset) != chain:
            self.fail("R5 ack of", offset, "by", node.id, "that is not committed")

    def acks_payload(self, node: SimNode, end: int, payload: int) -> None:
        """Checks that the acknowledged batch is the client's own."""
        at = node.log.index_of(end) - 1
        if at >= 0 and node.log.entries[at].payload != payload:
            self.fail("R5 ack of", end, "by", node.id, "where another batch stands")
