"""The overview: one sentence of verdict, its reasons, and what happened last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from trimaran.client.brokers import broker_rows
from trimaran.client.health import count_partitions, judge
from trimaran.client.partitions import is_under_min_isr, is_under_replicated, partitions_of
from trimaran.client.quorum import quorum_fields, replica_rows
from trimaran.console.page import Page, Question
from trimaran.errors import UserError

if TYPE_CHECKING:
    from wire.blocking import BlockingClient
    from wire.messages.metadata import MetadataResponseTopic

EVENTS_SHOWN = 8
# Topics whose min.insync.replicas is asked for: of more that are under-replicated one wants no exact count.
TOPICS_ASKED_MAX = 200
LINKS = {
    "quorum": "/quorum",
    "brokers": "/brokers",
    "offline": "/topics?show=offline",
    "under-min-isr": "/topics?show=under-replicated",
    "under-replicated": "/topics?show=under-replicated",
    "not-preferred": "/topics?show=not-preferred",
}


def view(question: Question) -> dict[str, Any]:
    cluster = question.cluster
    topics = cluster.topics()
    counts = count_partitions(topics)
    with cluster.client() as client:
        brokers = broker_rows(client, topics)
        quorum, voters = ask_quorum(client)
        under_min_isr = _under_min_isr(client, topics)
        cluster_id = client.refresh(()).cluster_id
    health = judge(voters, brokers, counts, under_min_isr)
    return {
        "cluster_id": cluster_id,
        "verdict": health.sentence,
        "level": health.level,
        "reasons": [
            {"level": one.level, "text": one.text, "link": LINKS[one.about]}
            for one in health.reasons
        ],
        "quorum": quorum,
        "voters": voters,
        "brokers": brokers,
        "counts": counts,
        "under_min_isr": under_min_isr,
        **_last_events(question),
    }


def ask_quorum(client: BlockingClient) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Fields of the quorum, and its voters; None and nobody where we may not ask, or brokers cannot tell."""
    from quorum.observing.live_quorum import describe_quorum
    from wire.client.errors import VersionMismatch
    from wire.errors import KafkaError

    try:
        partition = describe_quorum(client)
    except (KafkaError, VersionMismatch):
        return None, []
    if partition.error_code:
        return None, []
    rows = [row for row in replica_rows(partition) if row["role"] != "observer"]
    return quorum_fields(partition), rows


def _under_min_isr(client: BlockingClient, topics: Sequence[MetadataResponseTopic]) -> int:
    """How many partitions; at least so many, where there are very many."""
    concerned = [
        topic
        for topic in topics
        if not topic.error_code
        and any(len(one.isr_nodes) < len(one.replica_nodes) for one in topic.partitions)
    ]
    rows = partitions_of(client, concerned[:TOPICS_ASKED_MAX], [is_under_min_isr])
    return sum(map(is_under_replicated, rows))


def _last_events(question: Question) -> dict[str, Any]:
    """None where no controllers were named; why, where they do not answer: the rest of the page may still be true."""
    if question.cluster.controllers is None:
        return {"events": None, "events_missing": ""}
    try:
        events = question.cluster.log.events()
    except UserError as error:
        return {"events": None, "events_missing": f"{error.what}: {error.why}"}
    # Of partitions the broker that went away tells enough.
    told = (one for one in events if one.kind != "partition" or one.level == "bad")
    return {"events": list(islice(told, EVENTS_SHOWN)), "events_missing": ""}


PAGE = Page("/", "Overview", "overview.html", view)
