"""Reads a record; prints its value, or the error."""

import sys

from kafka import KafkaConsumer, KafkaProducer

bootstrap, topic = sys.argv[1:]
producer = KafkaProducer(bootstrap_servers=bootstrap)
producer.send(topic, b"v").get(60)
producer.close()
consumer = KafkaConsumer(
    topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", retry_backoff_ms=10
)
try:
    print("read", next(consumer).value.decode())
except AttributeError as error:
    print(type(error).__name__)
consumer.close()
