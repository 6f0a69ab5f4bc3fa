"""Reports of replica locations to the controller: each is retried until accepted, replicas of one directory are
reported together, and no request waits forever.
"""

from collections import deque
from itertools import pairwise

import pytest
import trio

from trimaran.broker.background.directory_assignments import DirectoryAssignments
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)

TOPIC, OTHER = bytes(15) + b"\x01", bytes(15) + b"\x02"
A, B = bytes(15) + b"\x0a", bytes(15) + b"\x0b"
NODE_ID, BROKER_EPOCH = 11, 77
# Kafka's limits: replicas in one request, its timeout, and the pause after a failed request.
MOST_IN_ONE, ANSWER_SECONDS, FIRST_PAUSE, LONGEST_PAUSE = 2250, 30.0, 0.1, 5.0


class Controller:
    """A controller that accepts reports, except for `refusals`: for each request an error code of the whole response or
    of each replica.
    """

    def __init__(self, *refusals):
        self.refusals = deque(refusals)
        self.told = []
        self.requests = []
        self.while_asked = lambda: None

    async def call(self, request, timeout):  # noqa: ASYNC109 - as the channel's
        self.requests.append(request)
        assert timeout == ANSWER_SECONDS
        asked = [
            (topic.topic_id, partition.partition_index, directory.id)
            for directory in request.directories
            for topic in directory.topics
            for partition in topic.partitions
        ]
        self.told.append((trio.current_time(), sorted(asked)))
        self.while_asked()
        await trio.lowlevel.checkpoint()
        refusal = self.refusals.popleft() if self.refusals else {}
        if isinstance(refusal, KafkaError):
            raise refusal
        if isinstance(refusal, ErrorCode):
            return AssignReplicasToDirsResponse(error_code=refusal, directories=[])
        return AssignReplicasToDirsResponse(
            directories=[
                AssignReplicasToDirsResponseDirectoryData(
                    id=directory.id,
                    topics=[
                        AssignReplicasToDirsResponseTopicData(
                            topic_id=topic.topic_id,
                            partitions=[
                                AssignReplicasToDirsResponsePartitionData(
                                    partition_index=partition.partition_index,
                                    error_code=refusal.get(
                                        (topic.topic_id, partition.partition_index), ErrorCode.NONE
                                    ),
                                )
                                for partition in topic.partitions
                            ],
                        )
                        for topic in directory.topics
                    ],
                )
                for directory in request.directories
            ]
        )

    def replicas(self):
        return [asked for _, asked in self.told]


@pytest.fixture
async def telling(nursery):
    """Creates a broker's queue of reports and runs it."""

    def begin(controller):
        assignments = DirectoryAssignments(controller, NODE_ID, lambda: BROKER_EPOCH)
        nursery.start_soon(assignments.run)
        return assignments

    return begin


async def test_simultaneous_assignments_share_one_request(autojump_clock, telling):
    controller = Controller()
    assignments = telling(controller)
    assignments.assign(TopicIdPartition(TOPIC, 0), A)
    assignments.assign(TopicIdPartition(TOPIC, 1), B)
    assignments.assign(TopicIdPartition(OTHER, 0), A)
    await trio.sleep(60)
    assert controller.replicas() == [[(TOPIC, 0, A), (TOPIC, 1, B), (OTHER, 0, A)]]
    (request,) = controller.requests
    assert (request.broker_id, request.broker_epoch) == (NODE_ID, BROKER_EPOCH)
    assert [len(directory.topics) for directory in request.directories] == [2, 1]


async def test_later_assignment_of_replica_replaces_earlier(autojump_clock, telling):
    controller = Controller()
    assignments = telling(controller)
    assignments.assign(TopicIdPartition(TOPIC, 0), A)
    assignments.assign(TopicIdPartition(TOPIC, 0), B)
    await trio.sleep(60)
    assert controller.replicas() == [[(TOPIC, 0, B)]]


async def test_assignment_changed_during_request_is_sent_again(autojump_clock, telling):
    controller = Controller()
    assignments = telling(controller)
    assignments.assign(TopicIdPartition(TOPIC, 0), A)

    def move_on():
        if len(controller.told) == 1:
            assignments.assign(TopicIdPartition(TOPIC, 0), B)

    controller.while_asked = move_on
    await trio.sleep(60)
    assert controller.replicas() == [[(TOPIC, 0, A)], [(TOPIC, 0, B)]]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ],
)
async def test_replica_unknown_to_controller_is_not_retried(autojump_clock, telling, code):
    controller = Controller({(TOPIC, 0): code})
    assignments = telling(controller)
    assignments.assign(TopicIdPartition(TOPIC, 0), A)
    assignments.assign(TopicIdPartition(TOPIC, 1), A)
    await trio.sleep(60)
    assert controller.replicas() == [[(TOPIC, 0, A), (TOPIC, 1, A)]]


async def test_refused_replica_is_retried_alone(autojump_clock, telling):
    controller = Controller({(TOPIC, 1): ErrorCode.NOT_CONTROLLER})
    assignments = telling(controller)
    assignments.assign(TopicIdPartition(TOPIC, 0), A)
    assignments.assign(TopicIdPartition(TOPIC, 1), A)
    await trio.sleep(60)
    assert controller.replicas() == [[(TOPIC, 0, A), (TOPIC, 1, A)], [(TOPIC, 1, A)]]


@pytest.mark.parametrize(
    "refusal",
    [
        KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the controller is away"),
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.UNSUPPORTED_VERSION,
    ],
)
async def test_failing_request_is_repeated_with_growing_pauses(
    autojump_clock, telling, refusal, caplog
):
    controller = Controller(*[refusal] * 8)
    telling(controller).assign(TopicIdPartition(TOPIC, 0), A)
    await trio.sleep(60)
    assert controller.replicas() == [[(TOPIC, 0, A)]] * 9
    times = [when for when, _ in controller.told]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    expected = [min(FIRST_PAUSE * 2**failures, LONGEST_PAUSE) for failures in range(8)]
    assert pauses == pytest.approx(expected)
    # Below metadata.version 3.7-IV2 a cluster has no directory assignments; this causes no warning.
    assert bool(caplog.records) == (refusal is not ErrorCode.UNSUPPORTED_VERSION)


async def test_success_resets_the_pause(autojump_clock, telling):
    failure = ErrorCode.STALE_BROKER_EPOCH
    controller = Controller(failure, failure, failure, {}, failure)
    assignments = telling(controller)
    assignments.assign(TopicIdPartition(TOPIC, 0), A)
    await trio.sleep(60)
    assignments.assign(TopicIdPartition(TOPIC, 1), A)
    await trio.sleep(60)
    (first, _), (second, _) = controller.told[-2:]
    assert second - first == pytest.approx(FIRST_PAUSE)


async def test_request_is_bounded_rest_follows_at_once(autojump_clock, telling):
    controller = Controller()
    assignments = telling(controller)
    for index in range(MOST_IN_ONE + 1):
        assignments.assign(TopicIdPartition(TOPIC, index), A)
    await trio.sleep(0.01)
    assert list(map(len, controller.replicas())) == [MOST_IN_ONE, 1]
