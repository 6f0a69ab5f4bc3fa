"""Changes of topics: their creation and deletion, partitions, configs, leaders, and deletion of the oldest records."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from trimaran.client import positions, record_deletion
from trimaran.client.changes import (
    DELETE,
    SET,
    TIMEOUT_MS,
    Change,
    alter_configs,
    create_partitions,
    create_topic,
    delete_topic,
    elect_leaders,
)
from trimaran.client.configs import config_rows
from trimaran.client.topic_partitions import ensure_partitions_exist
from trimaran.console.forms import Fields, count, needed, pairs
from trimaran.console.page import PageRequest
from trimaran.console.pages import topic as topic_page
from trimaran.console.pages import topics as topics_page
from trimaran.console.pages.topic import described
from trimaran.console.writes import ConsoleWrite, Preview
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted
from trimaran.quorum.metadata.image import TOPIC_RESOURCE
from trimaran.wire.identity import TopicPartition

if TYPE_CHECKING:
    from trimaran.client.record_deletion import RecordDeletion
    from trimaran.wire.blocking import BlockingClient


def page_of(name: str) -> str:
    return f"/topics/{quote(name, safe='')}"


def _create(question: PageRequest, fields: Fields) -> str:
    name = needed(fields, "name")
    configs = dict(pairs(fields, "configs", "="))
    partitions, replication = count(fields, "partitions"), count(fields, "replication")
    with question.cluster.client() as client:
        create_topic(client, name, partitions, replication, configs)
    return page_of(name)


def _delete(question: PageRequest, fields: Fields) -> str:
    name = question.path["topic"]
    if fields.get("confirm") != name:
        raise UserError(
            f"{name} was not deleted",
            "the name in the form is not the name of the topic",
            "type its exact name; what is deleted cannot be restored",
            exit_code=Exit.USAGE,
        )
    with question.cluster.client() as client:
        delete_topic(client, name)
    return "/topics"


def _config_change(fields: Fields) -> Change:
    """Returns the change that sets a config; an empty value resets it to its default."""
    key, value = needed(fields, "key"), fields.get("value", "")
    return (key, SET, value) if value else (key, DELETE, None)


def _alter_config(question: PageRequest, fields: Fields) -> str:
    name, change = question.path["topic"], _config_change(fields)
    with question.cluster.client() as client:
        alter_configs(client, TOPIC_RESOURCE, name, [change])
    return page_of(name)


def _preview_config(question: PageRequest, fields: Fields) -> Preview:
    name, change = question.path["topic"], _config_change(fields)
    key, _, value = change
    with question.cluster.client() as client:
        alter_configs(client, TOPIC_RESOURCE, name, [change], validate_only=True)
        rows = config_rows(client, TOPIC_RESOURCE, name, keys=[key])
    now = rows[0] if rows else {"value": None, "is_set": False}
    after = "its default" if value is None else value
    row = {"config": key, "now": now["value"], "after": after}
    if value is not None and now["value"] == value and now["is_set"]:
        summary = f"{name} has this value already."
    else:
        summary = f"One config of {name} would change."
    return Preview(summary, ("config", "now", "after"), [row], "Set it")


def _add_partitions(question: PageRequest, fields: Fields) -> str:
    name, wanted = question.path["topic"], count(fields, "count")
    with question.cluster.client() as client:
        create_partitions(client, name, wanted)
    return page_of(name)


def _preview_partitions(question: PageRequest, fields: Fields) -> Preview:
    name, wanted = question.path["topic"], count(fields, "count")
    with question.cluster.client() as client:
        now = len(described(client, name).partitions)
        create_partitions(client, name, wanted, validate_only=True)
    return Preview(
        f"{name} would get {counted(wanted - now, 'more partition')}. Most keys then belong to another partition than"
        " before, and partitions cannot be removed.",
        ("topic", "now", "after"),
        [{"topic": name, "now": now, "after": wanted}],
        "Add them",
    )


def _deletions(
    client: BlockingClient, question: PageRequest, fields: Fields
) -> list[RecordDeletion]:
    name, before = question.path["topic"], positions.parse_position(needed(fields, "before"))
    available = len(described(client, name).partitions)
    only = count(fields, "partition")
    wanted = list(range(available)) if only < 0 else [only]
    ensure_partitions_exist(name, wanted, available)
    return [
        record_deletion.deletion_in(client, TopicPartition(name, index), before) for index in wanted
    ]


def _purge(question: PageRequest, fields: Fields) -> str:
    with question.cluster.client() as client:
        for deletion in _deletions(client, question, fields):
            if deletion.size:
                record_deletion.delete_records(client, deletion, timeout_ms=TIMEOUT_MS)
    return page_of(question.path["topic"])


def _preview_purge(question: PageRequest, fields: Fields) -> Preview:
    with question.cluster.client() as client:
        found = _deletions(client, question, fields)
    rows = [
        {
            "partition": deletion.partition.partition,
            "begins at": deletion.start,
            "would begin at": deletion.before,
            "deleted": deletion.size,
        }
        for deletion in found
    ]
    total = sum(deletion.size for deletion in found)
    return Preview(
        f"{counted(total, 'offset')} of {question.path['topic']} would be deleted. What is deleted cannot be restored.",
        ("partition", "begins at", "would begin at", "deleted"),
        rows,
        "Delete them",
    )


def _elect(question: PageRequest, _: Fields) -> str:
    name = question.path["topic"]
    with question.cluster.client() as client:
        indexes = [partition.partition_index for partition in described(client, name).partitions]
        told = elect_leaders(client, {name: indexes})
    failed = {f"{topic}-{index}: {why}" for (topic, index), why in told.items() if why}
    if failed:
        raise UserError(
            f"{len(failed)} of {len(indexes)} partitions keep their leader",
            "; ".join(sorted(failed)[:5]),
            "check that the preferred replicas are live and in sync",
            exit_code=Exit.REFUSED,
        )
    return page_of(name)


_PATH, _PAGE = topic_page.PAGE.path, topic_page.PAGE
WRITES = (
    ConsoleWrite("/topics", "create topic", _create, topics_page.PAGE),
    ConsoleWrite(f"{_PATH}/delete", "delete topic", _delete, _PAGE),
    ConsoleWrite(f"{_PATH}/config", "alter config", _alter_config, _PAGE, _preview_config),
    ConsoleWrite(
        f"{_PATH}/partitions", "add partitions", _add_partitions, _PAGE, _preview_partitions
    ),
    ConsoleWrite(f"{_PATH}/purge", "delete records", _purge, _PAGE, _preview_purge),
    ConsoleWrite(f"{_PATH}/elect", "elect leaders", _elect, _PAGE),
)
