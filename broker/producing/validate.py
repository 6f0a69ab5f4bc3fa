"""Stage 3 of Produce: finds who leads, and checks the batches by its topic's rules, all of them before any is appended.

At once, or a few at a time where they are many; in a thread where that would hold the loop: what is over budget
(`trimaran.log.validation.validate.Budget`: 2 MiB of records, decompressed, in one request), and message sets of v0 and
v1, which are converted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from trimaran.broker.metadata.internal_topics import INTERNAL_TOPICS
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.log.batches.batch import MAGIC, BatchView, iter_batches
from trimaran.log.old_formats.message_sets import MAGIC_POSITION
from trimaran.log.old_formats.up_conversion import convert_produced
from trimaran.log.validation.rejected_records import RECORDS_NAMED_MAX
from trimaran.log.validation.validate import Budget, OverBudget, ProduceRules, validate_produced
from trimaran.node.runtime.threads import HEAVY_SECONDS, run_computing
from trimaran.node.runtime.turns import piece_by_piece
from trimaran.wire.errors import ErrorCode, KafkaError

FIRST_VERSION_OF_BATCHES = 3
# Of records, decompressed, that are checked in the thread before what has more: 20 ms.
BYTES_TRIED_MAX = 8 << 20
# Ten microseconds each.
VALIDATED_PER_TURN = 200


def validate(
    appends: Iterable[PartitionAppend],
    partitions: Partitions,
    *,
    now_ms: int,
    version: int,
    budget: Budget | None = None,
) -> None:
    """Gives each its leader and its checked batches, or the error that the client gets.

    `budget` is what is left of that of the request; None: nothing is spent yet.

    Raises:
        OverBudget: it takes too long here; nothing was changed in any log.
    """
    if version < FIRST_VERSION_OF_BATCHES:
        raise OverBudget
    budget = budget or Budget()
    for one in appends:
        if one.failed:
            continue
        try:
            rules = _find_leader(one, partitions)
            one.batches = validate_produced(
                one.records, rules, now_ms=now_ms, version=version, budget=budget
            )
        except KafkaError as error:
            one.fail(error)


async def validate_in_turns(
    appends: Sequence[PartitionAppend],
    partitions: Partitions,
    *,
    now_ms: Callable[[], int],
    version: int,
) -> None:
    """As `validate`, a few at a time, of detached records; raises OverBudget, too."""
    budget = Budget()

    def validate_some(some: Sequence[PartitionAppend]) -> None:
        validate(some, partitions, now_ms=now_ms(), version=version, budget=budget)

    await piece_by_piece(appends, VALIDATED_PER_TURN, validate_some)


async def validate_in_thread(
    appends: Iterable[PartitionAppend],
    partitions: Partitions,
    *,
    now_ms: Callable[[], int],
    version: int,
    whom: int = 0,
) -> None:
    """As `validate`, of detached records, without budget; message sets become batches. `whom`: the connection's id.

    What expands to little is not to wait for others' that expand to much, and how much it is shows only when it is
    decompressed: so each is tried within a budget first.

    The refused records of a batch are named (KIP-467), until the response has `RECORDS_NAMED_MAX` of them: clients take
    a batch without names as refused whole.
    """
    named = 0
    for one in appends:
        if one.failed:
            continue
        try:
            rules = _find_leader(one, partitions)
            checked = (one.take_records(), rules, now_ms(), version)
            batches = await run_computing(_try, *checked, whom=whom)
            if batches is None:
                batches = await run_computing(_check, *checked, whom=whom, seconds=HEAVY_SECONDS)
            one.batches = batches
        except KafkaError as error:
            one.fail(error)
            if named > RECORDS_NAMED_MAX:
                one.response.record_errors = []
            named += len(one.response.record_errors)


def _find_leader(one: PartitionAppend, partitions: Partitions) -> ProduceRules:
    if one.key.topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{one.key.topic} is internal")
    partition = one.partition
    if partition is None or partition.deleted:
        partition = one.partition = partitions.hosted(*one.key)
    one.leader = leader = partition.open_leader()
    return leader.replica.settings.rules


def _try(
    records: memoryview, rules: ProduceRules, now_ms: int, version: int
) -> list[BatchView] | None:
    """As `_check`; None where it takes long."""
    if version < FIRST_VERSION_OF_BATCHES:
        return None
    try:
        budget = Budget(BYTES_TRIED_MAX)
        return validate_produced(records, rules, now_ms=now_ms, version=version, budget=budget)
    except OverBudget:
        return None


def _check(records: memoryview, rules: ProduceRules, now_ms: int, version: int) -> list[BatchView]:
    """A batch of v2 may come in the old versions too: Kafka looks at the magic, not at the version."""
    is_set = len(records) <= MAGIC_POSITION or records[MAGIC_POSITION] != MAGIC
    if is_set and version < FIRST_VERSION_OF_BATCHES:
        converted = convert_produced(records, rules, now_ms=now_ms) or b""
        return list(iter_batches(bytearray(converted)))
    return validate_produced(records, rules, now_ms=now_ms, version=version)
