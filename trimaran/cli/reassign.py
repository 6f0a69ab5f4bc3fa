"""`reassign apply|list|verify|cancel`: partition reassignments, by the JSON that Apache Kafka's tool reads.

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [11, 12]}, …]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli import kafka_text
from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, KafkaFormat, say, show_rows
from trimaran.client import partitions, reassignments
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted
from trimaran.wire import identity
from trimaran.wire.identity import BrokerId

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

    Wishes = Mapping[identity.TopicPartition, list[BrokerId]]

PlanFile = Annotated[
    Path,
    Parameter(
        help="A JSON file, as trimaran reassign plan or Kafka's kafka-reassign-partitions prints it."
    ),
]
COMPLETE = "reassignment complete"
COLUMNS = ("topic", "partition", "replicas", "adding", "removing")


def read_plan(path: Path) -> Wishes:
    """Reads the wanted replicas of partitions from a file.

    Raises:
        UserError: the file cannot be read, or is not such JSON.
    """
    try:
        found = json.loads(path.read_text())
        wishes = [
            (
                identity.TopicPartition(str(partition["topic"]), int(partition["partition"])),
                [BrokerId(replica) for replica in partition["replicas"]],
            )
            for partition in found["partitions"]
        ]
    except OSError as error:
        raise UserError(
            f"cannot read {path}",
            error.strerror or str(error),
            "write a plan into a file: trimaran reassign plan > FILE",
            exit_code=Exit.USAGE,
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is not a reassignment plan",
            f"{type(error).__name__}: {error}",
            'write {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}',
            exit_code=Exit.USAGE,
        ) from error
    by_partition = dict(wishes)
    if len(by_partition) != len(wishes):
        raise UserError(
            f"{path} names a partition twice",
            "a partition can have one target only",
            "keep one of the entries",
            exit_code=Exit.USAGE,
        )
    return by_partition


def apply(plan: PlanFile, *, dry_run: DryRun = False, brokers: Brokers = BROKERS) -> int:
    """Starts the reassignments of a plan. It replaces reassignments of the same partitions in progress."""
    wishes = read_plan(plan)
    with brokers.connected() as client:
        if dry_run:
            return _tell_moves(client, wishes)
        present = partitions.replicas_of(partitions.topics_of(client, _topics(wishes)))
        moving = _moving(client)
        there = [
            partition
            for partition, replicas in wishes.items()
            if present.get(partition) == replicas and partition not in moving
        ]
        for partition in there:
            say(f"{partition}: its replicas are {_listed(wishes[partition])} already")
        moves = {
            partition: replicas for partition, replicas in wishes.items() if partition not in there
        }
        return _alter(client, moves) if moves else Exit.OK


def _tell_moves(client: BlockingClient, wishes: Wishes) -> int:
    """Returns the moves of a plan; brokers check it only when it is applied."""
    present = partitions.replicas_of(partitions.topics_of(client, _topics(wishes)))
    moves = 0
    for partition, replicas in wishes.items():
        now = present.get(partition)
        if now is None:
            say(f"{partition}: no such partition")
        elif now != replicas:
            say(f"{partition}: from {_listed(now)} to {_listed(replicas)}")
        moves += now not in (None, replicas)
    say(f"{counted(moves, 'partition')} would move; nothing was changed")
    return Exit.NO if wishes.keys() - present.keys() else Exit.OK


def _topics(wishes: Wishes) -> list[str]:
    return list(dict.fromkeys(partition.topic for partition in wishes))


def _listed(replicas: Sequence[BrokerId]) -> str:
    return ",".join(map(str, replicas))


def cancel(plan: PlanFile, *, dry_run: DryRun = False, brokers: Brokers = BROKERS) -> int:
    """Cancels the reassignments of a plan that are in progress: the replicas stay where they were before."""
    wishes = read_plan(plan)
    with brokers.connected() as client:
        moving = _moving(client)
        wanted = {partition: None for partition in wishes if partition in moving}
        if not wanted:
            say("no reassignment of these partitions is in progress")
            return Exit.OK
        if not dry_run:
            return _alter(client, wanted)
    for partition in wanted:
        say(f"{partition}: its reassignment would be cancelled")
    say(f"{counted(len(wanted), 'reassignment')} would be cancelled; nothing was changed")
    return Exit.OK


def list_moves(*, brokers: Brokers = BROKERS, output: Format = "table") -> None:
    """Lists reassignments in progress."""
    with brokers.connected() as client:
        show_rows(reassignments.reassignment_rows(client), output, columns=COLUMNS)


def verify(plan: PlanFile, *, brokers: Brokers = BROKERS, output: KafkaFormat = "table") -> int:
    """Shows the state of each reassignment of a plan. Exit code 1 unless all are complete.

    Nothing is changed: throttles, which Kafka's tool would remove, stay.
    """
    wishes = read_plan(plan)
    with brokers.connected() as client:
        topics = partitions.topics_of(client, _topics(wishes))
        moving = _moving(client)
    present = partitions.replicas_of(topics)
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "wanted": replicas,
            "replicas": present.get(partition),
            "moving": partition in moving,
            "state": state_of_move(present.get(partition), replicas, partition in moving),
        }
        for partition, replicas in wishes.items()
    ]
    show_rows(
        rows,
        output,
        columns=("topic", "partition", "state"),
        noun="partition",
        kafka=lambda: kafka_text.reassignment_states(rows),
    )
    return Exit.OK if all(row["state"] == COMPLETE for row in rows) else Exit.NO


def state_of_move(
    present: Sequence[BrokerId] | None, wanted: Sequence[BrokerId], moving: bool
) -> str:
    if present is None:
        return "no such partition"
    if moving:
        return "reassignment in progress"
    return COMPLETE if present == wanted else f"no reassignment in progress, replicas are {present}"


def _moving(client: BlockingClient) -> set[identity.TopicPartition]:
    return {
        identity.TopicPartition(row["topic"], row["partition"])
        for row in reassignments.reassignment_rows(client)
    }


def _alter(
    client: BlockingClient, wishes: Mapping[identity.TopicPartition, list[BrokerId] | None]
) -> int:
    told = reassignments.alter_reassignments(client, wishes)
    for partition, failure in told.items():
        say(f"{partition}: {failure or 'reassignment started'}")
    return Exit.REFUSED if any(told.values()) else Exit.OK
