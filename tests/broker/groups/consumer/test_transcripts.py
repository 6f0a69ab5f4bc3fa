"""Consumer groups as transcripts (`testdata/*.txt`).

Commands: `whole`, `settings`, `topics`, `beat` (ConsumerGroupHeartbeat), `leave`, `commit-offset`, `advance`, `reload`,
`fail-writes`, and of the classic protocol `join`, `sync`, `classic-beat`, `classic-leave`. A member reports its last
assignment as owned, unless `owned=` says otherwise. After each command the group is printed if it has changed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.broker.groups.driver import Driver, FakeTopics, subscription, topic_id
from tests.broker.groups.interpreter import GroupInterpreter, shown
from tests.datadriven import check_transcript
from trimaran.broker.groups.consumer.member import ConsumerMember
from trimaran.broker.groups.consumer.settings import ConsumerGroupSettings, MigrationPolicy
from trimaran.broker.groups.limits import GroupLimits
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.consumer_protocol import decode_assignment
from trimaran.wire.messages.join_group import JoinGroupResponse
from trimaran.wire.messages.sync_group import SyncGroupResponse

TESTDATA = Path(__file__).parent / "testdata"


def ranges(partitions) -> str:
    return ",".join(map(str, sorted(partitions)))


def printed(owned) -> str:
    topics = sorted((topic.rstrip(b"-").decode(), parts) for topic, parts in owned.items())
    return " ".join(f"{name}:{ranges(parts)}" for name, parts in topics) or "nothing"


def parsed(text: str) -> dict[str, list[int]]:
    words = text.strip("()").split()
    pairs = (word.split(":") for word in words)
    return {name: [int(part) for part in parts.split(",")] for name, parts in pairs}


class Interpreter(GroupInterpreter):
    def __init__(self) -> None:
        self.topics = FakeTopics()
        self.settings = ConsumerGroupSettings(assignment_interval_ms=0)
        self.limits = replace(GroupLimits(), initial_rebalance_delay_ms=0)
        self.driver = self.started()
        self.given: dict[str, dict[str, list[int]]] = {}
        self.epochs: dict[str, int] = {}
        self._seen: set[str] = set()
        self._group = ""
        self._tokens = 0

    def started(self, **more) -> Driver:
        return Driver(self.limits, settings=self.settings, topics=self.topics, **more)

    # -- the surroundings

    def do_settings(self, **values: str) -> None:
        if "migration" in values:
            values["migration"] = MigrationPolicy(values["migration"])
        numbers = {k: int(v) if k != "migration" else v for k, v in values.items()}
        self.driver.settings = self.settings = replace(self.settings, **numbers)

    def do_reload(self) -> None:
        old = self.driver
        self.driver = self.started(log=old.log, now=old.now)
        self.driver.answers = old.answers

    # -- the consumer protocol

    def do_beat(
        self,
        who: str,
        epoch: str | None = None,
        topics: str | None = None,
        owned: str | None = None,
        **more: str,
    ) -> list[str]:
        number = self.epochs.get(who, 0) if epoch is None else int(epoch)
        has = self.given.get(who, {}) if owned is None else parsed(owned)
        response = self.driver.consumer_heartbeat(
            who,
            number,
            topics=None if topics is None else topics.strip("()").split(),
            owned={} if number == 0 else has,
            regex=more.get("regex"),
            instance=more.get("instance"),
            assignor=more.get("assignor"),
        )
        if isinstance(response, ErrorCode):
            return [f"{who}: {response.name}"]
        self.epochs[who] = response.member_epoch
        if response.assignment is None:
            return [f"{who}: {shown(response) if self.whole else f'epoch {response.member_epoch}'}"]
        found = {t.topic_id: t.partitions for t in response.assignment.topic_partitions}
        self.given[who] = {t.rstrip(b"-").decode(): p for t, p in found.items()}
        if self.whole:
            return [f"{who}: {shown(response)}"]
        return [f"{who}: epoch {response.member_epoch}, {printed(found)}"]

    def do_leave(self, who: str, epoch: str = "-1", instance: str | None = None) -> list[str]:
        response = self.driver.consumer_heartbeat(who, int(epoch), instance=instance)
        if isinstance(response, ErrorCode):
            return [f"{who}: {response.name}"]
        self.epochs.pop(who, None)
        self.given.pop(who, None)
        return [f"{who}: left with {response.member_epoch}"]

    def do_commit_offset(
        self,
        offset: str,
        who: str = "",
        epoch: str = "-1",
        partition: str = "0",
        version: str = "9",
    ) -> list[str]:
        code = self.driver.commit_offset(
            int(offset),
            member_id=who,
            generation=int(epoch),
            partition=int(partition),
            version=int(version),
            topic_id=topic_id("t"),
        )
        return [f"{code.name}, committed {self.driver.offset(partition=int(partition))}"]

    # -- the classic protocol

    def do_join(
        self,
        who: str,
        topics: str = "t",
        instance: str | None = None,
        id: str | None = None,  # noqa: A002
        protocols: str = "range",
        version: str = "3",
    ) -> None:
        metadata = subscription(topics.strip("()").split())
        self.driver.join(
            self._token(who),
            self.ids.get(who, "") if id is None else id.strip("()"),
            client=who,
            instance=instance,
            version=int(version),
            protocols=[(name, metadata) for name in protocols.strip("()").split()],
        )
        self.driver.advance(0)

    def do_sync(self, who: str, gen: str, assign: str = "", **protocol: str) -> None:
        given = dict(pair.split("=") for pair in assign.strip("()").split())
        self.driver.sync(
            self._token(who),
            self.ids[who],
            int(gen),
            {self.ids[name]: assigned(parsed(part)) for name, part in given.items()},
            protocol_type=protocol.get("type"),
            protocol_name=protocol.get("name"),
        )

    def do_classic_beat(self, who: str, gen: str) -> list[str]:
        return [self.driver.heartbeat(self.ids.get(who, who), int(gen)).name]

    def do_classic_leave(self, who: str) -> list[str]:
        return [code.name for code in self.driver.leave((self.ids.get(who, who), None))]

    # -- printing

    @property
    def ids(self) -> dict[str, str]:
        found = {}
        for token, response in self.driver.answers.items():
            if isinstance(response, JoinGroupResponse) and response.member_id:
                found[token.partition("#")[0]] = response.member_id
        return found

    def _token(self, who: str) -> str:
        self._tokens += 1
        return f"{who}#{self._tokens}"

    def _named(self, text: str) -> str:
        for name, member_id in sorted(self.ids.items(), key=lambda item: -len(item[1])):
            text = text.replace(member_id, name)
        return text

    def what_came(self) -> list[str]:
        lines = []
        for token, response in self.driver.answers.items():
            if token not in self._seen:
                self._seen.add(token)
                lines.append(f"{token.partition('#')[0]}: {self._answer(response)}")
        state = self._state()
        if state != self._group:
            lines.append(f"= {state}")
            self._group = state
        return lines

    def _answer(self, response: object) -> str:
        if self.whole:
            return shown(response)
        code = ErrorCode(response.error_code)
        if isinstance(response, SyncGroupResponse):
            if code:
                return f"sync {code.name}"
            topics = decode_assignment(response.assignment).assigned_partitions
            return f"sync {printed({t.topic.encode(): t.partitions for t in topics})}"
        assert isinstance(response, JoinGroupResponse)
        if code:
            return f"join {code.name}"
        return f"joined generation {response.generation_id} leader {self._named(response.leader) or 'nobody'}"

    def _state(self) -> str:
        classic = self.driver.groups.get("g")
        if classic is not None:
            return "classic " + self._named(str(classic)).removeprefix("g ")
        group = self.driver.consumer_group("g")
        if group is None:
            return "none"
        members = "".join(
            f"\n    {self._member(m)}" for m in sorted(group.members.values(), key=str)
        )
        return f"{group.state.value} epoch {group.epoch} target {group.assignment_epoch}{members}"

    def _member(self, member: ConsumerMember) -> str:
        words = f"{self._named(member.id)} epoch {member.epoch} {member.state.name} has {printed(member.assigned)}"
        words += f" gives up {printed(member.revoking)}" if member.revoking else ""
        return words + " (classic)" * member.uses_classic_protocol


def assigned(topics: dict[str, list[int]]) -> bytes:
    from trimaran.wire.messages.consumer_protocol import (
        ConsumerProtocolAssignment,
        ConsumerProtocolAssignmentTopicPartition,
        encode_assignment,
    )

    return encode_assignment(
        ConsumerProtocolAssignment(
            assigned_partitions=[
                ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=partitions)
                for name, partitions in topics.items()
            ]
        ),
        0,
    )


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript_is_reproduced(path):
    check_transcript(path, Interpreter().handle)


def test_transcripts_exist():
    assert len(list(TESTDATA.glob("*.txt"))) >= 5
