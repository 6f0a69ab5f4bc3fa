"""Random consumers against one shard, which must keep these invariants: G1 commits of old generations are fenced; G2 a
generation has one assignment and each part of it one owner; G3 acknowledged offsets are the ones fetched; G7 no request
waits forever; and replaying the log restores the state that wrote it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from tests.broker.groups.driver import Driver, subscription
from trimaran.broker.groups.classic.group import GroupState, restore_group
from trimaran.broker.groups.classic.operation import ClassicTimer
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.join_group import JoinGroupResponse
from trimaran.wire.messages.sync_group import SyncGroupResponse

LIMITS = GroupLimits(initial_rebalance_delay_ms=1_000, members_max=6)
SESSIONS_MS = (6_000, 10_000, 30_000)
REBALANCES_MS = (5_000, 20_000, 60_000)
PARTS = range(6)
# Repeated entries make an action more frequent.
ACTIONS = [
    *["join"] * 3,
    *["sync"] * 3,
    *["heartbeat"] * 2,
    *["commit"] * 2,
    *["advance"] * 2,
    *["leave", "forget", "hold", "release", "fail", "reload"],
]


@dataclass
class Consumer:
    """A client that is well-behaved most of the time."""

    name: str
    instance: str | None
    version: int
    member_id: str = ""
    generation: int = -1
    leads_over: list[str] = field(default_factory=list)
    parked: str | None = None


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.driver = Driver(LIMITS)
        self.consumers = [
            Consumer(f"c{i}", f"i{i % 3}" if i % 3 == 0 else None, self.random.choice((3, 5, 9)))
            for i in range(6)
        ]
        self.waiting: dict[str, Consumer] = {}
        self.serial = 0
        self.newest_generation = 0
        self.decision_of: dict[int, str] = {}
        self.owner_of: dict[tuple[int, str], str] = {}
        self.acked: int | None = None
        self.seen: set[str] = set()

    def token(self, consumer: Consumer) -> str:
        self.serial += 1
        token = f"{consumer.name}#{self.serial}"
        self.waiting[token] = consumer
        consumer.parked = token
        return token

    # -- actions of clients

    def act(self) -> None:
        consumer = self.random.choice(self.consumers)
        action = self.random.choice(ACTIONS)
        getattr(self, f"do_{action}")(consumer)
        self.read_answers()
        self.check()

    def do_join(self, consumer: Consumer) -> None:
        if consumer.parked is not None and self.random.random() < 0.8:
            return
        protocols = [("range", subscription(self.random.choice((["t"], ["t", "u"]))))]
        if self.random.random() < 0.3:
            protocols.append(("sticky", b"\0\0"))
        self.driver.join(
            self.token(consumer),
            consumer.member_id,
            client=consumer.name,
            instance=consumer.instance,
            version=consumer.version,
            protocols=protocols,
            session_ms=self.random.choice(SESSIONS_MS),
            rebalance_ms=self.random.choice(REBALANCES_MS),
        )

    def do_sync(self, consumer: Consumer) -> None:
        if consumer.generation < 0 or not consumer.member_id:
            return
        self.serial += 1
        parts = list(PARTS)
        self.random.shuffle(parts)
        members = consumer.leads_over
        given = {
            member: f"{self.serial}:{','.join(str(p) for p in parts[i :: len(members)])}".encode()
            for i, member in enumerate(members)
        }
        self.driver.sync(
            self.token(consumer),
            consumer.member_id,
            consumer.generation,
            given,
            instance=consumer.instance,
        )

    def do_heartbeat(self, consumer: Consumer) -> None:
        code = self.driver.heartbeat(
            consumer.member_id, consumer.generation, instance=consumer.instance
        )
        if code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}:
            consumer.member_id, consumer.generation = "", -1

    def do_commit(self, consumer: Consumer) -> None:
        self.serial += 1
        code = self.driver.commit_offset(
            self.serial,
            member_id=consumer.member_id,
            generation=consumer.generation,
            instance=consumer.instance,
        )
        if code is ErrorCode.NONE:
            self.acked = self.serial
            assert consumer.generation in {-1, self.newest_generation}, "a fenced commit (G1)"
        assert self.driver.offset() == self.acked

    def do_leave(self, consumer: Consumer) -> None:
        if self.random.random() < 0.5:
            self.driver.leave((consumer.member_id, consumer.instance))
            consumer.member_id, consumer.generation = "", -1

    def do_forget(self, consumer: Consumer) -> None:
        """Restarts the client, which remembers nothing."""
        consumer.member_id, consumer.generation, consumer.leads_over = "", -1, []

    def do_advance(self, _consumer: Consumer) -> None:
        self.driver.advance(self.random.choice((0.5, 1, 1, 3, 8, 25)))

    def do_hold(self, _consumer: Consumer) -> None:
        self.driver.holding = self.random.random() < 0.5

    def do_release(self, _consumer: Consumer) -> None:
        self.driver.failing = None
        self.driver.commit()

    def do_fail(self, _consumer: Consumer) -> None:
        if self.random.random() < 0.2:
            self.driver.failing = ErrorCode.COORDINATOR_NOT_AVAILABLE

    def do_reload(self, _consumer: Consumer) -> None:
        """Lets another coordinator take over, when no write of the old one is undecided."""
        if self.random.random() < 0.9:
            return
        old = self.driver
        old.holding, old.failing = False, None
        old.close()
        old.settle()
        self.read_answers()
        stored = old.replayed().of("classic").get("g")
        self.driver = Driver(LIMITS, log=old.log, now=old.now)
        # Generations restart after the last stored one: those in between had no owner.
        self.newest_generation = stored.generation if stored is not None else 0
        for generation in [g for g in self.decision_of if g > self.newest_generation]:
            raise AssertionError(f"generation {generation} was assigned and is lost")
        self.seen = set()

    # -- responses that clients receive

    def read_answers(self) -> None:
        for token, response in self.driver.answers.items():
            if token in self.seen:
                continue
            self.seen.add(token)
            consumer = self.waiting.pop(token)
            if consumer.parked == token:
                consumer.parked = None
            if isinstance(response, JoinGroupResponse):
                self.hear_join(consumer, response)
            else:
                assert isinstance(response, SyncGroupResponse)
                self.hear_sync(consumer, response)

    def hear_join(self, consumer: Consumer, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.NONE:
            consumer.member_id = response.member_id
            consumer.generation = response.generation_id
            members = [] if response.skip_assignment else response.members
            consumer.leads_over = [member.member_id for member in members]
            self.newest_generation = max(self.newest_generation, response.generation_id)
        elif response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            consumer.member_id = response.member_id
        elif response.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            consumer.member_id, consumer.generation = "", -1

    def hear_sync(self, consumer: Consumer, response: SyncGroupResponse) -> None:
        if response.error_code or not response.assignment:
            return
        decision, _, parts = response.assignment.decode().partition(":")
        group = self.driver.groups["g"]
        generation = group.generation
        assert self.decision_of.setdefault(generation, decision) == decision, "two assignments"
        owner = consumer.instance or consumer.member_id
        for part in parts.split(","):
            assert self.owner_of.setdefault((generation, part), owner) == owner, "two owners (G2)"

    # -- invariants

    def check(self) -> None:
        shard = self.driver.shard
        replayed = self.driver.replayed()
        assert replayed.offsets == shard.store.offsets
        assert replayed.of("classic") == shard.store.of("classic")
        self.driver.check_account()
        group = self.driver.groups.get("g")
        if group is None:
            return
        assert (group.leader is None) == (not group.members)
        assert group.leader is None or group.leader in group.members
        assert all(group.members[m].instance_id == i for i, m in group.instances.items())
        assert not group.pending & group.members.keys()
        assert group.awaiting_sync <= group.members.keys()
        timers = shard._timers
        if group.state is GroupState.PREPARING_REBALANCE:
            assert TimerKey(ClassicTimer.JOIN, "g") in timers
        if group.awaiting_sync:
            assert TimerKey(ClassicTimer.SYNC, "g") in timers
        for member in [*group.members.values()]:
            has_session = TimerKey(Timer.SESSION, "g", member.id) in timers
            assert has_session or member.satisfies_heartbeat
        in_doubt = self.driver.uncommitted or group.generation in self.driver.in_doubt
        if group.state is GroupState.STABLE and not in_doubt:
            restored = restore_group("g", shard.store.of("classic")["g"])
            assert restored.generation == group.generation
            assert {m.id: m.assignment for m in restored.members.values()} == {
                m.id: m.assignment for m in group.members.values()
            }

    def end(self) -> None:
        """Ends all members' heartbeats: every request is answered, and finally no member is left (G7)."""
        self.driver.holding, self.driver.failing = False, None
        self.driver.advance(15 * 60)
        self.read_answers()
        assert self.waiting == {}
        group = self.driver.groups.get("g")
        assert group is None or (group.state is GroupState.EMPTY and not group.pending)


def run(seed: int, steps: int) -> World:
    world = World(seed)
    for _ in range(steps):
        world.act()
    world.end()
    return world


@pytest.mark.parametrize("seed", range(10))
def test_random_groups_answer_every_request(seed):
    """`run` asserts the invariants after every step; this test asserts that finally every request was answered."""
    assert run(seed, 300).waiting == {}


@pytest.mark.slow
def test_random_groups_keep_making_progress():
    generations = [run(seed, 600).newest_generation for seed in range(1_000, 1_060)]
    assert sum(generations) > 400, "the consumers hardly ever got anywhere"
