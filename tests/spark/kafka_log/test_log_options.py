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
def test_unknown_options_are_refused(streaming):
    given = {"path": "/p", "nope": "1", "colums": "offset"}
    with pytest.raises(OptionError) as error:
        LogOptions.parse(given, streaming=streaming)
    assert str(error.value) == (
        "kafka_log: unknown option nope. Unknown option colums; did you mean columns? "
        "docs/spark_options.md has all options."
    )
    with pytest.raises(
        OptionError, match=r"x4\. And 2 more\. docs/spark_options\.md has all options\.$"
    ):
        LogOptions.parse({"path": "/p", **{f"x{i}": "1" for i in range(7)}}, streaming=streaming)
