"""The offsets of a stream in its checkpoint: in the format of Spark's Kafka source, with the ids of the topics.

    {"orders":{"0":23,"1":7},"orders@Xk9V1pQaRVu2n0cQqv0W7g":{}}

An id is a key without partitions, so Spark's Kafka source can continue from such a checkpoint, and we can continue from
one of its checkpoints. The name of a topic contains no `@`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trimaran.spark.data_source.limits import as_json, from_json
from trimaran.spark.origins.origin import Bounds
from trimaran.wire.identity import Offset, TopicPartition

Written = dict[str, dict[str, int]]  # offsets in the form of their JSON
Offsets = Mapping[TopicPartition, Offset]
TopicIds = Mapping[str, str]  # by topic name; topics with unknown ids are missing
MARK = "@"


class StreamSurvey(NamedTuple):
    """The partitions of a stream at one moment: their bounds, and the ids of their topics."""

    bounds: Mapping[TopicPartition, Bounds]
    topic_ids: TopicIds


class StreamOffsets(NamedTuple):
    """The next offset of each partition, and the ids of the topics."""

    offsets: Offsets
    topic_ids: TopicIds

    @classmethod
    def parse(cls, written: Written) -> StreamOffsets:
        """Parses the JSON of `written`, of Spark's Kafka source, or of a version of ours that wrote no ids."""
        parted = (key.partition(MARK) for key, partitions in written.items() if not partitions)
        return cls(
            from_json(written), {topic: topic_id for topic, mark, topic_id in parted if mark}
        )

    def written(self) -> Written:
        """Returns the JSON: the topics in order, then their ids."""
        topics = {topic for topic, _ in self.offsets}
        ids = sorted((name, id_) for name, id_ in self.topic_ids.items() if name in topics)
        return {**as_json(self.offsets), **{f"{name}{MARK}{id_}": {} for name, id_ in ids}}

    def recreated_in(self, later: TopicIds) -> list[str]:
        """Returns the topics whose ids in `later` are different; a topic without an id on either side counts as the
        same.
        """
        known = self.topic_ids
        return sorted(name for name in known if later.get(name, known[name]) != known[name])
