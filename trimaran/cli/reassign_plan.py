"""`reassign plan`: new places for the replicas of topics, spread over brokers and racks.

Like Apache Kafka's `kafka-reassign-partitions --generate`: every partition gets the placement of a new topic; the
number of replicas stays. Nothing is moved.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli import names
from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import put, say
from trimaran.client import brokers as client_brokers
from trimaran.client import partitions as client_partitions
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.quorum.controller.partitions import placement
from trimaran.quorum.metadata import image
from trimaran.wire.identity import NO_BROKER_EPOCH, BrokerId, TopicPartition

if TYPE_CHECKING:
    from trimaran.quorum.controller.partitions.placement import PlacementPrng

Assignment = Mapping[TopicPartition, Sequence[int]]
PLAN_VERSION = 1


def plan(
    *topics: str,
    to: Annotated[list[int] | None, Parameter(name="--to", consume_multiple=True)] = None,
    ignore_racks: bool = False,
    save_current: Path | None = None,
    brokers: Brokers = BROKERS,
) -> None:
    """Prints a plan for reassign apply, with the replicas of topics spread over brokers as for new topics.

    Args:
        topics: Topics to reassign; each may be a pattern, such as 'orders-*'; by default all except the internal ones.
        to: Ids of the brokers to place replicas on; by default all live brokers.
        ignore_racks: Do not spread the replicas of a partition over racks.
        save_current: Write the current assignment to this file, as a plan to go back.
    """
    with brokers.connected() as client:
        found, missing = names.topics_named(client, topics)
        if missing is not None:
            raise missing
        racks = client_brokers.racks_of(client)
        current = client_partitions.replicas_of(
            topic for topic in found if topics or not topic.is_internal
        )
        if ignore_racks:
            racks = dict.fromkeys(racks)
        proposed = propose(current, _chosen(racks, to), random.SystemRandom())
    if save_current is None:
        say(f"to go back: {as_plan(current)}")
    else:
        save_current.write_text(as_plan(current) + "\n")
    put(as_plan(proposed))


def _chosen(racks: Mapping[int, str | None], to: list[int] | None) -> Mapping[int, str | None]:
    refused.ensure_brokers_run(to or (), racks)
    return {i: rack for i, rack in racks.items() if to is None or i in to}


def propose(
    current: Assignment, racks: Mapping[int, str | None], prng: PlacementPrng
) -> Assignment:
    """Returns new replicas for each topic separately, with the number of replicas of its first partition; `racks` has
    the brokers to use by id.

    Raises:
        UserError: some brokers have a rack and some have none.
        KafkaError: INVALID_REPLICATION_FACTOR, there are too few brokers.
    """
    without = sorted(i for i, rack in racks.items() if rack is None)
    if 0 < len(without) < len(racks):
        raise UserError(
            "not every broker has a rack",
            f"brokers without a rack: {', '.join(map(str, without))}",
            "set broker.rack on all of them, or spread without racks: --ignore-racks",
            exit_code=Exit.NO,
        )
    usable = [
        image.BrokerRegistration(
            BrokerId(i), NO_BROKER_EPOCH, bytes(16), (), rack=rack, fenced=False
        )
        for i, rack in sorted(racks.items())
    ]
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(current):
        by_topic.setdefault(topic, []).append(index)
    found: dict[TopicPartition, Sequence[int]] = {}
    for topic, indexes in by_topic.items():
        factor = len(current[TopicPartition(topic, indexes[0])])
        placed = placement.place_replicas(usable, len(indexes), factor, prng)
        found.update(
            (TopicPartition(topic, index), item)
            for index, item in zip(indexes, placed, strict=True)
        )
    return found


def as_plan(assignment: Assignment) -> str:
    """Returns the JSON that `reassign apply` and Apache Kafka's tool read."""
    partitions = [
        {"topic": topic, "partition": index, "replicas": list(replicas)}
        for (topic, index), replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": PLAN_VERSION, "partitions": partitions})
