"""The commands of transcripts that are alike for all kinds of groups."""

from __future__ import annotations

from tests.broker.groups.driver import Driver, FakeTopics
from tests.datadriven import Step
from trimaran.wire.errors import ErrorCode


class GroupInterpreter:
    """Each command is a method `do_NAME` that returns lines; `what_came` returns the lines after them."""

    driver: Driver
    topics: FakeTopics

    def handle(self, step: Step) -> str:
        method = getattr(self, f"do_{step.command.replace('-', '_')}")
        lines = method(**{name.replace("-", "_"): value for name, value in step.args.items()})
        return "\n".join([*(lines or []), *self.what_came()])

    def what_came(self) -> list[str]:
        raise NotImplementedError

    def do_topics(self, **counts: str) -> None:
        for name, count in counts.items():
            self.topics.set(name, int(count))

    def do_advance(self, to: str) -> list[str]:
        woken = self.driver.advance(float(to) - self.driver.now)
        return [f"woken at {' '.join(f'{when:g}' for when in woken)}"] if woken else []

    def do_fail_writes(self, code: str) -> None:
        self.driver.failing = None if code == "NONE" else ErrorCode[code]
