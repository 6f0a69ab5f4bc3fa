"""Judges whether a cluster is healthy, in one sentence, with reasons about the quorum, the brokers and the partitions.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from trimaran.node.text.wording import counted
from trimaran.wire.identity import NodeId

if TYPE_CHECKING:
    from trimaran.wire.messages.metadata import MetadataResponseTopic

GOOD, WARNING, BAD = LEVELS = ("good", "warning", "bad")
# A live voter fetches twice a second; a voter with a longer lag could not take over immediately.
VOTER_SILENT_MS = 5_000
# The default of leader.imbalance.per.broker.percentage.
NOT_PREFERRED_PERCENT = 10
# Reasons that are reported of a healthy cluster.
NOTES = frozenset({"not-preferred", "clocks", "certificates"})


class Reason(NamedTuple):
    """A reason for the verdict. `about` is quorum, brokers, clocks, certificates, or a kind of partitions: offline,
    under-min-isr, under-replicated, not-preferred.
    """

    level: str
    text: str
    about: str


class PartitionCounts(NamedTuple):
    """Numbers of partitions over all topics."""

    topics: int = 0
    partitions: int = 0
    offline: int = 0
    under_replicated: int = 0
    not_preferred: int = 0


class Health(NamedTuple):
    """The health of a cluster; `reasons` is empty for a healthy one."""

    level: str
    sentence: str
    reasons: list[Reason]

    @property
    def is_healthy(self) -> bool:
        return all(reason.about in NOTES for reason in self.reasons)


def count_partitions(topics: Iterable[MetadataResponseTopic]) -> PartitionCounts:
    total = partitions = offline = under_replicated = not_preferred = 0
    for topic in topics:
        total += 1
        for partition in topic.partitions:
            partitions += 1
            leader, replicas = partition.leader_id, partition.replica_nodes
            if leader < 0:
                offline += 1
            elif replicas and leader != replicas[0]:
                not_preferred += 1
            if len(partition.isr_nodes) < len(replicas):
                under_replicated += 1
    return PartitionCounts(total, partitions, offline, under_replicated, not_preferred)


def judge(
    voters: Sequence[Mapping[str, Any]],
    brokers: Sequence[Mapping[str, Any]],
    counts: PartitionCounts,
    under_min_isr: int = 0,
    beside: Iterable[Reason] = (),
) -> Health:
    """Judges a cluster. `voters` and `brokers` are rows of `client.quorum` and `client.brokers`; no voters means that
    they did not respond.

    `beside` has further problems, such as those of a mirror.
    """
    reasons = [
        *beside,
        *_of_voters(voters),
        *_of_brokers(brokers),
        *_of_partitions(counts, under_min_isr),
    ]
    reasons.sort(key=lambda one: LEVELS.index(one.level), reverse=True)
    if not reasons:
        active = len(brokers)
        quorum = f"{counted(len(voters), 'voter')} caught up, " if voters else ""
        sentence = (
            f"Healthy: {quorum}{counted(active, 'broker')} active, "
            f"{counted(counts.partitions, 'partition')} fully replicated."
        )
        return Health(GOOD, sentence, [])
    level = reasons[0].level
    found = Health(level, "", reasons)
    word = "Healthy, but" if found.is_healthy else "Unhealthy:" if level == BAD else "Needs a look:"
    first, more = reasons[0].text, len(reasons) - 1
    return found._replace(sentence=f"{word} {first}{f', and {more} more' if more else ''}.")


def _of_voters(voters: Sequence[Mapping[str, Any]]) -> Iterable[Reason]:
    silent = [row["id"] for row in voters if row["role"] != "leader" and _is_behind(row)]
    if silent:
        lost = len(voters) - len(silent) <= len(voters) // 2
        text = f"{_named('voter', silent)} not caught up"
        yield Reason(BAD if lost else WARNING, text, "quorum")


def _is_behind(voter: Mapping[str, Any]) -> bool:
    """Whether a voter is behind: by its time of contact, or by its lag if the leader reports no such time, because it
    has not heard from the voter since its election.
    """
    ago = voter["last_caught_up_ms_ago"]
    return bool(voter["lag"]) if ago is None else ago > VOTER_SILENT_MS


def _of_brokers(brokers: Sequence[Mapping[str, Any]]) -> Iterable[Reason]:
    fenced = [row["id"] for row in brokers if row["state"] == "fenced"]
    if not brokers or len(fenced) == len(brokers):
        yield Reason(BAD, "no broker is active", "brokers")
    elif fenced:
        yield Reason(WARNING, f"{_named('broker', fenced)} fenced", "brokers")


def _of_partitions(counts: PartitionCounts, under_min_isr: int) -> Iterable[Reason]:
    if counts.offline:
        text = f"{counted(counts.offline, 'partition')} without a leader"
        yield Reason(BAD, text, "offline")
    if under_min_isr:
        text = f"{counted(under_min_isr, 'partition')} under min.insync.replicas"
        yield Reason(BAD, text, "under-min-isr")
    if counts.under_replicated:
        text = f"{counted(counts.under_replicated, 'partition')} under-replicated"
        yield Reason(WARNING, text, "under-replicated")
    if counts.partitions and counts.not_preferred * 100 > NOT_PREFERRED_PERCENT * counts.partitions:
        text = f"{counted(counts.not_preferred, 'partition')} not led by the preferred replica"
        yield Reason(WARNING, text, "not-preferred")


def _named(noun: str, ids: Sequence[NodeId]) -> str:
    plural = "" if len(ids) == 1 else "s"
    return f"{noun}{plural} {', '.join(map(str, ids))} {'is' if len(ids) == 1 else 'are'}"
