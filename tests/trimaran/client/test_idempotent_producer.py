"""`produce` over a connection that breaks: a record that was written without a response is not written twice."""

from __future__ import annotations

import pytest
import trio

from tests.broker.handlers.broker_client import BrokerClient
from tests.cluster.in_process import cluster, connected_to
from trimaran.client.idempotent_producer import IdempotentProducer
from trimaran.wire.blocking import BlockingClient, BlockingConnection
from trimaran.wire.client.errors import ConnectionLost
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.produce import ProduceRequest

BATCHES = [[(b"k", b"one"), (None, b"two")], [(None, b"three")], [(None, b"four")]]


@pytest.mark.parametrize("lost", [0, 1, 2])
async def test_batch_with_lost_answer_is_stored_once(tmp_path, monkeypatch, lost):
    real, answers = BlockingConnection.call, []

    def call(self, request, **options):
        answer = real(self, request, **options)
        if isinstance(request, ProduceRequest):
            answers.append(answer)
            if len(answers) == lost + 1:
                raise ConnectionLost("after it was sent")
        return answer

    monkeypatch.setattr(BlockingConnection, "call", call)
    async with cluster(tmp_path) as running:
        broker = running.brokers[11]
        async with connected_to(broker) as connection:
            await BrokerClient(running, broker, connection).create("t")

        def send() -> None:
            with BlockingClient(running.bootstrap) as client:
                producer = IdempotentProducer(client, "t")
                for batch in BATCHES:
                    producer.send(0, batch)

        await trio.to_thread.run_sync(send)
        assert len(answers) == len(BATCHES) + 1
        assert (
            broker.parts.families.data.partitions.find(TopicPartition("t", 0)).log.log_end_offset
            == 4
        )
