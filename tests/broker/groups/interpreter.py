"""The commands of transcripts that are alike for all kinds of groups."""

from __future__ import annotations

from itertools import groupby

from tests.broker.groups.driver import Driver, FakeTopics
from tests.datadriven import Step
from trimaran.wire.errors import ErrorCode
from trimaran.wire.schema import Struct


def shown(value: object) -> str:
    """Returns a message with all fields that are not empty; topics are sorted, because they have no order."""
    if isinstance(value, Struct):
        pairs = ((field.name, getattr(value, field.name)) for field in value.__fields__)
        fields = ", ".join(f"{name}={shown(item)}" for name, item in pairs if item)
        return f"{type(value).__name__}({fields})"
    if isinstance(value, list):
        items = [shown(item) for item in value]
        of_topics = value and hasattr(value[0], "topic_id")
        return f"[{', '.join(sorted(items) if of_topics else items)}]"
    return value.name if isinstance(value, ErrorCode) else repr(value)


class GroupInterpreter:
    """Each command is a method `do_NAME` that returns lines; `what_came` returns the lines after them.

    After the command `whole`, responses are printed with every field, and each command is followed by its records and,
    if they have changed, by all timers.
    """

    driver: Driver
    topics: FakeTopics
    whole = False
    _records = 0
    _timers = ""

    def handle(self, step: Step) -> str:
        method = getattr(self, f"do_{step.command.replace('-', '_')}")
        lines = method(**{name.replace("-", "_"): value for name, value in step.args.items()})
        return "\n".join([*(lines or []), *self.what_came(), *self._what_is_left()])

    def _what_is_left(self) -> list[str]:
        if not self.whole:
            return []
        new, self._records = self.driver.log[self._records :], len(self.driver.log)
        lines = []
        for _, run in groupby(new, key=lambda record: type(record.key)):  # members have no order
            lines += sorted(
                f"> {shown(record.key)}: {shown(record.value) if record.value else 'removed'}"
                for record in run
            )
        deadlines = self.driver.shard._timers._deadlines
        keys = sorted(deadlines, key=lambda key: (deadlines[key], key))
        timers = ", ".join(
            f"{' '.join((key.kind, key.member_id)).strip()} {deadlines[key]:g}" for key in keys
        )
        if timers != self._timers:
            lines.append(f"~ {timers}")
            self._timers = timers
        return lines

    def do_whole(self) -> None:
        self.whole = True

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
