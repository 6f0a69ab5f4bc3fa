"""Stage 5 of Produce: the leaders append what was validated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trimaran.broker.partitions.opening import OPENED_PER_TURN
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.broker.producing.verify import check_not_ended
from trimaran.node.runtime.turns import piece_by_piece
from trimaran.wire.errors import KafkaError

# Partitions appended to in one turn of the loop: 10 ms of work. A request that names more is appended in several.
APPENDS_PER_TURN = 200


def append(appends: Iterable[PartitionAppend], acks: int) -> None:
    """Appends the batches of each partition, or notes in its response why not."""
    for one in appends:
        leader, batches = one.leader, one.batches
        if leader is None or not batches or one.failed:
            continue
        try:
            if one.verified_from >= 0:
                check_not_ended(one)
            info, one.required_offset = leader.produce(memoryview(batches[0].buffer), batches, acks)
        except KafkaError as error:
            one.fail(error)
        else:
            answer = one.response
            answer.base_offset = info.base_offset
            answer.log_append_time_ms = info.log_append_time_ms
            answer.log_start_offset = info.log_start_offset


async def append_in_turns(appends: Sequence[PartitionAppend], acks: int) -> None:
    """As `append`, a few at a time: the first append to a log makes its files."""
    await piece_by_piece(appends, OPENED_PER_TURN, lambda some: append(some, acks))
