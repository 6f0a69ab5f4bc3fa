"""The topics of Metadata responses, cached in encoded form: thousands of clients request the same ones, and ten
thousand partitions take 0.2 s to encode.

A view has the topics for one listener and one version, for all clients. A client's authorized operations are written
into a copy. A view is valid until the cluster changes, and each topic in it until the topic changes: images share
unchanged objects, so that a comparison of identities detects changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trimaran.broker.metadata.internal_topics import INTERNAL_TOPICS
from trimaran.broker.metadata.reachable import Reachable
from trimaran.broker.metadata.seen_topics import SeenTopics
from trimaran.quorum.metadata.image import ClusterImage, MetadataImage, PartitionImage, TopicImage
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import BrokerId
from trimaran.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from trimaran.wire.schema import encode_element

FIRST_FLEXIBLE_VERSION = 9
# The client libraries in a cluster use a few versions on a few listeners; a view of 50,000 partitions takes 2 MB.
VIEWS_MAX = 8
# Recreated topics leave their old encodings behind; a view with more than this multiple of the existing topics is
# discarded.
STALE_FACTOR = 2
STALE_MIN = 1000


class ViewKey(NamedTuple):
    """The properties on which the encoding of a topic depends."""

    version: int
    listener: str


class TopicView:
    """The topics as clients of one listener see them: brokers that are fenced or lack the listener are unreachable."""

    def __init__(self, cluster: ClusterImage, asked: ViewKey) -> None:
        self.cluster = cluster
        self._asked = asked
        self._reachable = Reachable(cluster, asked.listener)
        self._known: dict[bytes, tuple[TopicImage, bytes]] = {}
        # Topics that a request has begun to encode; the next request that needs them continues.
        self._begun: dict[bytes, tuple[TopicImage, Iterator[None]]] = {}
        self.seen = SeenTopics()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, topic: TopicImage) -> bytes | None:
        """Returns the encoded topic, or None if it has not been encoded yet or has changed since."""
        known = self._known.get(topic.id)
        return known[1] if known is not None and known[0] is topic else None

    def encode_some(self, topic: TopicImage) -> None:
        """Encodes one more partition of a topic that `find` does not have; after the last one, `find` returns the
        topic.

        Requests that need the same topic share the work; no request waits for another one, because its client may be
        slow.
        """
        begun = self._begun.get(topic.id)
        if begun is None or begun[0] is not topic:
            begun = self._begun[topic.id] = (topic, self._encode(topic))
        if next(begun[1], self) is self:
            del self._begun[topic.id]

    def with_operations(self, element: bytes, operations: int) -> bytes:
        """Returns the encoded topic with the client's authorized operations.

        They are the last field before the tagged fields, which are empty.
        """
        end = len(element) - (self._asked.version >= FIRST_FLEXIBLE_VERSION)
        return element[: end - 4] + operations.to_bytes(4, "big", signed=True) + element[end:]

    def _encode(self, topic: TopicImage) -> Iterator[None]:
        partitions = EncodedArray()
        for index, state in sorted(topic.partitions.items()):
            shown = self._partition(index, state)
            partitions.append(encode_element(shown, MetadataResponse, self._asked.version))
            yield
        self._known[topic.id] = (
            topic,
            self.element(
                MetadataResponseTopic(
                    name=topic.name,
                    topic_id=topic.id,
                    is_internal=topic.name in INTERNAL_TOPICS,
                    partitions=partitions,
                )
            ),
        )

    def element(self, topic: MetadataResponseTopic) -> bytes:
        """Returns the encoding of a topic that is not cached, such as an error."""
        return encode_element(topic, MetadataResponse, self._asked.version)

    def _partition(self, index: int, state: PartitionImage) -> MetadataResponsePartition:
        reachable = self._reachable
        leader = reachable.leader(state)
        replicas, isr = list(state.replicas), list(state.isr)
        code = ErrorCode.NONE if leader >= 0 else self._unreachable(state.leader)
        if self._asked.version == 0:  # version 0 has no field for offline replicas
            replicas = [replica for replica in replicas if replica in reachable]
            isr = [replica for replica in isr if replica in reachable]
            if code is ErrorCode.NONE and len(replicas) < len(state.replicas):
                code = ErrorCode.REPLICA_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=code,
            partition_index=index,
            leader_id=leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=reachable.offline(state),
        )

    def _unreachable(self, leader: BrokerId) -> ErrorCode:
        broker = self.cluster.brokers.get(leader)
        if broker is None or broker.fenced or self._asked.version < 6:
            return ErrorCode.LEADER_NOT_AVAILABLE
        return ErrorCode.LISTENER_NOT_FOUND


class TopicViews:
    """The most recently used views, at most `VIEWS_MAX`."""

    def __init__(self) -> None:
        self._views: dict[ViewKey, TopicView] = {}

    def of(self, image: MetadataImage, asked: ViewKey) -> TopicView:
        view = self._views.pop(asked, None)
        stale_max = STALE_MIN + STALE_FACTOR * len(image.topics.by_id)
        if view is None or view.cluster is not image.cluster or len(view) > stale_max:
            view = TopicView(image.cluster, asked)
        self._views[asked] = view
        if len(self._views) > VIEWS_MAX:
            del self._views[next(iter(self._views))]
        return view
