"""Stage 2 of Produce: who may not write to a topic learns nothing else of its partitions.

Source: `KafkaApis.handleProduceRequest`, which asks for WRITE on the transactional id if any batch is transactional,
and for WRITE on each topic before it looks whether there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.log.batches.batch import begins_transactional
from trimaran.node.runtime.turns import piece_by_piece
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.serving.authorization import Guarded, may
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.guard import JUDGED_PER_TURN

MayWrite = Callable[[str], bool]
"""Whether the client may write to the topic of that name."""


def authorize(appends: Iterable[PartitionAppend], may_write: MayWrite) -> None:
    """TOPIC_AUTHORIZATION_FAILED for partitions of topics that the client may not write to."""
    for one in appends:
        if not one.failed and not may_write(one.key.topic):
            one.fail(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


async def authorize_in_turns(appends: Sequence[PartitionAppend], may_write: MayWrite) -> None:
    """As `authorize`, a few at a time."""
    await piece_by_piece(appends, JUDGED_PER_TURN, lambda some: authorize(some, may_write))


def may_use_transactional_id(
    transactional_id: str | None, appends: Iterable[PartitionAppend], ctx: Guarded, call: Call
) -> bool:
    """False if one of the batches is transactional, and the client may not write under the id, or names none."""
    for one in appends:
        if begins_transactional(one.records):
            break
    else:
        return True
    if transactional_id is None:
        return False
    action = Action(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    return may(ctx, call, action)
