"""Each option with its parsed value, or the error of an invalid one."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from tests.datadriven import check_transcript
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.options import OptionError
from trimaran.spark.origins.running_cluster.connection import ClusterSettings


def told(given, *, streaming):
    try:
        parsed = LogOptions.parse(given, streaming=streaming)
    except OptionError as error:
        return f"OptionError: {error}"
    default = LogOptions.parse(
        {"kafka.bootstrap.servers": "h:1"} if parsed.cluster else {"path": "/p"},
        streaming=streaming,
    )
    changed = {
        field.name: getattr(parsed, field.name)
        for field in fields(parsed)
        if getattr(parsed, field.name) != getattr(default, field.name)
    }
    return "\n".join(f"{name} = {said(value)}" for name, value in changed.items())


def said(value):
    """Formats like `repr`, with sets in order."""
    if isinstance(value, frozenset):
        return f"{{{', '.join(map(repr, sorted(value)))}}}"
    if is_dataclass(value) and not isinstance(value, ClusterSettings):
        parts = [f"{field.name}={said(getattr(value, field.name))}" for field in fields(value)]
        return f"{type(value).__name__}({', '.join(parts)})"
    return repr(value)


def test_options_are_parsed_as_written():
    """`read` and `stream` have options as JSON, and print what differs from the default; `defaults` prints those."""

    def run(step):
        text = step.source.splitlines()[-1].partition(" ")[2]
        if step.command == "defaults":
            parsed = LogOptions.parse(json.loads(text))
            lines = [
                f"{field.name} = {said(getattr(parsed, field.name))}" for field in fields(parsed)
            ]
            return "\n".join(lines)
        return told(json.loads(text), streaming=step.command == "stream")

    check_transcript(Path(__file__).parent / "testdata/options.txt", run)


@pytest.mark.parametrize("streaming", [False, True])
def test_unknown_option_is_refused(streaming):
    with pytest.raises(OptionError, match=r"unknown option nope\. Known are: assign, columns, "):
        LogOptions.parse({"path": "/p", "nope": "1"}, streaming=streaming)


def test_consumer_group_options_only_give_a_warning(caplog):
    names = (
        "groupIdPrefix",
        "kafka.group.id",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
    )
    given = {"path": "/p", **dict.fromkeys(names, "1")}
    assert LogOptions.parse(given) == LogOptions.parse({"path": "/p"})
    assert caplog.messages == [
        f"kafka_log: option {name} has no effect: no consumer group is used" for name in names
    ]
    caplog.clear()
    for wrong in ({"maxTriggerDelay": "5m"}, {"level": "batches", "includeHeaders": "true"}):
        with pytest.raises(OptionError, match="has no effect here"):
            LogOptions.parse({**given, **wrong})
    assert caplog.messages == []
