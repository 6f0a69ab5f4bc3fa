"""The overview: a verdict in one sentence, its reasons, and the latest events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from trimaran.client.brokers import broker_rows
from trimaran.client.health import count_partitions, judge
from trimaran.client.partitions import is_under_min_isr, is_under_replicated, partitions_of
from trimaran.client.quorum import ask_quorum
from trimaran.console.page import Page, PageRequest
from trimaran.console.pages.charts import sparks
from trimaran.errors.user_error import UserError

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.messages.metadata import MetadataResponseTopic

EVENTS_SHOWN = 8
# An election takes about a second; without a leader the rest of the page is still shown.
LEADER_SECONDS = 2.0
# The most topics whose min.insync.replicas is read: with more under-replicated ones, no exact count is needed.
TOPICS_ASKED_MAX = 200
LINKS = {
    "quorum": "/quorum",
    "brokers": "/brokers",
    "certificates": "/brokers",
    "clocks": "/quorum",
    "offline": "/topics?show=offline",
    "under-min-isr": "/topics?show=under-replicated",
    "under-replicated": "/topics?show=under-replicated",
    "not-preferred": "/topics?show=not-preferred",
}


def view(question: PageRequest) -> dict[str, Any]:
    cluster = question.cluster
    topics = cluster.topics()
    counts = count_partitions(topics)
    with cluster.client() as client:
        brokers = broker_rows(client, topics)
        quorum, voters, of_quorum = ask_quorum(client, LEADER_SECONDS)
        under_min_isr = _under_min_isr(client, topics) if counts.under_replicated else 0
        cluster_id = client.refresh(()).cluster_id
    health = judge(voters, brokers, counts, under_min_isr, of_quorum)
    return {
        "cluster_id": cluster_id,
        "verdict": health.sentence,
        "level": health.level,
        "reasons": [
            {"level": reason.level, "text": reason.text, "link": LINKS[reason.about]}
            for reason in health.reasons
        ],
        "quorum": quorum,
        "voters": voters,
        "brokers": brokers,
        "counts": counts,
        "under_min_isr": under_min_isr,
        "sparks": sparks(question),
        **_last_events(question, has_leader=quorum is not None),
    }


def _under_min_isr(client: BlockingClient, topics: Sequence[MetadataResponseTopic]) -> int:
    """Returns the number of partitions; a lower bound if there are very many."""
    concerned = [
        topic
        for topic in topics
        if not topic.error_code
        and any(
            len(partition.isr_nodes) < len(partition.replica_nodes)
            for partition in topic.partitions
        )
    ]
    rows = partitions_of(client, concerned[:TOPICS_ASKED_MAX], [is_under_min_isr])
    return sum(map(is_under_replicated, rows))


def _last_events(question: PageRequest, *, has_leader: bool) -> dict[str, Any]:
    """Returns the last events; None if no controllers were named; the error if they do not respond, since the rest of
    the page is still valid.
    """
    if question.cluster.controllers is None:
        return {"events": None, "events_missing": ""}
    if not has_leader:
        return {"events": None, "events_missing": "No events now: the quorum has no leader."}
    try:
        events = question.cluster.log.events()
    except UserError as error:
        return {"events": None, "events_missing": f"{error.what}: {error.why}"}
    # The event of the lost broker implies those of its partitions.
    told = (event for event in events if event.kind != "partition" or event.level == "bad")
    return {"events": list(islice(told, EVENTS_SHOWN)), "events_missing": ""}


PAGE = Page("/", "Overview", "overview.html", view)
