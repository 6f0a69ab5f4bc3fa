"""The steps that write dead letters to their queue: checks, creation, rounds, retries and the end."""

from __future__ import annotations

import pytest

from trimaran.broker.share_state.states import DeliveryState, StateBatch
from trimaran.broker.sharing.acknowledging import Cause, DeadLetters
from trimaran.broker.sharing.dead_letters import (
    Copies,
    CreateQueue,
    Delivery,
    PauseDelivery,
    Queue,
    QueueTopic,
    ReadRecords,
    Source,
    Undelivered,
    WriteLetters,
    joined,
    size_of,
)
from trimaran.log.batches.records import NewRecord
from trimaran.wire.errors import ErrorCode

E = ErrorCode
TOPIC = QueueTopic(b"q" * 16, True, [1, 2, -1], 10_000)
QUEUE = Queue("dlq.q", "dlq.", False, False, TOPIC)
PAUSES = [PauseDelivery(2.0), PauseDelivery(4.0), PauseDelivery(8.0), PauseDelivery(16.0)]


def letters(first, last, count=1, cause=Cause.REJECTED):
    return DeadLetters(StateBatch(first, last, DeliveryState.ARCHIVING, count), cause)


def headers(offset, count="1", text="Offset rejected by client.", partition="4"):
    values = {
        "topic": "t",
        "partition": partition,
        "offset": str(offset),
        "group": "g",
        "delivery.count": count,
        "message": text,
    }
    return [(f"__dlq.errors.{name}", value.encode()) for name, value in values.items()]


LEFT = 10_000 - 61 - size_of(NewRecord(None, None, 0, headers(7)))


class Run:
    """A delivery; `answers` are the results of its first steps, after which it is not continued."""

    def __init__(self, *given, queue=QUEUE, partition=4):
        self.queue = queue
        delivery = Delivery(Source("g", "t", partition), given, lambda: self.queue, lambda: 77)
        self.steps = delivery.steps()
        self.answer = None

    def next(self, answer=None):
        return self.steps.send(answer)

    def ends(self, answer=None):
        with pytest.raises(StopIteration):
            self.steps.send(answer)

    def fails(self, answer=None):
        with pytest.raises(Undelivered) as error:
            self.steps.send(answer)
        return str(error.value)


def offsets(write):
    return [int(dict(record.headers)["__dlq.errors.offset"]) for record in write.records]


def test_letters_have_the_headers_of_kafka():
    run = Run(letters(7, 8), letters(9, 9, 5, Cause.DELIVERED_TOO_OFTEN))
    write = run.next()
    too_often = headers(9, "5", "Offset delivery count exceeded the threshold.")
    assert write == WriteLetters(
        *(2, "dlq.q", TOPIC.id, 1),
        [(None, None, 77, headers(7)), (None, None, 77, headers(8)), (None, None, 77, too_often)],
    )
    run.ends(E.NONE)


def test_copies_have_key_and_value():
    run = Run(letters(7, 9), queue=QUEUE._replace(copies=True))
    read = run.next()
    assert read == ReadRecords(7, 9, LEFT, LEFT)
    write = run.next(Copies({7: (b"k", None), 9: (None, b"v")}, 10))
    assert [record[:2] for record in write.records] == [(b"k", None), (None, None), (None, b"v")]
    run.ends(E.NONE)


def test_partial_read_continues_in_next_round():
    run = Run(letters(7, 9), letters(12, 12), queue=QUEUE._replace(copies=True))
    run.next()
    assert offsets(run.next(Copies({7: (b"k", b"v")}, 8))) == [7]
    assert run.next(E.NONE) == ReadRecords(8, 9, LEFT, LEFT)
    used = LEFT + 61 - 10_000
    assert run.next(Copies({}, 10)) == ReadRecords(12, 12, LEFT + 2 * used - 1, LEFT - 1)
    assert offsets(run.next(Copies({}, 13))) == [8, 9, 12]
    run.ends(E.NONE)


def test_letter_without_a_readable_record_makes_progress():
    run = Run(letters(7, 8), queue=QUEUE._replace(copies=True))
    run.next()
    assert offsets(run.next(Copies({}, 7))) == [7]
    assert run.next(E.NONE) == ReadRecords(8, 8, LEFT, LEFT)


@pytest.mark.parametrize(("spare", "expected"), [(-1, [0]), (0, [0, 1]), (1, [0, 1])])
def test_round_is_limited_to_bytes_of_batch(spare, expected):
    first = Run(letters(0, 0)).next().records[0]
    topic = TOPIC._replace(bytes_max=61 + 2 * size_of(first) + spare)
    run = Run(letters(0, 2), queue=QUEUE._replace(topic=topic))
    written = []
    write = run.next()
    assert offsets(write) == expected
    while write is not None:
        written += offsets(write)
        write = next_or_none(run, E.NONE)
    assert written == [0, 1, 2]


def next_or_none(run, answer):
    try:
        return run.next(answer)
    except StopIteration:
        return None


def test_single_letter_may_exceed_batch_bytes():
    run = Run(letters(0, 1), queue=QUEUE._replace(topic=TOPIC._replace(bytes_max=1)))
    assert offsets(run.next()) == [0]
    assert run.fails(E.MESSAGE_TOO_LARGE) == "dlq.q cannot be written: MESSAGE_TOO_LARGE"


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        (QUEUE._replace(name=""), "the group has no dead-letter queue"),
        (QUEUE._replace(name="__q"), "__q has the name of an internal topic"),
        (
            QUEUE._replace(name="q", topic=TOPIC._replace(is_enabled=False)),
            "q is not enabled as a dead-letter queue",
        ),
        (
            QUEUE._replace(name="q", topic=None),
            "q does not exist, and is not created automatically",
        ),
        (QUEUE._replace(name="q"), "q does not begin with dlq."),
        (QUEUE._replace(name="q", topic=None, creates=True), "q does not begin with dlq."),
    ],
)
def test_invalid_queue_gets_no_letters(queue, reason):
    assert Run(letters(0, 0), queue=queue).fails() == reason


def test_empty_prefix_allows_every_name():
    run = Run(letters(0, 0), queue=QUEUE._replace(name="q", prefix=""))
    assert run.next().name == "q"


def test_missing_queue_is_created():
    run = Run(letters(0, 0), queue=QUEUE._replace(topic=None, creates=True))
    assert run.next() == CreateQueue("dlq.q")
    run.queue = QUEUE
    assert offsets(run.next(E.NONE)) == [0]
    run.ends(E.NONE)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (E.NONE, "has no leader"),
        (E.TOPIC_ALREADY_EXISTS, "cannot be created: TOPIC_ALREADY_EXISTS"),
        (E.THROTTLING_QUOTA_EXCEEDED, "cannot be created: THROTTLING_QUOTA_EXCEEDED"),
        (E.NETWORK_EXCEPTION, "cannot be created: NETWORK_EXCEPTION"),
    ],
)
def test_creation_is_tried_five_times(code, why):
    run = Run(letters(0, 0), queue=QUEUE._replace(topic=None, creates=True))
    for pause in PAUSES:
        assert run.next() == CreateQueue("dlq.q")
        assert run.next(code) == pause
    assert run.next() == CreateQueue("dlq.q")
    assert run.fails(code) == f"dlq.q {why}, after 5 attempts"


def test_queue_created_by_another_broker_is_awaited():
    run = Run(letters(0, 0), queue=QUEUE._replace(topic=None, creates=True))
    run.next()
    run.queue = QUEUE
    assert run.next(E.TOPIC_ALREADY_EXISTS) == PAUSES[0]
    assert offsets(run.next()) == [0]


def test_size_of_a_letter_is_bounded():
    bare = NewRecord(None, None, 0, [])
    assert size_of(bare) == 30
    full = NewRecord(b"kk", b"vvv", 0, [("h", None), ("hh", b"xxxx")])
    assert size_of(full) == 30 + 2 + 3 + (1 + 6) + (2 + 4 + 6)


def test_refused_creation_is_not_repeated():
    run = Run(letters(0, 0), queue=QUEUE._replace(topic=None, creates=True))
    run.next()
    refusal = E.CLUSTER_AUTHORIZATION_FAILED
    assert run.fails(refusal) == "dlq.q cannot be created: CLUSTER_AUTHORIZATION_FAILED"


def test_leaderless_queue_is_awaited():
    run = Run(letters(0, 0), partition=5)
    assert [run.next() for _ in PAUSES] == PAUSES
    assert run.fails() == "dlq.q has no leader, after 5 attempts"


def test_new_leader_gets_the_letters():
    run = Run(letters(0, 0), partition=5)
    assert run.next() == PAUSES[0]
    run.queue = QUEUE._replace(topic=TOPIC._replace(leaders=[1, 2, 9]))
    assert run.next().leader == 9
    assert run.next(E.NOT_LEADER_OR_FOLLOWER) == PAUSES[0]
    run.queue = QUEUE
    assert run.next() == PAUSES[0]


@pytest.mark.parametrize("code", [E.NOT_LEADER_OR_FOLLOWER, E.NETWORK_EXCEPTION])
def test_write_is_tried_five_times(code):
    run = Run(letters(0, 0))
    for pause in PAUSES:
        assert offsets(run.next()) == [0]
        assert run.next(code) == pause
    run.next()
    assert run.fails(code) == f"dlq.q cannot be written: {code.name}, after 5 attempts"


def test_success_resets_the_attempts():
    bytes_max = 1
    run = Run(letters(0, 1), queue=QUEUE._replace(topic=TOPIC._replace(bytes_max=bytes_max)))
    for pause in PAUSES:
        run.next()
        assert run.next(E.NETWORK_EXCEPTION) == pause
    run.next()
    assert offsets(run.next(E.NONE)) == [1]
    assert run.next(E.NETWORK_EXCEPTION) == PAUSES[0]


@pytest.mark.parametrize(
    "code", [E.TOPIC_AUTHORIZATION_FAILED, E.REQUEST_TIMED_OUT, E.NOT_ENOUGH_REPLICAS]
)
def test_refused_write_is_not_repeated(code):
    run = Run(letters(0, 0))
    run.next()
    assert run.fails(code) == f"dlq.q cannot be written: {code.name}"


def test_queue_is_checked_again_after_a_pause():
    run = Run(letters(0, 0))
    run.next()
    run.next(E.NETWORK_EXCEPTION)
    run.queue = QUEUE._replace(name="")
    assert run.fails() == "the group has no dead-letter queue"


def test_neighbouring_letters_with_same_cause_are_joined():
    given = [
        letters(0, 1),
        letters(2, 2),
        letters(3, 3, count=2),
        letters(4, 4, count=2, cause=Cause.DELIVERED_TOO_OFTEN),
        letters(6, 6, count=2, cause=Cause.DELIVERED_TOO_OFTEN),
    ]
    assert joined(given) == [letters(0, 2), *given[2:]]
    assert joined([]) == []
