"""Fetch requests of consumers and followers, and helpers that read the responses."""

from __future__ import annotations

from tests.broker.batches import append, batch
from tests.broker.calls import call, finished, started, through_wire
from tests.cluster.data_side import registration, topic_id
from trimaran.broker.fetching.fetch import Fetch, FetchReader, FetchTerms
from trimaran.broker.fetching.slots import Slot
from trimaran.broker.handlers.fetch import fetch
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

VERSION = 17
BROKERS = tuple(registration(node_id) for node_id in (0, 11, 12, 13))


def wanted(index=0, offset=0, *, max_bytes=1 << 20, **fields):
    return FetchPartition(
        partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **fields
    )


def request(*partitions, follower=None, session_id=0, epoch=-1, topics=("t",), **fields):
    state = ReplicaState()
    if follower is not None:
        state = ReplicaState(replica_id=follower, replica_epoch=100 + follower)
    values = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
    asked = [
        FetchTopic(topic=name, topic_id=topic_id(name), partitions=list(partitions))
        for name in (topics if partitions else ())
    ]
    return FetchRequest(
        replica_state=state, session_id=session_id, session_epoch=epoch, topics=asked, **values
    )


def start(harness, message, version=VERSION):
    message = through_wire(message, version)
    return started(fetch(message, harness.contexts.data, call(message, version)))


async def ask(harness, message, version=VERSION):
    message = through_wire(message, version)
    return await finished(fetch(message, harness.contexts.data, call(message, version)))


async def ask_one(harness, *partitions, version=VERSION, **fields):
    """Returns the response for the only partition."""
    response = await ask(harness, request(*partitions, **fields), version)
    [answered] = response.responses
    [data] = answered.partitions
    return data


def fetch_of(harness, *partitions, in_session=False, **terms):
    """Returns a fetch of partitions of `t` that has not read yet, its reader, and its slots."""
    reader, asked = FetchReader(in_session=in_session), FetchTopic(topic="t", partitions=[])
    slots = [Slot(reader, asked, partition, upto_end=False) for partition in partitions]
    reader.changed.update(dict.fromkeys(slots))
    reader.tick(0.0)
    terms = FetchTerms(**{"min_bytes": 1, "max_bytes": 1 << 20, **terms})
    return Fetch(reader, harness.partitions, terms), reader, slots


def sizes(response):
    """Returns the bytes of records by partition index, in response order."""
    return {
        data.partition_index: data.records.size if data.records else 0
        for answered in response.responses
        for data in answered.partitions
    }


def fill(harness, *indexes, values=(b"a",)):
    """Appends one batch per value to each of the partitions; returns the size of a batch with a value of one byte."""
    for index in indexes:
        for value in values:
            append(harness, value, index=index)
    harness.flush()
    return len(batch(b"a"))
