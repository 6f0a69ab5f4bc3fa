"""kafka-python."""

from __future__ import annotations

import sys
import threading

from kafka import KafkaConsumer


def main(bootstrap, group, topic, client_id):
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=client_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=10_000,
    )
    while not stopped.is_set():
        for records in consumer.poll(timeout_ms=100).values():
            for record in records:
                print(record.partition, record.offset, flush=True)
    consumer.commit()
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
