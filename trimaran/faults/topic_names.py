"""The names of topics by their ids: newer versions of Fetch, Produce and other APIs name topics by id only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.schema import Message

# The maximum number of remembered ids; the oldest are forgotten until a response shows their names again.
TOPIC_IDS_MAX = 100_000
# APIs whose responses have ids beside names: the array, in each of them.
TEACHERS = {
    ApiKey.METADATA: "topics",
    ApiKey.CREATE_TOPICS: "topics",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "topics",
}


@dataclass(slots=True)
class TopicNames:
    """Names that responses have shown; `known`, if given, is examined first."""

    known: Callable[[bytes], str | None] | None = None
    _seen: dict[bytes, str] = field(default_factory=dict)

    def name_of(self, topic_id: bytes) -> str | None:
        """Returns the name of a topic; None if it is unknown."""
        found = self.known(topic_id) if self.known is not None else None
        return found if found is not None else self._seen.get(topic_id)

    def learn(self, response: Message) -> None:
        """Remembers the ids and names in a response of one of the `TEACHERS`."""
        array = TEACHERS.get(ApiKey(response.KEY))
        for topic in getattr(response, array) if array else ():
            if topic.name and topic.topic_id != NIL_UUID:
                self._seen.pop(topic.topic_id, None)
                self._seen[topic.topic_id] = topic.name
        while len(self._seen) > TOPIC_IDS_MAX:
            del self._seen[next(iter(self._seen))]
