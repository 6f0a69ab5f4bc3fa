"""Cached Metadata responses for all topics: authorizing and collecting thousands of topics for every request would take
most of the event loop's time.

A response is valid until the topics or the ACLs change. Requests for the authorized operations on each topic are
answered without it.
"""

from __future__ import annotations

from typing import NamedTuple

from trimaran.quorum.metadata.image import TopicsImage
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.identity import INITIAL_ACL_EPOCH, AclEpoch
from trimaran.wire.security.principal import ANONYMOUS, Principal

# The number of cached principals (with hosts); each takes 8 bytes per topic, and shares the encoded topics.
KEPT_MAX = 64


class Asker(NamedTuple):
    """The key of the cache: clients with the same principal and host see the same topics."""

    principal: Principal
    host: str


EVERYBODY = Asker(ANONYMOUS, "")


class SeenTopics:
    """The responses for one image of the topics and one state of the ACLs (`acls_epoch`), at most `KEPT_MAX`."""

    __slots__ = ("_acls_epoch", "_kept", "_topics")

    def __init__(self) -> None:
        self._kept: dict[Asker, EncodedArray] = {}
        self._topics: TopicsImage | None = None
        self._acls_epoch = INITIAL_ACL_EPOCH

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, asker: Asker, topics: TopicsImage, acls_epoch: AclEpoch) -> EncodedArray | None:
        """Returns the cached topics for `asker`; callers must not change them."""
        return self._kept.get(asker) if self._is_of(topics, acls_epoch) else None

    def keep(
        self, asker: Asker, topics: TopicsImage, acls_epoch: AclEpoch, response: EncodedArray
    ) -> None:
        """Caches a response; drops the oldest one, and all responses for other topics or ACLs."""
        if not self._is_of(topics, acls_epoch):
            self._kept.clear()
            self._topics, self._acls_epoch = topics, acls_epoch
        elif len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[asker] = response

    def _is_of(self, topics: TopicsImage, acls_epoch: AclEpoch) -> bool:
        return self._topics is topics and self._acls_epoch == acls_epoch
