"""aiokafka."""

from __future__ import annotations

import asyncio  # noqa: TID251 - the client is what is tested
import sys
import threading

from aiokafka import AIOKafkaConsumer


async def run(bootstrap, group, topic, client_id):
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=client_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=10_000,
    )
    await consumer.start()
    while not stopped.is_set():
        for records in (await consumer.getmany(timeout_ms=100)).values():
            for record in records:
                print(record.partition, record.offset, flush=True)
    await consumer.commit()
    await consumer.stop()


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
