"""The Metadata response for all topics, kept for clients that ask again: to judge and gather thousands of topics
for each request
of each client would take most of the loop.

It holds as long as neither the topics nor the ACLs change. Not implemented: what who asks may do with each topic.
"""

from __future__ import annotations

from typing import NamedTuple

from trimaran.quorum.metadata.image import TopicsImage
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.security.principal import ANONYMOUS, Principal

# Principals, each on its hosts; one takes 8 bytes a topic, and shares what is encoded.
KEPT_MAX = 64


class Asker(NamedTuple):
    """The principals and listeners that see the same topics."""

    principal: Principal
    host: str


EVERYBODY = Asker(ANONYMOUS, "")


class SeenTopics:
    """The answers of one image of the topics and one state of the ACLs (`acls_epoch`), at most `KEPT_MAX`."""

    __slots__ = ("_acls_epoch", "_kept", "_topics")

    def __init__(self) -> None:
        self._kept: dict[Asker, EncodedArray] = {}
        self._topics: TopicsImage | None = None
        self._acls_epoch = -1

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, asker: Asker, topics: TopicsImage, acls_epoch: int) -> EncodedArray | None:
        """Returns the topics kept for `asker`; callers must not change them."""
        return self._kept.get(asker) if self._is_of(topics, acls_epoch) else None

    def keep(
        self, asker: Asker, topics: TopicsImage, acls_epoch: int, answer: EncodedArray
    ) -> None:
        """Replaces the oldest, and all that are of other topics or ACLs."""
        if not self._is_of(topics, acls_epoch):
            self._kept.clear()
            self._topics, self._acls_epoch = topics, acls_epoch
        elif len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[asker] = answer

    def _is_of(self, topics: TopicsImage, acls_epoch: int) -> bool:
        return self._topics is topics and self._acls_epoch == acls_epoch
