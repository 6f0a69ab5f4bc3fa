"""The stages `authorize`, `find_leaders` and `validate` of Produce: check that the client may write to the topic, that
this broker leads the partition, and that the batches obey the topic's rules. All batches of a request are checked
before any is appended.

A batch is checked immediately within a budget of decompressed bytes (`BYTES_CHECKED_AT_ONCE_MAX`). A worker thread
checks larger batches, and converts message sets of v0 and v1.

Source: `KafkaApis.handleProduceRequest`, which requires WRITE on the transactional id if any batch is transactional,
and WRITE on each topic before it checks whether the topic exists.
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
# The decompressed size up to which the thread checks a batch first; larger batches are checked afterwards. 20 ms of
# work.
BYTES_TRIED_MAX = 8 << 20


def may_use_transactional_id(
    transactional_id: str | None, parts: Iterable[PartitionAppend], ctx: Guarded, call: Call
) -> bool:
    """Returns False if a batch is transactional and the request has no transactional id, or the client may not write
    with it.
    """
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
    """Fails the parts whose topics the client may not write to with TOPIC_AUTHORIZATION_FAILED and reveals
    nothing else about them. `may_write` takes the name of a topic.
    """
    for part in parts:
        if not part.failed and not may_write(part.key.topic):
            part.fail(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        if len(parts) > 1:
            yield None


def find_leaders(parts: Sequence[PartitionAppend], partitions: Partitions) -> Handling[None]:
    """Gives each part its leader, with an open log that knows its producers, or sets the error in its response."""
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
    """Gives each part its checked batches, or sets the error in its response.

    The response lists the refused records of a batch (KIP-467), at most `RECORDS_NAMED_MAX` in total: clients treat a
    batch without listed records as refused as a whole.
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
    """Checks batches in the thread. Batches with a small decompressed size do not wait for batches with a large one;
    the size is only known after decompression, so each batch is first tried within a budget.
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
    """Returns the result of `_check`, or None if that takes long."""
    try:
        return validate_produced(
            records, rules, now_ms=now_ms, version=version, budget=BYTES_TRIED_MAX
        )
    except OverBudget:
        return None


def _check(records: memoryview, rules: ProduceRules, now_ms: int, version: int) -> list[BatchView]:
    """Returns the checked batches. Requests of old versions may also have v2 batches: as in Kafka, the magic byte
    determines the format, not the version.
    """
    is_set = len(records) <= MAGIC_POSITION or records[MAGIC_POSITION] != MAGIC
    if is_set and version < FIRST_VERSION_OF_BATCHES:
        converted = convert_produced(records, rules, now_ms=now_ms) or b""
        return list(iter_batches(bytearray(converted)))
    return validate_produced(records, rules, now_ms=now_ms, version=version)
