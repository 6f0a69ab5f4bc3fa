"""`partitions history`, `configs history`: what became of one thing, as the metadata log says it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trimaran.cli.connect import CONTROLLERS, Controllers
from trimaran.cli.output import Format, clock, show_rows
from trimaran.errors import Exit, UserError

LogPath = Annotated[
    Path | None,
    Parameter(
        help="A directory of a metadata log, ours or Apache Kafka's; a running quorum if not given."
    ),
]
PARTITION_COLUMNS = ("offset", "time", "leader", "isr", "replicas")
CONFIG_COLUMNS = ("offset", "time", "resource", "key", "value", "before")


def partitions(
    partition: Annotated[str, Parameter(help="TOPIC/PARTITION, as orders/0.")],
    path: LogPath = None,
    /,
    *,
    controllers: Controllers = CONTROLLERS,
    output: Format = "table",
) -> None:
    """Shows who led a partition, with which ISR and replicas, and since when.

    The log reaches back to the oldest snapshot that is kept; what was so already then has no time.
    """
    from trimaran.cli.metadata_source import open_source
    from trimaran.metadata.history import History
    from wire.primitives import uuid_to_text

    topic, index = _partition(partition)
    with open_source(path, controllers) as source:
        rows = [
            {
                "offset": change.offset,
                "time": _time(change.timestamp_ms),
                "leader": change.leader,
                "isr": list(change.isr),
                "replicas": list(change.replicas),
                "timestamp_ms": change.timestamp_ms,
                "topic_id": uuid_to_text(topic_id),
            }
            for topic_id, change in History(source).of_partition(topic, index)
        ]
        if not rows:
            raise UserError(
                f"nothing is known of partition {index} of topic {topic}",
                f"{source.name} has no record of it, as far back as it reaches",
                f"trimaran topics describe {topic} shows the partitions there are",
                exit_code=Exit.NO,
            )
    show_rows(rows, output, columns=PARTITION_COLUMNS, noun="change")


def _partition(text: str) -> tuple[str, int]:
    topic, slash, index = text.rpartition("/")
    if not slash or not topic or not index.isdecimal():
        raise UserError(
            f"{text!r} is no partition",
            "it is written TOPIC/PARTITION",
            "trimaran partitions history orders/0",
            exit_code=Exit.USAGE,
        )
    return topic, int(index)


def configs(
    resource: Annotated[
        str | None,
        Parameter(help="TYPE/NAME, as topic/orders or broker/11; broker for all brokers."),
    ] = None,
    path: LogPath = None,
    /,
    *,
    controllers: Controllers = CONTROLLERS,
    output: Format = "table",
) -> None:
    """Shows what was set of a resource, or of all, what it was before, and when. A value of - is one taken back.

    The log reaches back to the oldest snapshot that is kept; what was so already then has no time. Secrets are hidden.
    """
    from trimaran.cli.configs import parse_resource
    from trimaran.cli.metadata_source import open_source
    from trimaran.metadata.history import History

    wanted = None if resource is None else parse_resource(resource)[:2]
    with open_source(path, controllers) as source:
        rows = [
            {
                "offset": change.offset,
                "time": _time(change.timestamp_ms),
                "resource": change.address,
                "key": change.key,
                "value": change.value,
                "before": change.before,
                "timestamp_ms": change.timestamp_ms,
            }
            for change in History(source).of_configs(wanted)
        ]
    show_rows(rows, output, columns=CONFIG_COLUMNS, noun="change")


def _time(timestamp_ms: int) -> str | None:
    return None if timestamp_ms < 0 else clock(timestamp_ms)
