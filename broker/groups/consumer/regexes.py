"""Subscriptions by pattern, which the coordinator resolves to topic names (KIP-848, `SubscribedTopicRegex`).

A pattern is resolved for the whole group, with the rights of the member that sent it, as in Kafka. The heartbeat does
not wait for this: the shard names a follow-up, the coordinator resolves the patterns outside of the event loop
(`trimaran.broker.metadata.topic_patterns`), and the group's epoch is incremented with the result. Source:
`maybeUpdateRegularExpressions`, `asyncResolveRegularExpressions` of Kafka 4.4's `GroupMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Callable

from trimaran.broker.groups.consumer.group import ResolvedRegex
from trimaran.broker.groups.consumer.member import ConsumerMember
from trimaran.broker.groups.consumer.operation import ConsumerOperation
from trimaran.broker.groups.consumer.records import regex_record

MaySee = Callable[[str], bool]
"""Returns whether the member may see a topic."""

# The minimum interval between searches for new topics.
REFRESH_INTERVAL_MS_MIN = 10_000


def update(operation: ConsumerOperation, member: ConsumerMember, may_see: MaySee) -> None:
    """Requests the resolution of the member's pattern if it is new, or if topics may have changed."""
    regex, work = member.regex, operation.work
    if operation.group.regexes or work.checked_regexes:
        forget_unused(operation)
    if not regex or regex in work.regexes or not _is_due(operation, regex):
        return
    work.checked_regexes[regex] = (operation.topics.version, operation.at.now_ms)
    work.regexes[regex] = may_see


def _is_due(operation: ConsumerOperation, regex: str) -> bool:
    resolved = operation.group.regexes.get(regex)
    if resolved is None:
        return True
    version, checked_ms = operation.work.checked_regexes.get(regex, (None, resolved.timestamp_ms))
    age = operation.at.now_ms - checked_ms
    if age >= operation.settings.regex_refresh_interval_ms:
        return True
    return version is not operation.topics.version and age >= REFRESH_INTERVAL_MS_MIN


def resolved(
    operation: ConsumerOperation, regex: str, topics: frozenset[str], version: int
) -> bool:
    """Stores the topics that a pattern matches at a metadata offset; returns whether the group's topics have
    changed.
    """
    group = operation.group
    known = group.regexes.get(regex)
    if regex not in group.regex_counts or (known is not None and known.topics == topics):
        return False
    found = ResolvedRegex(topics, version, operation.at.now_ms)
    operation.write([regex_record(group.id, regex, found)])
    return known is not None or bool(topics)


def forget_unused(operation: ConsumerOperation) -> None:
    """Removes patterns without a subscriber."""
    group, work = operation.group, operation.work
    for regex in [known for known in group.regexes if known not in group.regex_counts]:
        operation.write([regex_record(group.id, regex, None)])
    for regex in [known for known in work.checked_regexes if known not in group.regex_counts]:
        del work.checked_regexes[regex]
        work.regexes.pop(regex, None)
