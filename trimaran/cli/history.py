"""`partitions history`, `configs history`: the changes of one resource in the metadata log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli.configs import parse_resource
from trimaran.cli.connect import CONTROLLERS, Controllers
from trimaran.cli.metadata_source import open_source
from trimaran.cli.output import Format, clock, say, say_unknown, show_rows
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.inspect.metadata import history as metadata_history
from trimaran.quorum.metadata import image
from trimaran.wire import identity
from trimaran.wire.buffers import primitives

if TYPE_CHECKING:
    from trimaran.inspect.metadata.source import MetadataSource

LogPath = Annotated[
    Path | None,
    Parameter(
        help="A directory with a metadata log, ours or Apache Kafka's; by default the running quorum answers."
    ),
]
PARTITION_COLUMNS = ("offset", "time", "leader", "isr", "replicas")
CONFIG_COLUMNS = ("offset", "time", "resource", "key", "value", "before")


def partitions(
    partition: Annotated[str, Parameter(help="A partition, TOPIC/PARTITION, as orders/0.")],
    path: LogPath = None,
    /,
    *,
    controllers: Controllers = CONTROLLERS,
    output: Format = "table",
) -> None:
    """Shows the leaders, the ISR and the replicas of a partition over time.

    The log reaches back to the oldest snapshot that is kept; the state in that snapshot has no time.
    """
    wanted = _partition(partition)
    with open_source(path, controllers) as source:
        history = metadata_history.History(source)
        rows = [
            {
                "offset": change.offset,
                "time": _time(change.timestamp_ms),
                "leader": change.leader,
                "isr": list(change.isr),
                "replicas": list(change.replicas),
                "timestamp_ms": change.timestamp_ms,
                "topic_id": primitives.uuid_to_text(topic_id),
            }
            for topic_id, change in history.of_partition(wanted)
        ]
        if not rows:
            _ensure_topic_known(history, source, (image.TOPIC_RESOURCE, wanted.topic))
            raise UserError(
                f"there is no history of partition {wanted.partition} of topic {wanted.topic}",
                f"{source.name} has no record of it, as far back as it reaches",
                f"trimaran topics describe {wanted.topic} shows its partitions",
                exit_code=Exit.NO,
            )
    show_rows(rows, output, columns=PARTITION_COLUMNS, noun="change")
    say_unknown(history.unknown)


def _partition(text: str) -> identity.TopicPartition:
    topic, slash, index = text.rpartition("/")
    if not slash or not topic or not index.isdecimal():
        raise UserError(
            f"{text!r} is not a partition",
            "it is written TOPIC/PARTITION",
            "for example trimaran partitions history orders/0",
            exit_code=Exit.USAGE,
        )
    return identity.TopicPartition(topic, int(index))


def configs(
    resource: Annotated[
        str | None,
        Parameter(
            help="TYPE/NAME, as topic/orders or broker/11; or broker for all brokers. By default all resources."
        ),
    ] = None,
    path: LogPath = None,
    /,
    *,
    controllers: Controllers = CONTROLLERS,
    output: Format = "table",
) -> None:
    """Shows which configs were set, when, and their previous values. The value - means that the config was reset to its
    default. The log reaches back to the oldest snapshot that is kept; the state in that snapshot has no time. Secrets
    are hidden.
    """
    wanted = None if resource is None else parse_resource(resource)[:2]
    with open_source(path, controllers) as source:
        history = metadata_history.History(source)
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
            for change in history.of_configs(wanted)
        ]
        if not rows and wanted is not None:
            _ensure_topic_known(history, source, wanted)
            say(f"no config of {resource} was set, as far back as {source.name} reaches")
    show_rows(rows, output, columns=CONFIG_COLUMNS, noun="change")
    say_unknown(history.unknown)


def _ensure_topic_known(
    history: metadata_history.History, source: MetadataSource, resource: tuple[int, str]
) -> None:
    """Checks that a topic exists; configs of other resources may be set before these exist."""
    kind, name = resource
    if kind == image.TOPIC_RESOURCE and not history.knows(name):
        raise refused.no_topic(
            name, f"{source.name} has no record of it, as far back as it reaches"
        )


def _time(timestamp_ms: int) -> str | None:
    return None if timestamp_ms < 0 else clock(timestamp_ms)
