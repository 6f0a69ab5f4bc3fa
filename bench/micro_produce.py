"""Microseconds per Produce request in the handler: from the decoded request to the response, or to the point where it
waits.

Run: `python -m bench.micro_produce [DIRECTORY]`. Figures are CPU time of one process without fsync, the best of some
rounds; the log is real. `append` appends the same batches to the log: the difference is the cost of the handler. `ACLs`
is the cost of an authorizer with a thousand ACLs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import trio

from bench.authorization_cost import authorizer
from bench.sizes import sized
from tests.broker.calls import call, connection, started, through_wire
from tests.cluster.data_side import open_harness, partition, replaced, topic, topic_id
from trimaran.broker.handlers.produce import produce
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.validation.validate import validate_produced
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ROUNDS = sized(15, 1)
REPEATS_MAX = sized(500, 4)
VERSION = 13
# partitions, records in each, bytes of a value
CASES = [(1, 16, 990), (1, 1, 100), (10, 2, 800), (150, 1, 100)]
ACKS = (1, -1, 0)


def best(action, repeats):
    """Returns the least mean time of `action` in µs over the rounds."""
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(repeats):
            action()
        times.append((time.process_time() - begin) / repeats)
    return min(times) * 1e6


def request_of(partitions, count, value_bytes, acks):
    records = build_batch([NewRecord(None, b"v" * value_bytes, now_ms()) for _ in range(count)])
    data = [PartitionProduceData(index=i, records=bytes(records)) for i in range(partitions)]
    one = TopicProduceData(topic_id=topic_id("t"), partition_data=data)
    message = ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[one])
    return through_wire(message, VERSION)


def measure(root, partitions, count, value_bytes, acks):
    harness = open_harness(root)
    harness.set_image(topic("t", *[partition()] * partitions))
    message = request_of(partitions, count, value_bytes, acks)
    views = [data.records for data in message.topic_data[0].partition_data]
    leaders = [harness.leader("t", index) for index in range(partitions)]
    asked = call(message, VERSION, connection())

    def handle():
        for view in views:
            view[:8] = bytes(8)  # the last append wrote its offset into the batch
        started(produce(message, harness.contexts.data, asked))

    def append():
        for view, leader in zip(views, leaders, strict=True):
            view[:8] = bytes(8)
            found = validate_produced(view, leader.replica.settings.rules, now_ms=now_ms())
            leader.append(view, found, acks=acks)

    append()  # opens the logs: a request with many closed ones takes another path
    repeats = max(4, min(REPEATS_MAX, (2 << 20) // sum(map(len, views)), 2000 // partitions))
    whole, alone = best(handle, repeats), best(append, repeats)
    harness.contexts = replaced(harness.contexts, authorizer=authorizer())
    judged = best(handle, repeats)
    print(
        f"{partitions:4} partitions x {len(views[0]):6} B  acks {acks:2}  "
        f"handler {whole:8.1f} µs, append {alone:8.1f} µs, "
        f"left {whole - alone:7.1f} µs, ACLs {judged - whole:5.1f} µs"
    )
    harness.directory.close(broker_epoch=None)


async def main():
    for case in CASES:
        for acks in ACKS:
            with tempfile.TemporaryDirectory(
                dir=sys.argv[1] if len(sys.argv) > 1 else None
            ) as root:
                measure(Path(root), *case, acks)


if __name__ == "__main__":
    trio.run(main)
