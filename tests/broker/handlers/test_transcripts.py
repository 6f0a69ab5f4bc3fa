"""Whole answers of the broker, version by version, as `testdata/*.txt` has them.

A step is `[as=NAME] [on=LISTENER] [sorted=FIELD] [once=1] [audited=1] Api VERSIONS` and the fields of the request, as
arguments of `dict`; `given NAME` changes the world. Fields with their default value are omitted. Versions with equal
answers are shown together. Reading requests are repeated as large ones, in the first and the last version: the answer
is the same, unless the step says `once`.
"""

from __future__ import annotations

import inspect
import logging
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.broker.batches import batch
from tests.broker.handlers.world import NOW_MS, World, open_world
from tests.cluster.data_side import topic_id
from tests.datadriven import REWRITE, SEPARATOR, parse_transcript
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.errors import ErrorCode

FILES = sorted((Path(__file__).parent / "testdata").glob("*.txt"))
READS = {
    "DescribeCluster",
    "DescribeGroups",
    "DescribeLogDirs",
    "DescribeProducers",
    "DescribeTopicPartitions",
    "DescribeTransactions",
    "Fetch",
    "FindCoordinator",
    "ListConfigResources",
    "ListGroups",
    "ListOffsets",
    "ListTransactions",
    "Metadata",
    "OffsetFetch",
    "OffsetForLeaderEpoch",
}
SHOWN_MAX = 12
# Values that differ between runs.
NEW = [
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"(transaction_start_time_ms)=\d{13}"), r"\1=<now>"),
    (re.compile(r"(total_bytes|usable_bytes)=\d+"), r"\1=<size>"),
    (re.compile(r"log_dir='[^']+'"), "log_dir=<path>"),
]
COMMAND = re.compile(r"((?:\w+=[\w.]+ )*)(\w+) (\d+)(?:-(\d+))?\s*(.*)", re.DOTALL)


def shown(value: Any, indent: str = "") -> str:
    """Returns the text of a struct without its defaults, with each struct of a list on lines of its own."""
    if isinstance(value, Struct):
        told = [
            (field.name, getattr(value, field.name))
            for field in value.__fields__
            if field.required or getattr(value, field.name) != _default(field)
        ]
        flat = [f"{name}={_plain(name, item)}" for name, item in told if not _is_nested(item)]
        lines = [" ".join(flat) or "-"]
        for name, each_item in told:
            if _is_nested(each_item):
                items = each_item if isinstance(each_item, list) else [each_item]
                each = [f"{indent}  {name}: {shown(item, indent + '  ')}" for item in items]
                lines += each if len(each) <= SHOWN_MAX else _abridged(each, indent)
        return "\n".join(lines)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(bytes(value))
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return repr(value)


def _abridged(lines: list[str], indent: str) -> list[str]:
    """Returns both ends of a long text, and a checksum of all of it."""
    between = f"{indent}  ... {len(lines)} in all, {zlib.crc32(''.join(lines).encode()):08x}"
    return [*lines[:2], between, lines[-1]]


def _plain(name: str, value: Any) -> str:
    return ErrorCode.of(value).name if name.endswith("error_code") else shown(value)


def _default(field: Any) -> Any:
    return [] if field.factory is list else field.value_default()


def _is_nested(value: Any) -> bool:
    is_list = isinstance(value, list) and value and isinstance(value[0], Struct)
    return is_list or isinstance(value, Struct)


def _bytes(data: bytes) -> str:
    name = data.rstrip(b"\0")
    if len(data) == 16:
        return f"id({name.decode('latin-1')})" if name else "-"
    return f"{len(data)} bytes"


def together(answers: list[tuple[int, str]]) -> Iterator[str]:
    """Groups consecutive versions with equal responses."""
    start = 0
    for index, (version, text) in enumerate(answers):
        if index + 1 == len(answers) or answers[index + 1][1] != text:
            first = answers[start][0]
            yield f"{first}: {text}" if first == version else f"{first}-{version}: {text}"
            start = index + 1


def _batch(*values: bytes, timestamp_ms: int = NOW_MS, **fields: Any) -> bytes:
    return bytes(batch(*values, timestamp_ms=timestamp_ms, **fields))


@contextmanager
def _audited(is_wanted: bool) -> Iterator[list[str]]:
    """Returns the lines of the audit log."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    audit = logging.getLogger("kafka.authorizer.logger")
    level = audit.level
    if is_wanted:
        audit.setLevel(logging.INFO)
        audit.addHandler(handler)
    try:
        yield lines
    finally:
        audit.removeHandler(handler)
        audit.setLevel(level)


class Transcript:
    def __init__(self, world: World) -> None:
        self.world = world

    async def step(self, source: str) -> str:
        command = " ".join(line for line in source.splitlines() if not line.startswith("#")).strip()
        if command.startswith("given "):
            return await self._given(command.removeprefix("given "))
        found = COMMAND.fullmatch(command)
        assert found is not None, command
        options, api, low, high, fields = found.groups()
        names: dict[str, Any] = {"NOW": NOW_MS, "id": topic_id, "p": dict, "batch": _batch}
        names["own"] = str(self.world.harness.directory.path)
        values = eval(f"dict({fields})", names)
        given = dict(part.split("=") for part in options.split())
        asking = {"name": given.get("as", ""), "listener": given.get("on", "PLAINTEXT")}
        answers = []
        for version in range(int(low), int(high or low) + 1):
            with _audited("audited" in given) as lines:
                text = await self._answer(api, version, values, given, asking)
            text += "".join(f"\naudit: {line}" for line in lines)
            if (
                api in READS
                and not {"audited", "once"} & given.keys()
                and version in (int(low), int(high or low))
            ):
                asking["heavy"] = True
                heavy = await self._answer(api, version, values, given, asking)
                asking["heavy"] = False
                assert heavy == text, (command, version)
            answers.append((version, text))
        created, self.world.topics.asked = self.world.topics.asked, []
        told = [f"creates {', '.join(n)}{' for the client' if c else ''}" for n, c in created]
        taken, self.world.controller.taken = self.world.controller.taken, []
        told += [f"forwards {shown(item, '  ')}" for item in taken]
        return "\n".join([*together(answers), *dict.fromkeys(told)])

    async def _answer(self, api, version, values, given, asking) -> str:
        answer = await self.world.ask(api, version, values, **asking)
        if (name := given.get("sorted")) is not None and not isinstance(answer, str):
            for each_item in getattr(answer, "groups", None) or [answer]:
                attrgetter(name)(each_item).sort(
                    key=lambda item: getattr(item, "name", shown(item))
                )
        text = shown(answer)
        for pattern, instead in NEW:
            text = pattern.sub(instead, text)
        return text

    async def _given(self, text: str) -> str:
        name, *words = text.split()
        done = getattr(self.world, f"given_{name}")(*words)
        if inspect.isawaitable(done):
            await done
        return ""


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
async def test_answers_are_those_of_the_transcript(tmp_path, path):
    written, wrong = [], []
    with trio.fail_after(300):
        async with open_world(tmp_path) as world:
            transcript = Transcript(world)
            for step in parse_transcript(path.read_text()):
                actual = await transcript.step(step.source) or "ok"
                if not REWRITE and actual != step.expected:
                    wrong.append(f"{path.name}:{step.line}: {step.source}\n{actual}")
                written.append(f"{step.source}\n{SEPARATOR}\n{actual}\n")
    assert not wrong, "\n".join(wrong)
    assert written
    if REWRITE:
        path.write_text("\n".join(written))
