"""ISR changes on their way to the controller (KIP-497): requests, retries, notifications."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise

import trio
import trio.testing

from trimaran.broker.partitions.alter_partitions import RETRY_SECONDS, AlterPartitions
from trimaran.broker.partitions.isr_change import IsrChange
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

T, U = b"t" * 16, b"u" * 16


@dataclass
class Controller:
    """A controller that notes requests with their times, and answers with `answer` after `seconds`."""

    answer: Callable[[AlterPartitionRequest], AlterPartitionResponse]
    seconds: float = 0.0
    requests: list[tuple[float, AlterPartitionRequest]] = field(default_factory=list)

    async def call(self, request, *, timeout):  # noqa: ASYNC109
        assert timeout == 30
        self.requests.append((trio.current_time(), request))
        await trio.sleep(self.seconds)
        return self.answer(request)

    def named(self) -> list[list[tuple[bytes, int, int]]]:
        """Returns the topic, partition and partition epoch of each request."""
        return [
            [
                (topic.topic_id, partition.partition_index, partition.partition_epoch)
                for topic in request.topics
                for partition in topic.partitions
            ]
            for _, request in self.requests
        ]

    def times(self) -> list[float]:
        return [time - self.requests[0][0] for time, _ in self.requests]


@dataclass
class Owner:
    """A leader epoch; if it `insists`, refused requests are retried."""

    insists: bool = False
    heard: list[object] = field(default_factory=list)

    def isr_committed(self, change, isr, leader_epoch, partition_epoch):
        self.heard.append((change, isr, leader_epoch, partition_epoch))

    def isr_refused(self, change, code):
        self.heard.append((change, code))
        return self.insists


def change(topic_id: bytes = T, index: int = 0, **fields) -> IsrChange:
    made = IsrChange(
        TopicIdPartition(topic_id, index),
        leader_epoch=3,
        partition_epoch=7,
        leader_recovery_state=0,
        new_isr=((11, 111), (12, 112)),
    )
    return replace(made, **fields)


def answered(*data: tuple[bytes, AlterPartitionResponsePartitionData]) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        topics=[
            AlterPartitionResponseTopicData(topic_id=topic, partitions=[partitions])
            for topic, partitions in data
        ]
    )


def agreed(index: int = 0) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        partition_index=index, leader_id=11, leader_epoch=4, isr=[11, 12], partition_epoch=8
    )


def refused(index: int = 0) -> AlterPartitionResponsePartitionData:
    one = agreed(index)
    one.error_code = ErrorCode.INELIGIBLE_REPLICA
    return one


def agree(request: AlterPartitionRequest) -> AlterPartitionResponse:
    return answered(
        *(
            (topic.topic_id, agreed(partition.partition_index))
            for topic in request.topics
            for partition in topic.partitions
        )
    )


def members(request: AlterPartitionRequest) -> list[tuple[int, int]]:
    """Returns the proposed members, with their epochs, in a request for one partition."""
    [topic] = request.topics
    [asked] = topic.partitions
    return [(replica.broker_id, replica.broker_epoch) for replica in asked.new_isr_with_epochs]


@asynccontextmanager
async def running(controller: Controller):
    changes = AlterPartitions(controller, 11, lambda: 111)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(changes.run)
        yield changes
        nursery.cancel_scope.cancel()


async def quiet() -> None:
    """Lets ten seconds pass."""
    await trio.sleep(10)


async def test_request_names_brokers_and_members(autojump_clock):
    controller = Controller(agree)
    async with running(controller) as changes:
        changes.submit(Owner(), change(leader_recovery_state=1))
        await quiet()
    [(_, request)] = controller.requests
    assert (request.broker_id, request.broker_epoch) == (11, 111)
    [topic] = request.topics
    [asked] = topic.partitions
    assert (topic.topic_id, asked.partition_index) == (T, 0)
    assert (asked.leader_epoch, asked.partition_epoch, asked.leader_recovery_state) == (3, 7, 1)
    assert members(request) == [(11, 111), (12, 112)]


async def test_owner_learns_committed_change_without_repetition(autojump_clock):
    controller, owner = Controller(agree), Owner()
    async with running(controller) as changes:
        changes.submit(owner, change())
        await quiet()
    assert owner.heard == [(change(), (11, 12), 4, 8)]
    assert len(controller.requests) == 1


async def test_simultaneous_changes_share_a_request(autojump_clock):
    controller = Controller(agree)
    async with running(controller) as changes:
        for item in (change(), change(index=1), change(U)):
            changes.submit(Owner(), item)
        await quiet()
    assert controller.named() == [[(T, 0, 7), (T, 1, 7), (U, 0, 7)]]


async def test_next_request_follows_the_response_at_once(autojump_clock):
    controller = Controller(agree, seconds=2.0)
    async with running(controller) as changes:
        changes.submit(Owner(), change())
        await trio.sleep(1)
        changes.submit(Owner(), change(U))
        await quiet()
    assert controller.times() == [0.0, 2.0]


async def test_newer_unsent_change_replaces_older(autojump_clock):
    controller, first, second = Controller(agree), Owner(), Owner()
    async with running(controller) as changes:
        changes.submit(first, change())
        changes.submit(second, change(partition_epoch=9))
        await quiet()
    assert controller.named() == [[(T, 0, 9)]]
    assert (first.heard, len(second.heard)) == ([], 1)


async def test_unreachable_controller_is_asked_again_after_pause(autojump_clock):
    def fail_once(request):
        if len(controller.requests) == 1:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        return agree(request)

    controller, owner = Controller(fail_once), Owner()
    async with running(controller) as changes:
        changes.submit(owner, change())
        await quiet()
    assert controller.named() == [[(T, 0, 7)]] * 2
    for _, request in controller.requests:
        assert members(request) == [(11, 111), (12, 112)], "each time all (KAFKA-15353)"
    assert controller.times() == [0.0, RETRY_SECONDS]
    assert len(owner.heard) == 1


async def test_pauses_double_to_half_second_and_reset(autojump_clock):
    failing = 6

    def fail_at_first(request):
        if len(controller.requests) <= failing or len(controller.requests) == failing + 2:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        return agree(request)

    controller = Controller(fail_at_first)
    async with running(controller) as changes:
        for _ in range(2):
            changes.submit(Owner(), change())
            await quiet()
    times = controller.times()
    pauses = [round(after - before, 6) for before, after in pairwise(times)]
    assert pauses[:failing] == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5]
    assert pauses[failing + 1] == 0.05


async def test_refused_request_is_repeated_after_a_pause(autojump_clock):
    def refuse_once(request):
        if len(controller.requests) == 1:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[])
        return agree(request)

    controller, owner = Controller(refuse_once), Owner()
    async with running(controller) as changes:
        changes.submit(owner, change())
        await quiet()
    assert controller.named() == [[(T, 0, 7)]] * 2
    assert controller.times() == [0.0, RETRY_SECONDS]
    assert len(owner.heard) == 1


async def test_change_that_owner_repeats_is_sent_again(autojump_clock):
    def refuse_once(request):
        return answered((T, refused())) if len(controller.requests) == 1 else agree(request)

    controller, owner = Controller(refuse_once), Owner(insists=True)
    async with running(controller) as changes:
        changes.submit(owner, change())
        await quiet()
    assert controller.named() == [[(T, 0, 7)]] * 2
    assert controller.times() == [0.0, RETRY_SECONDS]
    assert owner.heard == [
        (change(), ErrorCode.INELIGIBLE_REPLICA),
        (change(), (11, 12), 4, 8),
    ]


async def test_change_that_owner_drops_is_not_repeated(autojump_clock):
    controller, owner = Controller(lambda _: answered((T, refused()))), Owner()
    async with running(controller) as changes:
        changes.submit(owner, change())
        await quiet()
    assert owner.heard == [(change(), ErrorCode.INELIGIBLE_REPLICA)]
    assert len(controller.requests) == 1


async def test_partition_missing_in_answer_is_sent_again(autojump_clock):
    def forget_u_once(request):
        return answered((T, agreed())) if len(controller.requests) == 1 else agree(request)

    controller, of_t, of_u = Controller(forget_u_once), Owner(), Owner()
    async with running(controller) as changes:
        changes.submit(of_t, change())
        changes.submit(of_u, change(U))
        await quiet()
    assert controller.named() == [[(T, 0, 7), (U, 0, 7)], [(U, 0, 7)]]
    assert (len(of_t.heard), len(of_u.heard)) == (1, 1)


async def test_unrequested_partition_in_answer_is_ignored(autojump_clock):
    controller = Controller(lambda _: answered((U, agreed()), (T, agreed(5)), (T, agreed())))
    owner = Owner()
    async with running(controller) as changes:
        changes.submit(owner, change())
        await quiet()
    assert len(owner.heard) == 1
    assert len(controller.requests) == 1


async def test_newer_change_survives_failure_of_older(autojump_clock):
    """The newer change is based on later state; the older one is outdated."""

    def fail_once(request):
        if len(controller.requests) == 1:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        return agree(request)

    controller, older, newer = Controller(fail_once, seconds=2.0), Owner(), Owner()
    async with running(controller) as changes:
        changes.submit(older, change())
        await trio.sleep(1)
        changes.submit(newer, change(partition_epoch=9))
        await quiet()
    assert controller.named() == [[(T, 0, 7)], [(T, 0, 9)]]
    assert (older.heard, len(newer.heard)) == ([], 1)
