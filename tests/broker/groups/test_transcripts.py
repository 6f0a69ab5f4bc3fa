"""Rebalances, static members and timeouts as transcripts (`testdata/*.txt`).

Commands: `whole`, `limits`, `join`, `sync`, `heartbeat`, `leave`, `commit-offset`, `advance`, `hold`, `commit`,
`fail-writes`, `reload`, `unload`, `group`, `deadline`, `log`. Members are called by the names in `as=`; the effects of
a command are printed as `name: answer`, then the group if it has changed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.broker.groups.driver import Driver, subscription
from tests.broker.groups.interpreter import GroupInterpreter, shown
from tests.datadriven import check_transcript
from trimaran.broker.groups.limits import GroupLimits
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.join_group import JoinGroupResponse
from trimaran.wire.messages.sync_group import SyncGroupResponse
from trimaran.wire.records.groups import GroupMetadataKey, GroupMetadataValue

TESTDATA = Path(__file__).parent / "testdata"


class Interpreter(GroupInterpreter):
    def __init__(self) -> None:
        self.driver = Driver()
        self.ids: dict[str, str] = {}
        self._seen: set[str] = set()
        self._group = ""
        self._tokens = 0

    # -- commands

    def do_limits(self, **values: str) -> None:
        limits = replace(GroupLimits(), **{name: int(value) for name, value in values.items()})
        self.driver = Driver(limits)

    def do_join(
        self,
        who: str,
        instance: str | None = None,
        version: str = "9",
        protocols: str = "range",
        type: str = "consumer",  # noqa: A002
        topics: str = "t",
        session: str = "10",
        rebalance: str = "60",
        id: str | None = None,  # noqa: A002
    ) -> None:
        metadata = subscription(topics.strip("()").split())
        self.driver.join(
            self._token(who),
            self.ids.get(who, "") if id is None else id.strip("()"),
            client=who,
            instance=instance,
            version=int(version),
            protocols=[(name, metadata) for name in protocols.strip("()").split()],
            protocol_type=type,
            session_ms=int(float(session) * 1000),
            rebalance_ms=int(float(rebalance) * 1000),
        )

    def do_sync(
        self, who: str, gen: str, assign: str = "", instance: str | None = None, **protocol: str
    ) -> None:
        given = dict(pair.split(":") for pair in assign.strip("()").split())
        self.driver.sync(
            self._token(who),
            self.ids[who],
            int(gen),
            {self.ids.get(name, name): part.encode() for name, part in given.items()},
            instance=instance,
            protocol_type=protocol.get("type"),
            protocol_name=protocol.get("name"),
        )

    def do_heartbeat(self, who: str, gen: str, instance: str | None = None) -> list[str]:
        return [self.driver.heartbeat(self.ids.get(who, who), int(gen), instance=instance).name]

    def do_leave(self, who: str = "", instance: str | None = None) -> list[str]:
        names = who.strip("()").split() or [""]
        codes = self.driver.leave(*[(self.ids.get(name, name), instance) for name in names])
        return [code.name for code in codes]

    def do_commit_offset(
        self, offset: str, who: str = "", gen: str = "-1", instance: str | None = None
    ) -> list[str]:
        code = self.driver.commit_offset(
            int(offset),
            member_id=self.ids.get(who, who),
            generation=int(gen),
            instance=instance,
        )
        return [f"{code.name}, committed {self.driver.offset()}"]

    def do_hold(self) -> None:
        self.driver.holding = True

    def do_commit(self) -> None:
        self.driver.commit()

    def do_reload(self, **limits: str) -> None:
        """Lets another coordinator take over with the log's content; it may have other limits."""
        old = self.driver
        changed = replace(old.limits, **{name: int(value) for name, value in limits.items()})
        self.driver = Driver(changed, log=old.log, now=old.now)
        self.driver.answers = old.answers

    def do_unload(self) -> None:
        self.driver.close()

    def do_deadline(self) -> list[str]:
        return [f"{self.driver.deadline():g}"]

    def do_log(self) -> list[str]:
        lines = []
        for record in self.driver.log:
            if not isinstance(record.key, GroupMetadataKey):
                continue
            value = record.value
            if isinstance(value, GroupMetadataValue):
                members = " ".join(
                    f"{self._named(m.member_id)}={m.assignment.decode()}" for m in value.members
                )
                lines.append(f"generation {value.generation} {value.protocol} [{members}]")
            else:
                lines.append("deleted")
        return lines

    # -- names

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
                lines.append(f"{token.partition('#')[0]}: {self._printed(token, response)}")
        group = self.driver.groups.get("g")
        state = "none" if group is None else self._named(str(group)).removeprefix("g ")
        if state != self._group:
            lines.append(f"= {state}")
            self._group = state
        return lines

    def _printed(self, token: str, response: object) -> str:
        who = token.partition("#")[0]
        if isinstance(response, JoinGroupResponse):
            printed = self._printed_join(who, response)
            return shown(response) if self.whole else printed
        if self.whole:
            return shown(response)
        assert isinstance(response, SyncGroupResponse)
        if response.error_code:
            return f"sync {ErrorCode(response.error_code).name}"
        return f"sync [{response.assignment.decode()}]"

    def _printed_join(self, who: str, response: JoinGroupResponse) -> str:
        code = ErrorCode(response.error_code)
        if code in {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED} and response.member_id:
            self.ids.setdefault(who, response.member_id)
            if self.ids[who] != response.member_id:
                self.ids[who] = response.member_id
        if code:
            return f"join {code.name}"
        leads = f" of {' '.join(self._named(m.member_id) for m in response.members)}"
        return (
            f"joined generation {response.generation_id} {response.protocol_name} "
            f"leader {self._named(response.leader)}{leads * bool(response.members)}"
            f"{' skip' * response.skip_assignment}"
        )


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript_is_reproduced(path):
    check_transcript(path, Interpreter().handle)


def test_transcripts_exist():
    assert len(list(TESTDATA.glob("*.txt"))) >= 5
