"""Stages 2 and 3 of Produce: the client may write to the topic, this broker leads the partition, and the batches obey
the topic's rules. All batches of a request are checked before any is appended.

A batch is checked at once within a budget of decompressed bytes (`BYTES_CHECKED_AT_ONCE_MAX`). The thread for such work
checks a batch that takes longer, and converts message sets of v0 and v1.

Source: `KafkaApis.handleProduceRequest`, which asks for WRITE on the transactional id if any batch is transactional,
and for WRITE on each topic before it looks whether there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from trimaran.broker.metadata.internal_topics import INTERNAL_TOPICS
from trimaran.broker.partitions.opening import opened_leader
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.log.batches.batch import MAGIC, BatchView, begins_transactional, iter_batches
from trimaran.log.old_formats.message_sets import MAGIC_POSITION
from trimaran.log.old_formats.up_conversion import convert_produced
from trimaran.log.validation.rejected_records import RECORDS_NAMED_MAX
from trimaran.log.validation.validate import (
    BYTES_CHECKED_AT_ONCE_MAX,
    DECOMPRESSED_BYTES_MAX,
    OverBudget,
    ProduceRules,
    validate_produced,
)
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.serving.authorization import Guarded, may
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.scheduling.effects import Compute, Handling

FIRST_VERSION_OF_BATCHES = 3
# Bytes of records, decompressed, that are checked in the thread before batches that have more: 20 ms.
BYTES_TRIED_MAX = 8 << 20


def may_use_transactional_id(
    transactional_id: str | None, parts: Iterable[PartitionAppend], ctx: Guarded, call: Call
) -> bool:
    """Returns False if a batch is transactional, and the client may not write under the id, or names none."""
    for part in parts:
        if begins_transactional(part.records):
            break
    else:
        return True
    if transactional_id is None:
        return False
    action = Action(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    return may(ctx, call, action)


def authorize(parts: Sequence[PartitionAppend], may_write: Callable[[str], bool]) -> Handling[None]:
    """Stage 2: partitions of topics that the client may not write to fail with TOPIC_AUTHORIZATION_FAILED; the client
    learns nothing else of them. `may_write` takes the name of a topic.
    """
    for part in parts:
        if not part.failed and not may_write(part.key.topic):
            part.fail(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        if len(parts) > 1:
            yield None


def find_leaders(parts: Sequence[PartitionAppend], partitions: Partitions) -> Handling[None]:
    """Gives each part its leader with an open log that knows its producers, or the error of its response."""
    for part in parts:
        if part.failed:
            continue
        try:
            if part.key.topic in INTERNAL_TOPICS:
                why = f"{part.key.topic} is internal"
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
            partition = part.partition
            if partition is None or partition.deleted:
                partition = part.partition = partitions.hosted(part.key)
            leader = partition.leader_or_none
            if leader is None or not leader.log.knows_producers:
                leader = yield from opened_leader(partition)
                yield None
            part.leader = leader
        except KafkaError as error:
            part.fail(error)
            yield None


def validate(
    parts: Sequence[PartitionAppend], now_ms: Callable[[], int], version: int
) -> Handling[None]:
    """Stage 3: gives each part its checked batches, or the error of its response.

    The refused records of a batch are named (KIP-467), until the response has `RECORDS_NAMED_MAX` of them: clients take
    a batch without names as refused whole.
    """
    named = 0
    for part in parts:
        leader = part.leader
        if part.failed or leader is None:
            continue
        records, rules = part.records, leader.rules
        try:
            if version < FIRST_VERSION_OF_BATCHES:
                raise OverBudget
            part.batches = validate_produced(
                records,
                rules,
                now_ms=now_ms(),
                version=version,
                budget=BYTES_CHECKED_AT_ONCE_MAX,
            )
        except OverBudget:
            try:
                part.batches = yield from _validated_apart(records, rules, now_ms(), version)
            except KafkaError as error:
                part.fail(error)
                if named > RECORDS_NAMED_MAX:
                    part.response.record_errors = []
                named += len(part.response.record_errors)
        except KafkaError as error:
            part.fail(error)
        if len(parts) > 1:
            yield None


def _validated_apart(
    records: memoryview, rules: ProduceRules, now_ms: int, version: int
) -> Handling[list[BatchView]]:
    """Checks in the thread. Batches that expand to little do not wait for others that expand to much; how much it is
    shows only when they are decompressed, so each is tried within a budget first.
    """
    if version >= FIRST_VERSION_OF_BATCHES:
        tried = partial(_try, records, rules, now_ms, version)
        batches: list[BatchView] | None = yield Compute(BYTES_TRIED_MAX, tried)
        if batches is not None:
            return batches
    checked = partial(_check, records, rules, now_ms, version)
    batches = yield Compute(DECOMPRESSED_BYTES_MAX, checked)
    assert batches is not None
    return batches


def _try(
    records: memoryview, rules: ProduceRules, now_ms: int, version: int
) -> list[BatchView] | None:
    """As `_check`; None if it takes long."""
    try:
        return validate_produced(
            records, rules, now_ms=now_ms, version=version, budget=BYTES_TRIED_MAX
        )
    except OverBudget:
        return None


def _check(records: memoryview, rules: ProduceRules, now_ms: int, version: int) -> list[BatchView]:
    """A batch of v2 may come in the old versions too: Kafka looks at the magic, not at the version."""
    is_set = len(records) <= MAGIC_POSITION or records[MAGIC_POSITION] != MAGIC
    if is_set and version < FIRST_VERSION_OF_BATCHES:
        converted = convert_produced(records, rules, now_ms=now_ms) or b""
        return list(iter_batches(bytearray(converted)))
    return validate_produced(records, rules, now_ms=now_ms, version=version)
