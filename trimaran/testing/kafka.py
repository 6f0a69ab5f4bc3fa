"""Operations of tests on both kinds of cluster. Any client can perform other operations."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import NamedTuple, Self

from trimaran.client import changes
from trimaran.client.positions import parse_position
from trimaran.client.reader import PartitionReader
from trimaran.client.topic_partitions import leaders_of
from trimaran.errors.user_error import UserError
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.security.listener import ClientSecurity

TIMEOUT_SECONDS = 10.0
_POLL_SECONDS = 0.02
# The time limit of a read that begins just before the timeout ends, or with `timeout=0`.
_LAST_READ_SECONDS = 1.0
_CREATE_TIMEOUT_MS = 10_000


class ConsumedRecord(NamedTuple):
    """A record as stored in the log; headers are pairs."""

    partition: int
    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Kafka(ABC):
    """A cluster that runs within its block, or from `start` to `stop`. `bootstrap` is the value for `bootstrap.servers`
    of clients.
    """

    bootstrap: str
    # TLS of the listener, if it has any
    security: ClientSecurity | None = None

    @abstractmethod
    def start(self) -> Self:
        """Returns when clients are served."""

    @abstractmethod
    def stop(self) -> None:
        """Returns when the cluster has ended and its data is deleted; does nothing if it does not run."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Returns the name, once every partition has a leader that all brokers know.

        Raises:
            KafkaError: the cluster refused the request; the error gives the reason.
        """
        texts = {key: str(value) for key, value in (configs or {}).items()}
        with self.client() as client:
            response = changes.create_topic(
                client, name, partitions, replication, texts, timeout_ms=_CREATE_TIMEOUT_MS
            )
            self._wait_for_leaders(client, name, response.num_partitions)
        return name

    def delete_topic(self, name: str) -> None:
        """Raises KafkaError: the cluster refused the request; the error gives the reason."""
        with self.client() as client:
            changes.delete_topic(client, name, timeout_ms=_CREATE_TIMEOUT_MS)

    def records(self, topic: str, *, committed: bool = True) -> list[ConsumedRecord]:
        """Returns all records of a topic, partition by partition; without records of open or aborted transactions,
        unless `committed` is false.
        """
        return self._records(topic, committed=committed)

    def _records(
        self, topic: str, *, committed: bool, until: float = math.inf
    ) -> list[ConsumedRecord]:
        with self.client(until) as client:
            start = parse_position("start")
            partitions = [
                TopicPartition(topic, index) for index in range(len(leaders_of(client, topic)))
            ]
            reader = PartitionReader(client, partitions, is_committed=committed)
            return [
                ConsumedRecord(
                    where.partition,
                    record.offset,
                    record.timestamp_ms,
                    record.key,
                    record.value,
                    tuple((header.key, header.value) for header in record.headers),
                )
                for where, record in reader.records(start, exit_at_end=True)
            ]

    def eventually_consumes(
        self,
        topic: str,
        values: Iterable[bytes | str],
        *,
        timeout: float = TIMEOUT_SECONDS,
        committed: bool = True,
    ) -> list[ConsumedRecord]:
        """Returns the records of a topic as soon as their values are `values` in any order, duplicates included.

        Raises:
            AssertionError: the values differ after `timeout` seconds; the error has the missing and the surplus values,
                the states of the nodes, and the reason if nothing could be read.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        wanted: Counter[bytes | None] = Counter(
            value.encode() if isinstance(value, str) else value for value in values
        )
        deadline = time.monotonic() + timeout
        values_found: Counter[bytes | None] = Counter()
        while True:
            failure = ""
            try:
                until = max(deadline, time.monotonic() + _LAST_READ_SECONDS)
                found = self._records(topic, committed=committed, until=until)
            except (ConnectionLost, RequestTimedOut, KafkaError, UserError) as error:
                failure = f"; it cannot be read: {' '.join(str(error).split())}"
            else:
                values_found = Counter(record.value for record in found)
                if values_found == wanted:
                    return found
            if time.monotonic() >= deadline:
                break
            time.sleep(_POLL_SECONDS)
        missing, more = wanted - values_found, values_found - wanted
        raise AssertionError(
            f"{topic} has not what was expected after {timeout:g} s: "
            f"missing {_some_values(missing)}, too much {_some_values(more)}{failure}\n{self.diagnosis()}"
        )

    @abstractmethod
    def diagnosis(self) -> str:
        """Returns the state of each node, and the ends of the logs of those that do not run, for a failed test."""

    def client(self, until: float = math.inf) -> BlockingClient:
        """Returns a client for requests of the test itself."""
        return BlockingClient(
            self.bootstrap, client_id="trimaran-testing", security=self.security, until=until
        )

    def _wait_for_leaders(self, client: BlockingClient, name: str, partitions: int) -> None:
        """Waits for leaders on all brokers: a broker that does not know the topic yet would report it as unknown to a
        client.
        """
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        deadline = time.monotonic() + TIMEOUT_SECONDS
        for broker in client.refresh().brokers:
            while True:
                (topic,) = client.call(broker.node_id, request).topics
                if not topic.error_code and len(topic.partitions) == partitions:
                    break
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"broker {broker.node_id} does not know {name}")
                time.sleep(_POLL_SECONDS)


def _some_values(values: Counter[bytes | None]) -> str:
    """Returns the first few values as text."""
    some = [f"{value!r}" + (f" x {count}" if count > 1 else "") for value, count in values.items()]
    return ", ".join(some[:5]) + (f" and {len(some) - 5} more" if len(some) > 5 else "") or "none"
