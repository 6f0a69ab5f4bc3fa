"""The topics of a streams group: its inputs, with offsets that can be reset, and the internal ones of Kafka Streams,
with the state of the application.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli.output import say
from trimaran.client import changes, partitions, rights, streams_groups
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire import errors, identity
from trimaran.wire.security import acls

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

InternalTopics = Annotated[
    bool,
    Parameter(
        name="--delete-internal-topics",
        negative="",
        help="Also delete the repartition and changelog topics of a streams group.",
    ),
]


def internal_topics_of(
    client: BlockingClient, found: Mapping[str, Any] | None, *, wanted: bool
) -> list[str]:
    """Returns the internal topics of a group that exist; none unless `wanted`. The topology also names those that were
    deleted before.

    Raises:
        UserError: the group cannot have any, or this client may not delete them all.
    """
    if not wanted:
        return []
    if found is None or found["type"] != "streams":
        raise UserError(
            "--delete-internal-topics is for streams groups",
            "there is no such group yet"
            if found is None
            else f"{found['group']} is a {found['type']} group, which has no internal topics",
            "leave it out",
            exit_code=Exit.USAGE,
        )
    named = streams_groups.internal_topics(found)
    if not named:
        return []
    if denied := rights.denied_topics(client, named, acls.Operation.DELETE):
        raise UserError(
            f"internal topics may not be deleted: {', '.join(denied)}",
            "TOPIC_AUTHORIZATION_FAILED: no DELETE for them; nothing was changed",
            "add an ACL that allows it (trimaran acls add), or leave --delete-internal-topics out",
            exit_code=Exit.REFUSED,
        )
    return [
        str(topic.name)
        for topic in partitions.topics_of(client, named)
        if topic.error_code != errors.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]


def ensure_inputs(
    found: Mapping[str, Any] | None, wanted: Iterable[identity.TopicPartition]
) -> None:
    """Raises UserError for a topic that the application of a streams group does not read."""
    if found is None or not found.get("subtopologies"):
        return
    inputs = {topic for told in found["subtopologies"] for topic in told["source_topics"]}
    for topic in sorted({topic for topic, _ in wanted} - inputs):
        raise UserError(
            f"{topic} is no input topic of {found['group']}",
            f"its topology reads {', '.join(sorted(inputs))}",
            f"trimaran groups describe {found['group']} --topology shows its topics",
            exit_code=Exit.USAGE,
        )


def delete_topics(client: BlockingClient, topics: Collection[str]) -> None:
    """Deletes internal topics, and reports each; another process may have deleted some since they were found.

    Raises:
        UserError: the cluster refused some of them.
    """
    left: dict[str, errors.KafkaError] = {}
    for topic in topics:
        try:
            if changes.delete_topic_if_known(client, topic):
                say(f"deleted topic {topic}")
        except errors.KafkaError as error:
            left[topic] = error
    if left:
        raise UserError(
            f"not deleted: {', '.join(left)}",
            str(next(iter(left.values()))),
            "trimaran topics delete NAME deletes a topic, when this is allowed",
            exit_code=Exit.REFUSED,
        )
