"""Subscriptions by a pattern, which the coordinator resolves to names of topics (KIP-848, `SubscribedTopicRegex`).

RE2 matches in linear time, whatever the pattern and the names. A pattern is resolved for the whole group, with what the
member may see whose heartbeat asked for it, as in Kafka. Source: `maybeUpdateRegularExpressions` of Kafka 4.3's
`GroupMetadataManager`; Kafka uses RE2/J.
"""

from __future__ import annotations

from collections.abc import Callable

import re2

from broker.groups.consumer.assignors.model import PIECE, Work, done
from broker.groups.consumer.group import ResolvedRegex
from broker.groups.consumer.member import ConsumerMember
from broker.groups.consumer.operation import ConsumerOperation
from broker.groups.consumer.records import regex_record
from broker.groups.consumer.settings import REGEX_CHARACTERS_MAX
from broker.groups.consumer.topics import Topics
from broker.groups.operation import Timer
from wire.errors import ErrorCode, KafkaError

MaySee = Callable[[str], bool]
"""Whether the member may know of a topic."""

# Names that are matched within a heartbeat, of 5 µs each.
INLINE_TOPICS_MAX = 2_000

# New topics are looked for no more often.
REFRESH_INTERVAL_MS_MIN = 10_000

# For a compiled pattern and what matching needs; RE2 refuses patterns that take more.
MEMORY_BYTES_MAX = 1 << 20


def compiled(regex: str) -> Callable[[str], object]:
    """Tells whether a whole name matches.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION: RE2 does not understand it, or it is too large.
    """
    if len(regex) > REGEX_CHARACTERS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex is longer than {REGEX_CHARACTERS_MAX} characters.",
        )
    options = re2.Options()
    options.max_mem = MEMORY_BYTES_MAX
    options.log_errors = False
    try:
        match: Callable[[str], object] = re2.compile(regex, options).fullmatch
    except re2.error as error:
        reason = error.args[0] if error.args else "it cannot be read"
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex[:200]}` is not a valid regular expression: {reason}.",
        ) from None
    return match


def resolve(regex: str, topics: Topics, may_see: MaySee) -> Work[frozenset[str]]:
    """The topics that match and may be seen."""
    match = compiled(regex)
    found = set()
    for number, name in enumerate(topics.names()):
        if match(name) and may_see(name):
            found.add(name)
        if number % PIECE == PIECE - 1:
            yield
    return frozenset(found)


def update(operation: ConsumerOperation, member: ConsumerMember, may_see: MaySee) -> bool:
    """Looks the member's pattern up if it is new, or if topics may have changed; whether the group's topics have.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """
    forget_unused(operation)
    regex, work = member.regex, operation.work
    if not regex or regex in work.regexes or not _is_due(operation, regex):
        return False
    resolving = resolve(regex, operation.topics, may_see)
    work.checked_regexes[regex] = (operation.topics.version, operation.at.now_ms)
    if len(operation.topics) <= INLINE_TOPICS_MAX:
        return _write(operation, regex, done(resolving))
    compiled(regex)
    work.regexes[regex] = resolving
    operation.set_timer(Timer.REGEXES, 0)
    return False


def _is_due(operation: ConsumerOperation, regex: str) -> bool:
    resolved = operation.group.regexes.get(regex)
    if resolved is None:
        return True
    version, checked_ms = operation.work.checked_regexes.get(regex, (None, resolved.timestamp_ms))
    age = operation.at.now_ms - checked_ms
    if age >= operation.settings.regex_refresh_interval_ms:
        return True
    return version is not operation.topics.version and age >= REFRESH_INTERVAL_MS_MIN


def work_on_regexes(operation: ConsumerOperation, pieces: int) -> bool:
    """One tick of the timer; whether the group's topics have changed."""
    work = operation.work
    regex, resolving = next(iter(work.regexes.items()))
    try:
        for _ in range(pieces):
            next(resolving)
    except StopIteration as stop:
        topics: frozenset[str] = stop.value
        del work.regexes[regex]
        if regex in operation.group.regex_counts:
            return _write(operation, regex, topics)
    return False


def _write(operation: ConsumerOperation, regex: str, topics: frozenset[str]) -> bool:
    group = operation.group
    known = group.regexes.get(regex)
    if known is not None and known.topics == topics:
        return False
    resolved = ResolvedRegex(topics, operation.topics.offset, operation.at.now_ms)
    operation.write([regex_record(group.id, regex, resolved)])
    return True


def forget_unused(operation: ConsumerOperation) -> None:
    """Patterns that nobody subscribes to any more."""
    group, work = operation.group, operation.work
    for regex in [one for one in group.regexes if one not in group.regex_counts]:
        operation.write([regex_record(group.id, regex, None)])
        work.checked_regexes.pop(regex, None)
        work.regexes.pop(regex, None)
