"""Cores that exchange messages under the control of a transcript: nothing arrives, expires or is flushed without a
command.

Commands (lists in parentheses):
    start voters=N [observers=K]          voters 1…N and observers, all started; with dynamic: by a bootstrap
                                          snapshot, and the observers are controllers too; with told: voters
                                          report their endpoints
    add node=I voter=J [early]            a client asks node I; its answer goes to 0
    remove node=I voter=J, upgrade node=I
    move node=I                           node I listens elsewhere from its next start on
    join node=I                           node I joins by itself from its next start on
    voters                                the newest set of each log
    timeout node=I                        the clock moves to what node I waits for
    deliver [only=(A->B)] [drop=(A->B)] [limit=N]   messages in flight arrive, also those that follow
    flush [nodes=(I)]                     what nodes have appended becomes durable
    stabilize [drop=(A->B)]               deliver and flush until nothing moves
    run seconds=S [drop=(A->B)]           the clock moves, everything due happens, messages take no time
    propose node=I records=(N,…)          batches with N records each
    gone node=I peer=L                    node I learns that the process of L is gone
    crash, power-cut, restart nodes=(I)
    shutdown node=I                       resign node=I
    state [nodes=(I)]                     log node=I
"""

from __future__ import annotations

from dataclasses import replace

from tests.datadriven import Step
from tests.simulation.storage import Disk, Entry, chain
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.changing import UpgradeRefused
from trimaran.quorum.raft.core import NotLeader, Raft
from trimaran.quorum.raft.ready import (
    ControlBatch,
    FollowerAppend,
    KRaftVersionChange,
    LeaderAppend,
    Proposal,
    VotersChange,
)
from trimaran.quorum.raft.types import Identity, Peer, ReplicaKey, Timeouts, VoterEndpoint
from trimaran.quorum.raft.voters import Voter, VoterSet


class Middle:
    """A source of randomness that always returns the average timeout."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2

    def random(self) -> float:
        return 0.0

    def randint(self, a: int, _b: int) -> int:
        return a


class Node:
    def __init__(self, world: Interaction, identity: Identity) -> None:
        self.world = world
        self.identity = identity
        self.disk = Disk()
        self.raft: Raft | None = None
        self.origins: dict[int, tuple[int, int]] = {}

    def start(self) -> None:
        self.disk.log.recover()
        self.origins = {}
        self.raft = Raft(
            self.identity,
            self.disk.log,
            self.disk.election,
            timeouts=Timeouts(),
            prng=Middle(),
            now=self.world.now,
        )
        self.settle()

    def settle(self) -> None:
        raft, log, out = self.raft, self.disk.log, self.world.out
        assert raft is not None
        me = self.identity.node_id
        while (ready := raft.ready()) is not None:
            if ready.election:
                self.disk.election = ready.election
                out.append(f"{me} saves {ready.election}")
            if ready.truncate_to is not None:
                out.append(f"{me} truncates to {log.truncate_to(ready.truncate_to)}")
            if isinstance(ready.append, LeaderAppend):
                for batch in ready.append.batches:
                    self._append(ready.append.epoch, batch)
            elif isinstance(ready.append, FollowerAppend):
                for entry in ready.append.records:
                    log.append(entry)  # type: ignore[arg-type]
            for reply in ready.replies:
                target, token = self.origins.pop(reply.token)
                self.world.post(me, target, token, self._fill(reply.response))
            for send in ready.sends:
                # a bootstrap server has no id; the port identifies it here
                self.world.post(me, send.to.port, send.token, send.request)
            if ready.committed is not None:
                out.append(f"{me} commits {ready.committed}")
            if ready.append or ready.truncate_to is not None:
                raft.log_changed(self.world.now)

    def _append(self, epoch: int, batch: ControlBatch | Proposal) -> None:
        log, me = self.disk.log, self.identity.node_id
        is_control = isinstance(batch, ControlBatch)
        control = batch.records if isinstance(batch, ControlBatch) else ()
        for record in control:
            if isinstance(record, VotersChange):
                self.world.out.append(f"{me} appends voters {record.voters}")
            elif isinstance(record, KRaftVersionChange):
                self.world.out.append(f"{me} appends kraft.version {record.version}")
        end = log.end_offset
        payload = -1 if is_control else me * 1000 + end
        fingerprint = chain(log.end_chain, epoch, payload)
        log.append(Entry(end, end + batch.record_count, epoch, payload, fingerprint, control))

    def _fill(self, answer: core.AnyResponse) -> core.AnyResponse:
        if isinstance(answer, core.FetchResponse) and answer.read is not None:
            at = answer.read.offset
            entries = [e for e in self.disk.log.entries if e.base >= at]
            return core.with_records(answer, entries)  # type: ignore[arg-type]
        return answer

    def receive(self, source: int, token: int, message: core.Message) -> None:
        assert self.raft is not None
        if isinstance(message, core.ApiVersionsRequest):
            answer = core.ApiVersionsResponse(kraft_versions=(0, 1))
            self.world.post(self.identity.node_id, source, token, answer)
            return
        if not isinstance(message, core.Response):
            mine = self.world.next_token()
            self.origins[mine] = (source, token)
            token = mine
        self.raft.receive(token, message, self.world.now)
        self.settle()

    def flush(self) -> bool:
        log = self.disk.log
        if self.raft is None or log.flushed_offset >= log.end_offset:
            return False
        log.finish_flush(log.begin_flush())
        self.raft.flushed(log.flushed_offset, self.world.now)
        self.settle()
        return True


class Interaction:
    def __init__(self) -> None:
        self.now = 0.0
        self.nodes: dict[int, Node] = {}
        self.flying: list[tuple[int, int, int, core.Message]] = []
        self.out: list[str] = []
        self._token = 1000

    def next_token(self) -> int:
        self._token += 1
        return self._token

    def post(self, source: int, target: int, token: int, message: core.Message) -> None:
        self.flying.append((source, target, token, message))
        self.out.append(f"{source}->{target} {message}")

    def handle(self, step: Step) -> str:
        self.out = []
        getattr(self, step.command.replace("-", "_"))(step)
        return "\n".join(self.out)

    # --- arguments

    def _one(self, step: Step) -> tuple[Node, Raft]:
        node = self.nodes[int(step.args["node"])]
        assert node.raft is not None
        return node, node.raft

    def _some(self, step: Step) -> list[Node]:
        return [self.nodes[int(word)] for word in _words(step, "nodes") or self.nodes]

    # --- commands

    def start(self, step: Step) -> None:
        size, observers = int(step.args["voters"]), int(step.args.get("observers", 0))
        voters = {i: Peer(i, "test", i) for i in range(1, size + 1)}
        for i in range(1, size + observers + 1):
            if "dynamic" in step.args:
                self.nodes[i] = _dynamic_node(self, i, size)
            else:
                identity = Identity(i, bytes([i]) * 16, "test", voters)
                if "told" in step.args:
                    identity = replace(identity, endpoints=_endpoints(i), listener="C")
                self.nodes[i] = Node(self, identity)
            self.nodes[i].start()

    def timeout(self, step: Step) -> None:
        node, raft = self._one(step)
        self.now = max(self.now, raft.deadline())
        raft.handle_timeout(self.now)
        node.settle()

    def run(self, step: Step) -> None:
        end = self.now + float(step.args["seconds"])
        while True:
            self.stabilize(step)
            alive = [node for node in self.nodes.values() if node.raft is not None]
            node = min(alive, key=lambda one: one.raft.deadline())  # type: ignore[union-attr]
            assert node.raft is not None
            if node.raft.deadline() > end:
                break
            self.now = node.raft.deadline()
            node.raft.handle_timeout(self.now)
            node.settle()
        self.now = end

    def add(self, step: Step) -> None:
        key = _key(int(step.args["voter"]))
        request = core.AddVoterRequest(
            cluster_id="test",
            voter=key,
            endpoints=_endpoints(key.id),
            ack_when_committed="early" not in step.args,
        )
        self._ask(step, request)

    def remove(self, step: Step) -> None:
        key = _key(int(step.args["voter"]))
        self._ask(step, core.RemoveVoterRequest(cluster_id="test", voter=key))

    def _ask(self, step: Step, request: core.Request) -> None:
        self._one(step)[0].receive(0, self.next_token(), request)

    def upgrade(self, step: Step) -> None:
        node, raft = self._one(step)
        try:
            raft.upgrade_kraft_version(1, raft.epoch, validate_only="validate" in step.args)
        except UpgradeRefused as refusal:
            self.out.append(str(refusal))
        node.settle()

    def move(self, step: Step) -> None:
        node = self.nodes[int(step.args["node"])]
        there = (VoterEndpoint("C", "moved", node.identity.node_id),)
        node.identity = replace(node.identity, endpoints=there)

    def join(self, step: Step) -> None:
        node = self.nodes[int(step.args["node"])]
        node.identity = replace(node.identity, auto_join=True)

    def voters(self, _step: Step) -> None:
        for i, node in self.nodes.items():
            history = node.disk.log.history
            self.out.append(
                f"{i}: {history.voters} from {history.voters_offset} version {history.kraft_version}"
            )

    def deliver(self, step: Step) -> None:
        limit = int(step.args.get("limit", 1000))
        while limit and self._deliver_one(_words(step, "only"), _words(step, "drop")):
            limit -= 1

    def _deliver_one(self, links: list[str], dropped: list[str]) -> bool:
        for at, (source, target, token, message) in enumerate(self.flying):
            link = f"{source}->{target}"
            if links and link not in links and link not in dropped:
                continue
            del self.flying[at]
            if target == 0:
                return True
            node = self.nodes[target]
            if link in dropped:
                self.out.append(f"dropped {link} {message}")
            elif node.raft is None:
                self.out.append(f"lost {link} {message}")
            else:
                node.receive(source, token, message)
            return True
        return False

    def flush(self, step: Step) -> None:
        for node in self._some(step):
            node.flush()

    def stabilize(self, step: Step) -> None:
        moved = True
        while moved:
            moved = self._deliver_one([], _words(step, "drop"))
            if not moved:
                for node in self.nodes.values():
                    moved = node.flush() or moved

    def propose(self, step: Step) -> None:
        node, raft = self._one(step)
        for count in _words(step, "records"):
            try:
                base = raft.propose(b"", int(count), raft.epoch)
            except NotLeader:
                self.out.append("not the leader")
                return
            self.out.append(f"{step.args['node']} appends [{base}, {base + int(count)})")
        node.settle()

    def gone(self, step: Step) -> None:
        node, raft = self._one(step)
        raft.peer_down(int(step.args["peer"]), self.now)
        node.settle()

    def crash(self, step: Step) -> None:
        for node in self._some(step):
            node.raft = None

    def power_cut(self, step: Step) -> None:
        for node in self._some(step):
            node.raft = None
            node.disk.log.power_cut(Middle())  # type: ignore[arg-type]

    def restart(self, step: Step) -> None:
        for node in self._some(step):
            node.start()

    def shutdown(self, step: Step) -> None:
        node, raft = self._one(step)
        raft.shutdown(self.now)
        node.settle()

    def resign(self, step: Step) -> None:
        node, raft = self._one(step)
        raft.resign(self.now)
        node.settle()

    def state(self, step: Step) -> None:
        for node in self._some(step):
            self.out.append(str(node.raft) if node.raft else f"{node.identity.node_id}: down")

    def log(self, step: Step) -> None:
        node = self.nodes[int(step.args["node"])]
        self.out += [f"[{e.base}, {e.next})@{e.epoch}" for e in node.disk.log.entries]


def _key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, bytes([node_id]) * 16)


def _endpoints(node_id: int) -> tuple[VoterEndpoint, ...]:
    return (VoterEndpoint("C", "test", node_id),)


def _dynamic_node(world: Interaction, node_id: int, size: int) -> Node:
    voters = VoterSet.of(Voter(_key(i), _endpoints(i), 0, 1) for i in range(1, size + 1))
    node = Node(
        world,
        Identity(
            node_id,
            _key(node_id).directory_id,
            "test",
            bootstrap=(Peer(-2, "test", 1),),
            endpoints=_endpoints(node_id),
            listener="C",
            is_controller=True,
        ),
    )
    if node_id <= size:
        node.disk.log.format(voters)
    return node


def _words(step: Step, name: str) -> list[str]:
    value = step.args.get(name, "").strip("()")
    return value.split(",") if value else []
