"""Share groups on one broker's data side: real logs and handlers, and states in memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace

import trio
from immutables import Map

from tests.broker.batches import append
from tests.broker.calls import call, connection, finished, started, through_wire
from tests.broker.sharing.memory_states import MemoryStates
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.handlers.share_acknowledge import share_acknowledge
from trimaran.broker.handlers.share_fetch import share_fetch
from trimaran.broker.partitions.end_markers import append_end_marker
from trimaran.broker.sharing.counts import ShareCounts
from trimaran.broker.sharing.dead_letter_queues import DeadLetterQueues
from trimaran.broker.sharing.sessions import ShareSessions
from trimaran.broker.sharing.settings import SharingSettings
from trimaran.broker.sharing.share_partitions import SharePartitions
from trimaran.log.producers.marker import EndMarker
from trimaran.quorum.metadata.features import SHARE_VERSION
from trimaran.quorum.metadata.image import FeaturesImage
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.messages import share_acknowledge as acknowledge_messages
from trimaran.wire.messages import share_fetch as fetch_messages
from trimaran.wire.messages.header import encode_response
from trimaran.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from trimaran.wire.messages.share_fetch import ShareFetchRequest

VERSION = 2
GROUP_RESOURCE = 32
MAX_BYTES = 1 << 20


class SharingRig:
    """One broker with the topic `t`; group `g` reads from the beginning unless the test says otherwise."""

    def __init__(self, path, *, partitions=1, sessions_max=10, **settings):
        self.harness = open_harness(path, **settings)
        self.image_partitions = partitions
        self.others = []
        self.configs = {(GROUP_RESOURCE, "g"): {"share.auto.offset.reset": "earliest"}}
        self.set_image()
        self.states = MemoryStates()
        self.sessions = ShareSessions(sessions_max)
        self.counts = ShareCounts()
        self.sharing = SharePartitions(
            self.states,
            SharingSettings(self.harness.config, lambda: self.harness.metadata.image.configs),
            self.sessions,
            lambda: self.harness.now,
            lambda: 1_000_000,
            DeadLetterQueues(
                *(self, self, self.harness.metadata),
                *(self.harness.cluster.configs, self.harness.settings, lambda: 1_000_000),
                self.counts,
            ),
            self.counts,
        )
        self.context = replace(self.harness.contexts.sharing, sharing=self.sharing)
        self.connection = connection()

    def set_image(self, share_version=1, **changes):
        """Publishes the topic, the group's configs and the level of the feature."""
        harness = self.harness
        harness.set_image(
            topic("t", *[partition(**changes) for _ in range(self.image_partitions)]),
            *self.others,
            configs=self.configs,
        )
        levels = Map({SHARE_VERSION: share_version} if share_version else {})
        harness.metadata.set(replace(harness.metadata.image, features=FeaturesImage(levels=levels)))

    def configure(self, **configs):
        """Sets configs of group `g`, dots as underscores."""
        self.configs[GROUP_RESOURCE, "g"] |= {
            name.replace("_", "."): value for name, value in configs.items()
        }
        self.set_image()

    def produce(self, *batches, index=0, **terms):
        """Appends batches with these numbers of records, and flushes."""
        for size in batches:
            append(self.harness, *[b"x"] * size, index=index, **terms)
        self.harness.flush()

    def key(self, index=0, group="g"):
        return SharePartitionKey(group, topic_id("t"), index)

    def share(self, index=0, group="g"):
        return self.sharing.find(self.key(index, group))

    async def call(self, *request, timeout):  # noqa: ASYNC109
        """Refuses requests to other nodes; the dead-letter queues' tests have more."""
        raise AssertionError(f"{request} for {timeout} s")

    # -- requests

    def fetch(self, epoch=0, *indexes, acks=None, on=None, version=VERSION, **changes):
        """Returns the running handler of a ShareFetch; `acks` has lists of (first, last, types) by partition."""
        named = [
            fetch_messages.FetchPartition(
                partition_index=index,
                acknowledgement_batches=[
                    fetch_messages.AcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=types
                    )
                    for first, last, types in (acks or {}).get(index, ())
                ],
            )
            for index in dict.fromkeys([*indexes, *(acks or ())])
        ]
        forgotten = changes.pop("forgotten", ())
        values = {
            "group_id": "g",
            "member_id": "m",
            "share_session_epoch": epoch,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": MAX_BYTES,
            "max_records": 500,
            "batch_size": 500,
            "topics": [fetch_messages.FetchTopic(topic_id=topic_id("t"), partitions=named)]
            if named
            else [],
            "forgotten_topics_data": [
                fetch_messages.ForgottenTopic(topic_id=topic_id("t"), partitions=list(forgotten))
            ]
            if forgotten
            else [],
            **changes,
        }
        request = through_wire(ShareFetchRequest(**values), version)
        return share_fetch(request, self.context, call(request, version, on or self.connection))

    async def fetched(self, *args, **changes):
        """Returns the response, which must be one that can be sent."""
        response = await finished(self.fetch(*args, **changes))
        encode_response(response, VERSION, 1)
        return response

    def start_fetch(self, *args, **changes):
        """Returns the fetch, paused where it waits."""
        return started(self.fetch(*args, **changes))

    def acknowledge(self, epoch, acks, version=VERSION, on=None, **changes):
        partitions = [
            acknowledge_messages.AcknowledgePartition(
                partition_index=index,
                acknowledgement_batches=[
                    acknowledge_messages.AcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=types
                    )
                    for first, last, types in batches
                ],
            )
            for index, batches in acks.items()
        ]
        values = {
            "group_id": "g",
            "member_id": "m",
            "share_session_epoch": epoch,
            "topics": [
                acknowledge_messages.AcknowledgeTopic(topic_id=topic_id("t"), partitions=partitions)
            ],
            **changes,
        }
        request = through_wire(ShareAcknowledgeRequest(**values), version)
        return share_acknowledge(
            request, self.context, call(request, version, on or self.connection)
        )

    async def acknowledged(self, *args, **changes):
        return await finished(self.acknowledge(*args, **changes))


def shown(response):
    """Returns by partition the error, the acquired records, and the error of the acknowledgement."""
    return {
        data.partition_index: (
            data.error_code,
            [(part.first_offset, part.last_offset, part.delivery_count)
             for part in data.acquired_records],
            data.acknowledge_error_code,
        )
        for answered in response.responses
        for data in answered.partitions
    }  # fmt: skip


def refusals(response):
    """Returns the error of each partition of a ShareAcknowledge."""
    return {
        data.partition_index: data.error_code
        for answered in response.responses
        for data in answered.partitions
    }


def transact(rig, producer_id, size, *, is_commit, index=0):
    """Writes one transaction with its marker."""
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
    rig.produce(size, index=index, is_transactional=True, **fields)
    append_end_marker(
        rig.harness.leader("t", index),
        EndMarker(is_commit=is_commit, coordinator_epoch=0),
        producer_id=producer_id,
        producer_epoch=0,
        transaction_version=1,
        now_ms=1_000,
    )
    rig.harness.flush()


@asynccontextmanager
async def sharing_rig(path, kind=SharingRig, **settings):
    """Runs share partitions on a new broker."""
    rig = kind(path, **settings)
    async with trio.open_nursery() as nursery:
        await nursery.start(rig.sharing.run)
        yield rig
        nursery.cancel_scope.cancel()
