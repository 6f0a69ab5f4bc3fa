"""The same changes of topics under `controller_mutation_rate` get equal responses from us and from Apache Kafka 4.4."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest

from tests.cluster.processes import until
from tests.interop.conftest import trimaran
from tests.wire.transport.support import request_frame
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from trimaran.wire.messages.header import decode_response_header
from trimaran.wire.messages.metadata import MetadataRequest
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.schema import Message

# There is a token every ten seconds, so that the throttle time shows the cost of a request, but not our speed.
RATE = 0.1
ROUNDED_MS = 10_000


class Client:
    """One connection to one broker."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(",", maxsplit=1)[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: Message, version: int, client_id: str) -> Any:
        self._socket.sendall(request_frame(request, version, 1, client_id))
        with self._socket.makefile("rb") as answers:
            data = answers.read(int.from_bytes(answers.read(4), "big"))
        _, body = decode_response_header(data, request.KEY, version)
        return RESPONSES[request.KEY].decode(data[body:], version)


def creation(*topics: tuple[str, int], validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[]
            )
            for name, count in topics
        ],
        validate_only=validate_only,
    )


def growth(name: str, count: int) -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=5000, validate_only=False)


def deletion(name: str, version: int) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
    topics = [DeleteTopicState(name=name, topic_id=NIL_UUID)]
    return DeleteTopicsRequest(topics=topics, timeout_ms=5000)


def told(answer: Any) -> tuple[Any, ...]:
    names = ("topics", "results", "responses")
    items = next(getattr(answer, name) for name in names if hasattr(answer, name))
    each = sorted((item.name, item.error_code, item.error_message) for item in items)
    return each, round(answer.throttle_time_ms / ROUNDED_MS)


@contextmanager
def limited(bootstrap: str, rate: float) -> Iterator[None]:
    """Sets the rate of changes for each client id; waits until the active controller has it."""
    trimaran("quotas", "set", "client-id", f"controller_mutation_rate={rate}", "-b", bootstrap)
    numbers = itertools.count()

    def is_known() -> bool:
        with Client(bootstrap) as client:  # the previous connection is muted, or will be
            name = f"quota-probe-{next(numbers)}"
            probe = creation((name, 50), validate_only=True)
            return bool(told(client.ask(probe, 7, "probe"))[1])

    try:
        until(is_known, "the quota is known", 30)
        yield
    finally:
        trimaran("quotas", "delete", "client-id", "-b", bootstrap)


def answers(bootstrap: str, request: Message, version: int, client_id: str) -> list[Any]:
    """Returns the responses to `request` of a client without tokens, and to its next one."""
    steps = (
        (creation((f"{client_id}-burst", 4)), 7),
        (request, version),
        (creation((f"{client_id}-next", 1)), 7),
        (creation((f"{client_id}-checked", 1), validate_only=True), 7),
        (deletion("there-is-none", 6), 6),
    )
    found = []
    for step, of in steps:
        with Client(bootstrap) as client:  # the previous connection is muted
            found.append(told(client.ask(step, of, client_id)))
    return found


CASES = [
    (creation(("quota-a", 1)), 7),
    (creation(("quota-b", 1), ("quota-c", 2)), 6),
    (creation(("quota-d", 2)), 5),
    (creation(("quota-e", 2)), 2),
    (growth("quota-base", 5), 3),
    (growth("quota-base", 6), 2),
    (deletion("quota-base", 6), 6),
    (deletion("quota-base", 5), 5),
    (deletion("quota-base", 4), 4),
]


def test_changes_above_rate_are_answered_as_kafka(ours, kafka):
    found = []
    for cluster in (ours, kafka):
        with Client(cluster.bootstrap) as admin:
            made = admin.ask(creation(("quota-base", 3)), 7, "admin")
        assert made.topics[0].error_code == 0
        with limited(cluster.bootstrap, RATE):
            found.append(
                [
                    answers(cluster.bootstrap, request, version, f"quota-{index}")
                    for index, (request, version) in enumerate(CASES)
                ]
            )
    assert found[0] == found[1]


@pytest.mark.parametrize("which", ["ours", "kafka"])
def test_throttled_connection_is_not_read_meanwhile(which, request):
    """The second request is sent on the throttled connection."""
    bootstrap = request.getfixturevalue(which).bootstrap
    with limited(bootstrap, 1), Client(bootstrap) as client:
        client.ask(creation(("quota-muted", 15)), 7, "muted")
        throttled = client.ask(creation(("quota-muted-more", 1)), 7, "muted")
        began = time.monotonic()
        client.ask(MetadataRequest(topics=[]), 9, "muted")
    assert throttled.throttle_time_ms > 1000
    assert time.monotonic() - began >= throttled.throttle_time_ms / 1000 * 0.9
