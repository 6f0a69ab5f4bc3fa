"""Kafka for tests: real brokers on real sockets, without JVM or Docker.

`EmbeddedKafka` is one node in this process, which starts in a tenth of a second. `KafkaCluster` is a cluster of
processes whose nodes can be killed and frozen. Fixtures for pytest are in a distribution of their own
(`pytest_trimaran`).
"""

from trimaran.testing.cluster import KafkaCluster
from trimaran.testing.embedded import EmbeddedKafka
from trimaran.testing.kafka import Kafka

__all__ = ["EmbeddedKafka", "Kafka", "KafkaCluster"]
