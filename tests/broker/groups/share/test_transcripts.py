"""Share groups as transcripts (`testdata/*.txt`).

Commands: `settings`, `topics`, `beat` (ShareGroupHeartbeat), `leave`, `initialize` (share coordinators store the named
states, except those in `failing`), `advance`, `reload`, `fail-writes`, `delete`, `gone-topics`, `log` (new
records). After each command the group is printed if it has changed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.broker.groups.driver import FakeTopics
from tests.broker.groups.interpreter import GroupInterpreter
from tests.broker.groups.share.driver import ShareDriver
from tests.datadriven import check_transcript
from trimaran.broker.groups.share.settings import ShareGroupSettings
from trimaran.wire.errors import ErrorCode

TESTDATA = Path(__file__).parent / "testdata"


def ranges(partitions) -> str:
    return ",".join(map(str, sorted(partitions)))


def name_of(topic_id: bytes) -> str:
    return topic_id.rstrip(b"-").decode()


def printed(owned) -> str:
    topics = sorted((name_of(topic), parts) for topic, parts in owned.items())
    return " ".join(f"{name}:{ranges(parts)}" for name, parts in topics) or "nothing"


class Interpreter(GroupInterpreter):
    def __init__(self) -> None:
        self.topics = FakeTopics()
        settings = ShareGroupSettings(assignment_interval_ms=0)
        self.driver = ShareDriver(topics=self.topics, share_settings=settings)
        self.epochs: dict[str, int] = {}
        self._group = ""
        self._seen = 0

    def do_settings(self, **values: str) -> None:
        numbers = {name: int(value) for name, value in values.items()}
        self.driver.share_settings = replace(self.driver.share_settings, **numbers)

    def do_reload(self) -> None:
        self.driver = self.driver.reloaded()

    def do_beat(
        self, who: str, epoch: str | None = None, topics: str | None = None, **more: str
    ) -> list[str]:
        number = self.epochs.get(who, 0) if epoch is None else int(epoch)
        names = None if topics is None else topics.strip("()").split()
        response = self.driver.beat(who, number, topics=names, **more)
        if isinstance(response, ErrorCode):
            return [f"{who}: {response.name}"]
        self.epochs[who] = response.member_epoch
        line = f"{who}: epoch {response.member_epoch}, next in {response.heartbeat_interval_ms} ms"
        if response.assignment is None:
            return [line]
        found = {t.topic_id: t.partitions for t in response.assignment.topic_partitions}
        return [f"{line}, {printed(found)}"]

    def do_leave(self, who: str) -> list[str]:
        self.epochs.pop(who, None)
        response = self.driver.beat(who, -1)
        if isinstance(response, ErrorCode):
            return [f"{who}: {response.name}"]
        return [f"{who}: epoch {response.member_epoch}"]

    def do_initialize(self, failing: str = "()") -> list[str]:
        wrong = failing.strip("()").split()
        found = []
        for _, asked in self.driver.initialize(
            lambda one: f"{name_of(one.topic_id)}:{one.partition}" in wrong
        ):
            offsets = " ".join(
                f"{name_of(one.topic_id)}:{one.partition}@{offset}"
                for one, offset in sorted(asked.offsets.items())
            )
            found.append(f"epoch {asked.state_epoch}: {offsets}")
        return found

    def do_delete(self) -> list[str]:
        code = self.driver.submit(self.driver.shard.delete_groups(["g"]))["g"]
        return [code.name]

    def do_gone_topics(self) -> None:
        self.driver.shard.topics_deleted({"any": bytes(16)}, self.driver.at)
        self.driver.settle()

    def do_log(self) -> list[str]:
        new, self._seen = self.driver.log[self._seen :], len(self.driver.log)
        return [self._record(record) for record in new]

    @staticmethod
    def _record(record) -> str:
        name = type(record.key).__name__.removeprefix("ShareGroup").removesuffix("Key")
        key = getattr(record.key, "member_id", "")
        if name == "StatePartitionMetadata" and record.value is not None:
            return f"{name} as shown"  # topics have no order
        value = str(record.value).partition("(")[2].rstrip(")") or "no value"
        return f"{name} {key}: {value}"

    def what_came(self) -> list[str]:
        self.driver.check_account()
        group = self.driver.group()
        now = "\n".join(self._described(group)) if group is not None else "no group"
        if now == self._group:
            return []
        self._group = now
        return [now]

    def _described(self, group) -> list[str]:
        loaded = self.driver.replayed().of("share")["g"]
        assert vars(loaded) == vars(group)
        states = group.known_states
        lines = [f"{group.state.value} epoch {group.epoch} target {group.assignment_epoch}"]
        for name in ("initializing", "initialized"):
            found = {key: topic.partitions for key, topic in getattr(states, name).items()}
            lines += [f"  {name} {printed(found)}"] if found else []
        if states.deleting:
            lines.append(f"  deleting {' '.join(sorted(states.deleting.values()))}")
        for _, member in sorted(group.members.items()):
            names, target = " ".join(member.subscribed_names), group.target.get(member.id)
            wanted = "" if target == member.assigned else f", target {printed(target or {})}"
            lines.append(f"  {member} of ({names}) has {printed(member.assigned)}{wanted}")
        return lines


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript_is_reproduced(path):
    check_transcript(path, Interpreter().handle)


def test_transcripts_exist():
    assert len(list(TESTDATA.glob("*.txt"))) >= 5
