"""Dead-letter queues with real logs and handlers: rejected records and those delivered too often, and queues that are
missing, forbidden or without a leader.
"""

from __future__ import annotations

import logging

import pytest
import trio

from tests.broker.batches import append
from tests.broker.calls import call, finished, started, through_wire
from tests.broker.sharing.rig import SharingRig, refusals, sharing_rig, shown
from tests.cluster.data_side import partition, registration, topic, topic_id
from trimaran.broker.channels.broker_channel import OutcomeUnknown
from trimaran.broker.handlers.produce import produce
from trimaran.broker.share_state.states import DeliveryState
from trimaran.broker.sharing import dead_letter_queues
from trimaran.broker.sharing.dead_letters import Queue, QueueTopic
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.codecs.compression import Compression
from trimaran.quorum.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from trimaran.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

E = ErrorCode
ARCHIVING, ARCHIVED = 3, 4
PREFIX = "__dlq.errors."


class QueueRig(SharingRig):
    """Group `g` has the queue `dlq.q`. Produce reaches the real handler of this broker, unless `refusal` is set;
    CreateTopics gets the next of `creations`.
    """

    def __init__(self, path, **settings):
        self.asked, self.refusal, self.creations = [], None, []
        super().__init__(path, **settings)
        self.configure(errors_deadletterqueue_topic_name="dlq.q")
        self.set_image()

    def set_image(self, share_version=2, **changes):
        super().set_image(share_version, **changes)
        image = self.harness.metadata.image
        if not image.cluster.brokers:
            self.harness.set_image(*image.topics.by_name.values(), brokers=(registration(11),))
            super().set_image(share_version, **changes)

    def add_queue(self, *partitions, enabled="true"):
        self.configs[TOPIC_RESOURCE, "dlq.q"] = {"errors.deadletterqueue.group.enable": enabled}
        self.others = [topic("dlq.q", *(partitions or [partition()]))]
        self.set_image()

    async def call(self, *given, timeout):  # noqa: ASYNC109
        await trio.lowlevel.checkpoint()
        request = through_wire(given[-1], 7 if isinstance(given[-1], CreateTopicsRequest) else 13)
        self.asked.append((*given[:-1], request, timeout))
        if isinstance(request, CreateTopicsRequest):
            return self.create(request)
        if isinstance(self.refusal, Exception):
            raise self.refusal
        if self.refusal is not None:
            answer = PartitionProduceResponse(index=0, error_code=self.refusal, base_offset=-1)
            data = TopicProduceResponse(topic_id=topic_id("dlq.q"), partition_responses=[answer])
            return ProduceResponse(responses=[data])
        waiting = started(produce(request, self.harness.contexts.data, call(request, 13)))
        self.harness.flush()
        return await finished(waiting)

    def create(self, request):
        code = self.creations.pop(0)
        if isinstance(code, Exception):
            raise code
        if code is E.NONE:
            self.add_queue()
        result = CreatableTopicResult(name=request.topics[0].name, error_code=code)
        return CreateTopicsResponse(topics=[result])

    async def settle(self):
        await trio.testing.wait_all_tasks_blocked()

    async def acquire(self):
        """Lets member m acquire all records; its next epoch is 2."""
        await self.fetched(0, 0)
        await self.settle()
        await self.fetched(1)

    async def reject(self, *offsets, epoch=2):
        acks = [(offset, offset, [3]) for offset in offsets]
        assert refusals(await self.acknowledged(epoch, {0: acks})) == {0: 0}
        await self.settle()

    async def sent(self):
        """Waits for the thread that reads copies; a clock that jumps ahead does not wait for threads."""
        while self.states.written_batches[-1][2] != ARCHIVED:
            await trio.lowlevel.checkpoint()

    def letters(self, index=0):
        """Returns the values of `offset`, `delivery.count` and `message` with key and value of each letter."""
        log = self.harness.leader("dlq.q", index).log
        data = log.read_bytes(log.log_start_offset, 1 << 20, upto_offset=log.log_end_offset)
        found = []
        for batch in iter_batches(data):
            for record in decode_records(batch):
                texts = {name.removeprefix(PREFIX): text.decode() for name, text in record.headers}
                assert [texts.pop(name) for name in ("topic", "partition", "group")] == [
                    *("t", "0", "g")
                ]
                found.append((*map(texts.get, ORDER), record.key, record.value))
        return found


ORDER = ("offset", "delivery.count", "message")
REJECTED = "Offset rejected by client."
TOO_OFTEN = "Offset delivery count exceeded the threshold."


def queue_rig(path, **settings):
    return sharing_rig(path, kind=QueueRig, **settings)


def lost(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if "dead letters" in record.getMessage() and record.levelno == logging.ERROR
    ]


def why(reason):
    return [f"g: records of t-0 are archived without their dead letters: {reason}"]


async def test_rejected_records_are_archived_after_the_queue(tmp_path):
    async with queue_rig(tmp_path) as rig:
        rig.add_queue()
        rig.produce(5)
        await rig.acquire()
        await rig.reject(1, 3)
        assert rig.letters() == [
            ("1", "1", REJECTED, None, None),
            ("3", "1", REJECTED, None, None),
        ]
        assert rig.states.written_batches == [
            *((1, 1, ARCHIVING, 1), (3, 3, ARCHIVING, 1)),
            *((1, 1, ARCHIVED, 1), (3, 3, ARCHIVED, 1)),
        ]
        found = rig.counts.of("g")
        assert (found.letters, found.letter_produces, found.failed_letter_produces) == (2, 1, 0)
        (asked,) = rig.asked
        assert (asked[0], asked[1].acks, asked[1].timeout_ms, asked[2]) == (11, -1, 30_000, 30.0)


async def test_later_letters_are_sent_too(tmp_path):
    async with queue_rig(tmp_path) as rig:
        rig.add_queue()
        rig.produce(5)
        await rig.acquire()
        await rig.reject(1)
        await rig.reject(3, epoch=3)
        assert [letter[0] for letter in rig.letters()] == ["1", "3"]
        assert rig.states.written_batches[-1] == (3, 3, ARCHIVED, 1)


async def test_record_delivered_too_often_is_in_the_queue(tmp_path):
    async with queue_rig(tmp_path) as rig:
        rig.add_queue()
        rig.configure(share_delivery_count_limit="2")
        rig.produce(1)
        await rig.acquire()
        await rig.acknowledged(2, {0: [(0, 0, [2])]})
        assert shown(await rig.fetched(3))[0][1] == [(0, 0, 2)]
        await rig.acknowledged(4, {0: [(0, 0, [2])]})
        await rig.settle()
        assert rig.letters() == [("0", "2", TOO_OFTEN, None, None)]
        assert rig.states.written_batches[-2:] == [(0, 0, ARCHIVING, 2), (0, 0, ARCHIVED, 2)]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
async def test_copies_have_keys_and_values(tmp_path, compression):
    async with queue_rig(tmp_path) as rig:
        rig.add_queue()
        rig.configure(errors_deadletterqueue_copy_record_enable="true")
        records = [NewRecord(b"k0", b"v0", 1), NewRecord(None, b"v1", 2), NewRecord(b"k2", None, 3)]
        data = memoryview(bytearray(build_batch(records, compression=compression)))
        rig.harness.leader().append(data, list(iter_batches(data)))
        rig.harness.flush()
        await rig.acquire()
        await rig.reject(0, 2)
        await rig.sent()
        assert [letter[3:] for letter in rig.letters()] == [
            (b"k0", b"v0"),
            (b"k2", None),
        ]


async def test_too_large_record_has_a_letter_without_copy(tmp_path):
    async with queue_rig(tmp_path) as rig:
        rig.add_queue()
        rig.configs[TOPIC_RESOURCE, "dlq.q"]["max.message.bytes"] = "1000"
        rig.configure(errors_deadletterqueue_copy_record_enable="true")
        append(rig.harness, b"y" * 1000, b"z" * 500, b"w" * 500)
        rig.harness.flush()
        await rig.acquire()
        await rig.reject(0, 1, 2)
        await rig.sent()
        assert [letter[-1] for letter in rig.letters()] == [None, b"z" * 500, b"w" * 500]
        assert len(rig.asked) == 3


async def test_missing_queue_is_created_if_allowed(tmp_path):
    async with queue_rig(tmp_path) as rig:
        rig.configs[BROKER_RESOURCE, ""] = {
            "errors.deadletterqueue.auto.create.topics.enable": "true"
        }
        rig.set_image()
        rig.creations = [E.NONE]
        rig.produce(1)
        await rig.acquire()
        await rig.reject(0)
        assert [letter[0] for letter in rig.letters()] == ["0"]
        assert (rig.asked[0][0].timeout_ms, rig.asked[0][1]) == (5_000, 5.0)
        (created,) = rig.asked[0][0].topics
        configs = {config.name: config.value for config in created.configs}
        assert (created.name, created.num_partitions, created.replication_factor, configs) == (
            *("dlq.q", -1, -1),
            {
                "errors.deadletterqueue.group.enable": "true",
                "message.timestamp.type": "CreateTime",
            },
        )


async def test_created_queue_is_awaited(tmp_path, autojump_clock):
    async with queue_rig(tmp_path) as rig:
        rig.configs[BROKER_RESOURCE, ""] = {
            "errors.deadletterqueue.auto.create.topics.enable": "true"
        }
        rig.set_image()
        rig.add_queue, add_queue = (lambda: None), rig.add_queue
        rig.creations = [E.NONE]
        rig.produce(1)
        await rig.acquire()
        assert refusals(await rig.acknowledged(2, {0: [(0, 0, [3])]})) == {0: 0}
        await trio.sleep(1)
        add_queue()
        await trio.sleep(0.5)
        assert [letter[0] for letter in rig.letters()] == ["0"]


async def test_unanswered_creation_is_repeated(tmp_path, autojump_clock, caplog):
    async with queue_rig(tmp_path) as rig:
        rig.configs[BROKER_RESOURCE, ""] = {
            "errors.deadletterqueue.auto.create.topics.enable": "true"
        }
        rig.set_image()
        rig.creations = [KafkaError(E.REQUEST_TIMED_OUT), E.POLICY_VIOLATION]
        rig.produce(1)
        await rig.acquire()
        await rig.reject(0)
        await trio.sleep(60)
        assert lost(caplog) == why("dlq.q cannot be created: POLICY_VIOLATION")
        assert rig.states.written_batches[-1] == (0, 0, ARCHIVED, 1)


async def test_missing_queue_loses_letters(tmp_path, caplog):
    async with queue_rig(tmp_path) as rig:
        rig.produce(1)
        await rig.acquire()
        await rig.reject(0)
        assert lost(caplog) == why("dlq.q does not exist, and is not created automatically")
        assert rig.states.written_batches == [(0, 0, ARCHIVING, 1), (0, 0, ARCHIVED, 1)]
        assert rig.asked == []


async def test_forbidden_queue_loses_letters(tmp_path, caplog):
    async with queue_rig(tmp_path) as rig:
        rig.add_queue()
        rig.refusal = E.TOPIC_AUTHORIZATION_FAILED
        rig.produce(1)
        await rig.acquire()
        await rig.reject(0)
        assert lost(caplog) == why("dlq.q cannot be written: TOPIC_AUTHORIZATION_FAILED")
        found = rig.counts.of("g")
        assert (found.letters, found.letter_produces, found.failed_letter_produces) == (0, 1, 1)
        assert rig.states.written_batches[-1] == (0, 0, ARCHIVED, 1)


async def test_leaderless_queue_gets_letters_later(tmp_path, autojump_clock):
    async with queue_rig(tmp_path) as rig:
        rig.add_queue(partition(leader=-1))
        rig.produce(1)
        await rig.acquire()
        acks = {0: [(0, 0, [3])]}
        assert refusals(await rig.acknowledged(2, acks)) == {0: 0}
        assert rig.states.written_batches == [(0, 0, ARCHIVING, 1)]
        await trio.sleep(1)
        rig.add_queue()
        await trio.sleep(5)
        assert [letter[0] for letter in rig.letters()] == ["0"]
        assert rig.states.written_batches[-1] == (0, 0, ARCHIVED, 1)


async def test_waiting_queue_lets_others_be_served(tmp_path, autojump_clock, monkeypatch):
    monkeypatch.setattr(dead_letter_queues, "AT_WORK_MAX", 1)
    async with queue_rig(tmp_path, partitions=2) as rig:
        rig.add_queue(partition(leader=-1), partition())
        for index in (0, 1):
            rig.produce(1, index=index)
        await rig.fetched(0, 0, 1)
        await rig.settle()
        await rig.fetched(1)
        await rig.acknowledged(2, {0: [(0, 0, [3])]})
        await rig.settle()
        await rig.acknowledged(3, {1: [(0, 0, [3])]})
        await rig.settle()
        assert [asked[1].topic_data[0].partition_data[0].index for asked in rig.asked] == [1]


async def test_unanswered_write_is_repeated(tmp_path, autojump_clock):
    async with queue_rig(tmp_path) as rig:
        rig.add_queue()
        rig.refusal = OutcomeUnknown("no answer")
        rig.produce(1)
        await rig.acquire()
        await rig.acknowledged(2, {0: [(0, 0, [3])]})
        await trio.sleep(1)
        rig.refusal = None
        await trio.sleep(5)
        assert [letter[0] for letter in rig.letters()] == ["0"]
        assert len(rig.asked) == 2


@pytest.mark.parametrize(("version", "state"), [(1, ARCHIVED), (2, ARCHIVING)])
async def test_queues_need_share_version_2(tmp_path, version, state):
    async with queue_rig(tmp_path) as rig:
        rig.add_queue()
        rig.set_image(version)
        rig.produce(1)
        await rig.acquire()
        await rig.reject(0)
        assert rig.states.written_batches[0] == (0, 0, state, 1)
        assert len(rig.letters()) == version - 1


async def test_next_leader_sends_the_remaining_letters(tmp_path):
    async with queue_rig(tmp_path) as rig:
        rig.add_queue()
        rig.produce(2)
        key = SharePartitionKey("g", topic_id("t"), 0)
        await rig.states.initialize(key, 0, 0)
        rig.states.records[key][0] = DeliveryState.ARCHIVING, 5
        await rig.acquire()
        await rig.settle()
        assert rig.letters() == [("0", "5", TOO_OFTEN, None, None)]


async def test_queue_follows_configs(tmp_path):
    async with queue_rig(tmp_path) as rig:
        rig.configs[BROKER_RESOURCE, "11"] = {"errors.deadletterqueue.topic.name.prefix": "d"}
        rig.configs[TOPIC_RESOURCE, "dlq.q"] = {}
        rig.configure(errors_deadletterqueue_copy_record_enable="true")
        rig.add_queue(partition(), partition(leader=12), enabled="false")
        found = rig.sharing._queues.queue_of("g")
        leaders = [11, -1]
        bytes_max = 1_048_588
        assert found == Queue(
            *("dlq.q", "d", False, True),
            QueueTopic(topic_id("dlq.q"), False, leaders, bytes_max),
        )
        assert rig.sharing._queues.queue_of("h")[:2] == ("", "d")
