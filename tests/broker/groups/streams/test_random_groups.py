"""Random members of a streams group: no task is active twice, and the group settles."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.groups.streams.driver import StreamsDriver, subtopology, topology
from trimaran.broker.groups.heartbeating.member import LEAVING_STATIC_EPOCH
from trimaran.broker.groups.streams.group import StreamsGroupState
from trimaran.broker.groups.streams.tasks import each
from trimaran.wire.errors import ErrorCode

NAMES = "abcd"
GIVEN = topology(subtopology("0", changelogs=["c"]), subtopology("1", ["u"]))

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "join",
                "join static",
                "beat",
                "beat",
                "beat",
                "give up",
                "leave",
                "absent",
                "wait",
                "grow",
            )
        ),
        st.sampled_from(NAMES),
    ),
    max_size=60,
)


def by_task(holders):
    return {
        (subtopology, partition): held
        for subtopology, mine in holders.items()
        for partition, held in mine.items()
    }


class Members:
    """The view of the members: their epochs and their tasks, as a client keeps them."""

    def __init__(self, standbys):
        self.driver = StreamsDriver()
        self.driver.topics.set("c", 4)
        self.driver.topics.set("u", 2)
        self.driver.streams_settings = replace(
            self.driver.streams_settings, standby_replicas=standbys
        )
        self.epochs = {}
        self.owned = {}  # active and standby tasks
        self.statics = set()

    def step(self, what, name):
        if what == "join" or what == "join static":
            static = what == "join static" or name in self.statics
            fields = {"instance_id": f"i-{name}"} if static else {}
            fields |= {"owned": ({}, {}), "process_id": self.process(name)}
            self._note(name, self.driver.beat(name, topology=GIVEN, **fields))
            if static and name in self.epochs:
                self.statics.add(name)
        elif what == "wait":
            self.driver.advance(20)
        elif what == "grow":
            self.driver.topics.set("u", 3)
        elif name in self.epochs:
            self._act(what, name)

    @staticmethod
    def process(name):
        return "p" if name in "ab" else name

    def _act(self, what, name):
        instance = {"instance_id": f"i-{name}"} if name in self.statics else {}
        if what == "leave" or (what == "absent" and not instance):
            self.driver.beat(name, -1, **instance)
            self._forget(name)
            self.statics.discard(name)
        elif what == "absent":
            self.driver.beat(name, -2, **instance)
            self._forget(name)
        else:
            answer = self.driver.beat(name, self.epochs[name], owned=self.owned[name], **instance)
            self._note(name, answer)

    def _forget(self, name):
        self.epochs.pop(name, None)
        self.owned.pop(name, None)

    def _note(self, name, answer):
        if isinstance(answer, ErrorCode):
            assert answer in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.UNRELEASED_INSTANCE_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            )
            self._forget(name)
            if answer is ErrorCode.UNKNOWN_MEMBER_ID:
                self.statics.discard(name)
            return
        told = answer.response
        self.epochs[name] = told.member_epoch
        if told.active_tasks is not None:
            self.owned[name] = tuple(
                {one.subtopology_id: set(one.partitions) for one in role}
                for role in (told.active_tasks, told.standby_tasks)
            )

    def check(self):
        """Checks what must always hold."""
        if "g" not in self.driver.shard.store.of("streams"):
            return
        group = self.driver.group
        active = {}
        beside = {}
        for member in group.members.values():
            for tasks in (member.assigned, member.revoking):
                for task in each(tasks.active):
                    assert active.setdefault(task, member.id) == member.id
                for task in each(tasks.standby):
                    beside.setdefault(task, []).append(member.id)
        assert by_task(group.active) == active
        assert {task: sorted(ids) for task, ids in by_task(group.standby).items()} == {
            task: sorted(set(ids)) for task, ids in beside.items()
        }
        assert all(group.active.values())
        assert all(group.standby.values())
        assert group.held_bytes == sum(member.held_bytes for member in group.members.values()) + (
            group.topology.bytes if group.topology else 0
        ) + sum(
            128 * sum(sum(map(len, role.values())) for role in tasks)
            for tasks in group.target.values()
        )


@settings(max_examples=120, deadline=None)
@given(STEPS, st.integers(0, 2))
def test_any_group_settles_and_reloads_unchanged(steps, standbys):
    members = Members(standbys)
    for what, name in steps:
        members.step(what, name)
        members.check()
    driver = members.driver
    driver.topics.set("u", 3)
    members.step("join", "a")
    for _ in range(30):  # heartbeats until nothing changes
        for name in NAMES:
            members.step("beat" if name in members.epochs else "wait?", name)
        driver.advance(4)
    members.check()
    group = driver.group
    present = [m for m in group.members.values() if m.epoch != LEAVING_STATIC_EPOCH]
    if present and len(present) == len(group.members) and set(group.members) == set(members.epochs):
        assert group.state is StreamsGroupState.STABLE
        tasks = sorted(task for m in present for task in each(m.assigned.active))
        assert tasks == [("0", p) for p in range(4)] + [("1", p) for p in range(3)]
    loaded = driver.reloaded().group
    assert loaded.__dict__ == group.__dict__
