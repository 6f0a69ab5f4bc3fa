"""`reassign apply|list|verify|cancel`: partition reassignments, by the JSON that Apache Kafka's tool reads.

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [11, 12]}, …]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli import kafka_text
from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, KafkaFormat, say, show_rows
from trimaran.client import partitions
from trimaran.errors import refused as errors_refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted
from trimaran.wire import errors, identity
from trimaran.wire.identity import BrokerId
from trimaran.wire.messages import alter_partition_reassignments, list_partition_reassignments

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.messages.metadata import MetadataResponseTopic

PlanFile = Annotated[
    Path,
    Parameter(
        help="A JSON file, as trimaran reassign plan or Kafka's kafka-reassign-partitions prints it."
    ),
]
TIMEOUT_MS = 30_000
COMPLETE = "reassignment complete"
Wish = tuple[str, int, list[int]]
COLUMNS = ("topic", "partition", "replicas", "adding", "removing")


def read_plan(path: Path) -> list[Wish]:
    """Reads the moves in a file.

    Raises:
        UserError: the file cannot be read, or is not such JSON.
    """
    try:
        found = json.loads(path.read_text())
        wishes = [
            (
                str(partition["topic"]),
                int(partition["partition"]),
                [int(i) for i in partition["replicas"]],
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
    if len({wish[:2] for wish in wishes}) != len(wishes):
        raise UserError(
            f"{path} names a partition twice",
            "a partition can have one target only",
            "keep one of the entries",
            exit_code=Exit.USAGE,
        )
    return wishes


def apply(plan: PlanFile, *, dry_run: DryRun = False, brokers: Brokers = BROKERS) -> int:
    """Starts the reassignments of a plan. It replaces reassignments of the same partitions in progress."""
    wishes = read_plan(plan)
    with brokers.connected() as client:
        if dry_run:
            return _tell_moves(client, wishes)
        return _alter(
            client,
            [
                (topic, index, [BrokerId(replica) for replica in replicas])
                for topic, index, replicas in wishes
            ],
        )


def _tell_moves(client: BlockingClient, wishes: Sequence[Wish]) -> int:
    """Returns the moves of a plan; brokers check it only when it is applied."""
    present = _present(
        partitions.topics_of(client, list(dict.fromkeys(wish[0] for wish in wishes)))
    )
    moves = 0
    for topic, index, replicas in wishes:
        now = present.get(identity.TopicPartition(topic, index))
        if now is None:
            say(f"{topic}-{index}: no such partition")
        elif now != replicas:
            say(f"{topic}-{index}: from {_listed(now)} to {_listed(replicas)}")
        moves += now not in (None, replicas)
    say(f"{counted(moves, 'partition')} would move; nothing was changed")
    missing = any((topic, index) not in present for topic, index, _ in wishes)
    return Exit.NO if missing else Exit.OK


def _listed(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))


def _present(topics: Iterable[MetadataResponseTopic]) -> dict[identity.TopicPartition, list[int]]:
    """Returns the replicas by topic and partition."""
    return {
        identity.TopicPartition(topic.name or "", partition.partition_index): list(
            partition.replica_nodes
        )
        for topic in topics
        for partition in topic.partitions
    }


def cancel(plan: PlanFile, *, dry_run: DryRun = False, brokers: Brokers = BROKERS) -> int:
    """Cancels the reassignments of a plan that are in progress: the replicas stay where they were before."""
    wishes = read_plan(plan)
    with brokers.connected() as client:
        moving = {(row["topic"], row["partition"]) for row in _moves(client)}
        wanted = [(topic, i, None) for topic, i, _ in wishes if (topic, i) in moving]
        if not wanted:
            say("no reassignment of these partitions is in progress")
            return Exit.OK
        if not dry_run:
            return _alter(client, wanted)
    for topic, index, _ in wanted:
        say(f"{topic}-{index}: its reassignment would be cancelled")
    say(f"{counted(len(wanted), 'reassignment')} would be cancelled; nothing was changed")
    return Exit.OK


def list_moves(*, brokers: Brokers = BROKERS, output: Format = "table") -> None:
    """Lists reassignments in progress."""
    with brokers.connected() as client:
        show_rows(_moves(client), output, columns=COLUMNS)


def verify(plan: PlanFile, *, brokers: Brokers = BROKERS, output: KafkaFormat = "table") -> int:
    """Shows the state of each reassignment of a plan. Exit code 1 unless all are complete.

    Nothing is changed: throttles, which Kafka's tool would remove, stay.
    """
    wishes = read_plan(plan)
    names = list(dict.fromkeys(wish[0] for wish in wishes))
    with brokers.connected() as client:
        topics = partitions.topics_of(client, names)
        moving = {(row["topic"], row["partition"]) for row in _moves(client)}
    present = _present(topics)
    rows = [
        {
            "topic": topic,
            "partition": index,
            "wanted": replicas,
            "replicas": present.get(identity.TopicPartition(topic, index)),
            "moving": (topic, index) in moving,
            "state": state_of_move(
                present.get(identity.TopicPartition(topic, index)),
                replicas,
                (topic, index) in moving,
            ),
        }
        for topic, index, replicas in wishes
    ]
    show_rows(
        rows,
        output,
        columns=("topic", "partition", "state"),
        noun="partition",
        kafka=lambda: kafka_text.reassignment_states(rows),
    )
    return Exit.OK if all(row["state"] == COMPLETE for row in rows) else Exit.NO


def state_of_move(present: list[int] | None, wanted: list[int], moving: bool) -> str:
    if present is None:
        return "no such partition"
    if moving:
        return "reassignment in progress"
    return COMPLETE if present == wanted else f"no reassignment in progress, replicas are {present}"


def _moves(client: BlockingClient) -> list[dict[str, Any]]:
    answer = client.call(
        None, list_partition_reassignments.ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS)
    )
    errors_refused.check(answer.error_code, answer.error_message)
    return [
        {
            "topic": topic.name,
            "partition": partition.partition_index,
            "replicas": list(partition.replicas),
            "adding": list(partition.adding_replicas),
            "removing": list(partition.removing_replicas),
        }
        for topic in answer.topics
        for partition in topic.partitions
    ]


def _alter(client: BlockingClient, wishes: Sequence[tuple[str, int, list[BrokerId] | None]]) -> int:
    topics: dict[str, list[alter_partition_reassignments.ReassignablePartition]] = {}
    for name, index, replicas in wishes:
        asked = alter_partition_reassignments.ReassignablePartition(
            partition_index=index, replicas=replicas
        )
        topics.setdefault(name, []).append(asked)
    request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[
            alter_partition_reassignments.ReassignableTopic(name=name, partitions=listed)
            for name, listed in topics.items()
        ],
    )
    answer = client.call(None, request)
    errors_refused.check(answer.error_code, answer.error_message)
    refused = False
    for topic in answer.responses:
        for partition in topic.partitions:
            code = errors.ErrorCode.of(partition.error_code)
            refused = refused or code is not errors.ErrorCode.NONE
            said = (
                "reassignment started"
                if code is errors.ErrorCode.NONE
                else partition.error_message or code.name
            )
            say(f"{topic.name}-{partition.partition_index}: {said}")
    return Exit.REFUSED if refused else Exit.OK
