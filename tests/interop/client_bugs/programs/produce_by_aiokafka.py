"""Writes a record; prints where, or the error."""

import asyncio  # noqa: TID251 - aiokafka is made for it
import sys

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError


async def main(bootstrap, topic):
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, retry_backoff_ms=10) as producer:
        try:
            print("written at", (await producer.send_and_wait(topic, b"v")).offset)
        except KafkaError as error:
            print(type(error).__name__)


asyncio.run(main(*sys.argv[1:]))
