"""Fetch sessions while leaders move (KIP-227, KIP-951): a consumer follows only the hints in responses, and neither
misses nor repeats a record.

The consumer reads metadata only to learn that a partition has moved back to this broker.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.batches import append
from tests.broker.fetching.fetch_requests import ask, request, wanted
from tests.cluster.data_side import open_harness, partition, registration, topic, topic_id
from trimaran.broker.fetching.sessions import EPOCH_MAX, next_epoch
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import decode_records
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.fetch import ForgottenTopic

HERE, THERE, PORT = 11, 12, 7777
BROKERS = (registration(HERE), registration(THERE, port=PORT))
PARTITIONS = 3
MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["append", "poll", "move", "move twice", "back", "evict", "wrap"]),
            st.integers(0, PARTITIONS - 1),
        ),
        max_size=30,
    )
)
def test_session_under_churn_delivers_records_once_in_order(steps):
    path = Path(tempfile.mkdtemp())
    try:
        trio.run(assert_each_record_once, path, steps)
    finally:
        shutil.rmtree(path)


async def assert_each_record_once(path, steps):
    cluster = _Cluster(path)
    consumer = _Consumer(cluster)
    for kind, index in steps:
        match kind:
            case "append":
                cluster.append(index)
            case "poll":
                await consumer.poll()
            case "move":
                cluster.lead(index, THERE)
            case "move twice":
                cluster.lead(index, THERE)
                cluster.lead(index, HERE)
            case "back":
                cluster.lead(index, HERE)
                consumer.found_here(index)
            case "evict":
                cluster.harness.contexts.data.fetch_sessions.close(consumer.session_id)
            case _:
                consumer.wrap()
    for index in range(PARTITIONS):
        cluster.lead(index, HERE)
        consumer.found_here(index)
    for _ in range(4):  # an eviction, an old epoch, available records, and the remaining ones
        await consumer.poll()
    assert consumer.received == cluster.counts
    cluster.harness.directory.close(broker_epoch=1)


class _Cluster:
    """Broker `HERE` and the partitions that it leads or follows; each partition has `counts` records."""

    def __init__(self, path) -> None:
        self.harness = open_harness(path, trimaran_log_fsync="none")
        self.leaders = [HERE] * PARTITIONS
        self.epochs = [0] * PARTITIONS
        self.counts = [0] * PARTITIONS
        self._publish()

    def lead(self, index, leader):
        if self.leaders[index] != leader:
            self.leaders[index] = leader
            self.epochs[index] += 1
            self._publish()

    def _publish(self):
        images = [
            partition((HERE,) if leader == HERE else (THERE, HERE), leader_epoch=epoch)
            for leader, epoch in zip(self.leaders, self.epochs, strict=True)
        ]
        self.harness.set_image(topic("t", *images), brokers=BROKERS)

    def append(self, index):
        if self.leaders[index] == HERE:
            append(self.harness, b"%d" % self.counts[index], index=index)
            self.counts[index] += 1


class _Consumer:
    """A consumer that sends the leader epoch that it knows in each request, and learns of later ones from responses."""

    def __init__(self, cluster) -> None:
        self._cluster = cluster
        self.session_id, self._epoch = 0, 0
        self.received = [0] * PARTITIONS
        self._epochs = [0] * PARTITIONS
        self._elsewhere: set[int] = set()
        self._sent: dict[int, tuple[int, int]] = {}

    def found_here(self, index):
        """Makes the consumer read from the metadata that `HERE` leads the partition."""
        self._elsewhere.discard(index)
        self._epochs[index] = self._cluster.epochs[index]

    def wrap(self):
        """Sets the session epoch as after two billion requests."""
        session = self._cluster.harness.contexts.data.fetch_sessions._sessions.get(self.session_id)
        if session is not None:
            session.epoch = self._epoch = EPOCH_MAX

    async def poll(self):
        wants = {
            index: (self.received[index], self._epochs[index])
            for index in range(PARTITIONS)
            if index not in self._elsewhere
        }
        changed = {index: want for index, want in wants.items() if self._sent.get(index) != want}
        gone = sorted(self._sent.keys() - wants.keys())
        answer = await ask(
            self._cluster.harness,
            request(
                *(wanted(i, at, current_leader_epoch=epoch) for i, (at, epoch) in changed.items()),
                session_id=self.session_id,
                epoch=self._epoch,
                forgotten_topics_data=[ForgottenTopic(topic_id=topic_id("t"), partitions=gone)]
                if gone
                else [],
            ),
        )
        if answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id, self._epoch, self._sent = 0, 0, {}
            return
        assert answer.error_code == 0
        self.session_id, self._epoch, self._sent = answer.session_id, next_epoch(self._epoch), wants
        for data in (fetched for found in answer.responses for fetched in found.partitions):
            if data.error_code:
                self._take_hint(data, answer)
            else:
                self._take_records(data)

    def _take_hint(self, data, answer):
        index, leader = data.partition_index, data.current_leader
        assert data.error_code in MOVED
        assert leader.leader_id == self._cluster.leaders[index]
        assert leader.leader_epoch == self._cluster.epochs[index] > self._epochs[index]
        ports = {node.node_id: node.port for node in answer.node_endpoints}
        assert len(ports) == len(answer.node_endpoints), "each is named once"
        assert leader.leader_id in ports
        self._epochs[index] = leader.leader_epoch
        if leader.leader_id == THERE:
            assert ports[THERE] == PORT
            self._elsewhere.add(index)

    def _take_records(self, data):
        for batch in iter_batches(data.records.read() if data.records else b""):
            for record in decode_records(batch):
                index = data.partition_index
                assert record.offset == self.received[index] == int(record.value)
                self.received[index] += 1
