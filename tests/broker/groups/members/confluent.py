"""confluent-kafka (librdkafka)."""

from __future__ import annotations

import sys
import threading

from confluent_kafka import KafkaException

from tests.librdkafka import Consumer


def main(bootstrap, group, topic, client_id):
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
        }
    )
    consumer.subscribe([topic])
    read = False
    while not stopped.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        read = True
        print(message.partition(), message.offset(), flush=True)
    if read:
        consumer.commit(asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
