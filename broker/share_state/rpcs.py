"""The five APIs of the share coordinator as a broker sends them: the items of requests, and the results in responses.

See `trimaran.broker.handlers.share_states` for the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trimaran.broker.share_state.states import DeliveryState, ShareState, ShareSummary, StateBatch
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    LeaderEpoch,
    Offset,
    SharePartitionKey,
    StateEpoch,
    TopicIdPartition,
)
from trimaran.wire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from trimaran.wire.schema import Message

T = TypeVar("T")

_NO_COUNT = -1
_STATES = {int(state): state for state in DeliveryState}


@dataclass(frozen=True, eq=False, slots=True)
class Rpc(Generic[T]):
    """One API: the types of its request, and a function from a partition's result to the response."""

    request: Callable[..., Message]
    of_topic: Callable[..., Struct]
    response_of: Callable[[Any], T]

    def request_for(self, group_id: str, items: Iterable[tuple[SharePartitionKey, Any]]) -> Message:
        """Returns the request for share partitions of a group, each named once."""
        by_topic: dict[bytes, list[Any]] = {}
        for key, item in items:
            by_topic.setdefault(key.topic_id, []).append(item)
        return self.request(
            group_id=group_id,
            topics=[
                self.of_topic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in by_topic.items()
            ],
        )

    def outcomes_in(self, response: Any) -> dict[TopicIdPartition, T | KafkaError]:
        """Returns the response or the error of each share partition."""
        return {
            TopicIdPartition(topic.topic_id, result.partition): self._outcome(result)
            for topic in response.results
            for result in topic.partitions
        }

    def _outcome(self, result: Any) -> T | KafkaError:
        if result.error_code:
            return KafkaError(ErrorCode.of(result.error_code), result.error_message or "")
        try:
            return self.response_of(result)
        except KafkaError as error:
            return error


def initialize_item(
    key: SharePartitionKey, state_epoch: StateEpoch, start_offset: Offset | None
) -> Struct:
    return initialize_share_group_state.PartitionData(
        partition=key.partition, state_epoch=state_epoch, start_offset=_sent(start_offset)
    )


def read_item(key: SharePartitionKey, leader_epoch: LeaderEpoch) -> Struct:
    return read_share_group_state.PartitionData(partition=key.partition, leader_epoch=leader_epoch)


def summary_item(key: SharePartitionKey, leader_epoch: LeaderEpoch) -> Struct:
    return read_share_group_state_summary.PartitionData(
        partition=key.partition, leader_epoch=leader_epoch
    )


def write_item(
    key: SharePartitionKey, summary: ShareSummary, batches: Sequence[StateBatch]
) -> Struct:
    count = summary.delivery_complete_count
    return write_share_group_state.PartitionData(
        partition=key.partition,
        state_epoch=summary.state_epoch,
        leader_epoch=summary.leader_epoch,
        start_offset=_sent(summary.start_offset),
        delivery_complete_count=_NO_COUNT if count is None else count,
        state_batches=[
            write_share_group_state.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, state, count in batches
        ],
    )


def delete_item(key: SharePartitionKey) -> Struct:
    return delete_share_group_state.PartitionData(partition=key.partition)


def _sent(offset: Offset | None) -> Offset:
    return NO_OFFSET if offset is None else offset


def _received(offset: Offset) -> Offset | None:
    return None if offset == NO_OFFSET else offset


def _nothing(_result: object) -> None:
    return None


def _state(result: read_share_group_state.PartitionResult) -> ShareState:
    """Returns the state; the response has neither the leader epoch nor the count of complete deliveries."""
    summary = ShareSummary(
        result.state_epoch, NO_LEADER_EPOCH, _received(result.start_offset), None
    )
    batches = []
    for batch in result.state_batches:
        state = _STATES.get(batch.delivery_state)
        if state is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"a batch has the unknown state {batch.delivery_state}",
            )
        batches.append(
            StateBatch(batch.first_offset, batch.last_offset, state, batch.delivery_count)
        )
    return ShareState(summary, tuple(batches))


def _summary(result: read_share_group_state_summary.PartitionResult) -> ShareSummary:
    count = result.delivery_complete_count
    return ShareSummary(
        result.state_epoch,
        result.leader_epoch,
        _received(result.start_offset),
        None if count == _NO_COUNT else count,
    )


INITIALIZE: Rpc[None] = Rpc(
    initialize_share_group_state.InitializeShareGroupStateRequest,
    initialize_share_group_state.InitializeStateData,
    _nothing,
)
READ: Rpc[ShareState] = Rpc(
    read_share_group_state.ReadShareGroupStateRequest,
    read_share_group_state.ReadStateData,
    _state,
)
SUMMARY: Rpc[ShareSummary] = Rpc(
    read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
    read_share_group_state_summary.ReadStateSummaryData,
    _summary,
)
WRITE: Rpc[None] = Rpc(
    write_share_group_state.WriteShareGroupStateRequest,
    write_share_group_state.WriteStateData,
    _nothing,
)
DELETE: Rpc[None] = Rpc(
    delete_share_group_state.DeleteShareGroupStateRequest,
    delete_share_group_state.DeleteStateData,
    _nothing,
)
