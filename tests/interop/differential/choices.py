"""Intended differences of the mirror's tree from that of Apache Kafka 2.8; docs/zookeeper.md has the reasons."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tests.interop.differential.actions import Action
from tests.interop.differential.trees import Difference

EMPTY_CONFIG = '{"version":1,"config":{}}'
# ZooKeeper cannot have a znode of this name: ZooKeeper mode fails, KRaft has the entity, and the mirror omits it.
NO_NAME = ".."


@dataclass(frozen=True)
class Choice:
    """Differences of one kind at paths of one form. If `fields` is set, no other members may differ; `theirs` is
    Kafka's text.
    """

    kind: str
    path: str
    fields: AbstractSet[str] = frozenset()
    theirs: str | None = None

    def covers(self, found: Difference) -> bool:
        return (
            found.kind == self.kind
            and re.fullmatch(self.path, found.path) is not None
            and found.fields <= self.fields
            and self.theirs in (None, found.theirs)
        )


CHOICES = (
    # These values differ between any two clusters.
    Choice("content", r"/brokers/ids/\d+", {"endpoints", "port", "timestamp"}),
    Choice("content", r"/cluster/id", {"id"}),
    Choice("content", r"/brokers/topics/[^/]+", {"topic_id"}),
    # Epochs are those of KRaft, as is the number of changes that one administrative action takes.
    Choice("content", r"/brokers/topics/[^/]+/partitions/\d+/state", {"controller_epoch", "leader_epoch"}),
    Choice("order", r"/brokers/topics/[^/]+/partitions/\d+/state"),
    # The claim of the controllership is the mirror's, in the format of Kafka 3.9.
    Choice("content", r"/controller", {"version", "brokerid", "timestamp", "kraftControllerEpoch"}),
    Choice("content", r"/controller_epoch", {""}),
    Choice("extra", r"/migration|/trimaran(/.*)?"),
    # In ZooKeeper mode each broker took a block of producer ids at its start.
    Choice("content", r"/latest_producer_id_block", {"", "version", "broker", "block_start", "block_end"}),
    # Kafka 3 added these znodes, or changed their format.
    Choice("extra", r"/delegation_token(/tokens|/token_changes)?"),
    Choice("content", r"/feature", {"version"}),
    Choice("order", r"/kafka-acl/.*|/kafka-acl-extended/prefixed/.*"),
    # A config without keys is equivalent to none: KRaft does not keep it, whereas ZooKeeper mode did.
    Choice("missing", r"/config/(brokers|users|clients|ips)/.*", theirs=EMPTY_CONFIG),
    Choice("content", r"/config/users/[^/]+", {"", "version"}, theirs=EMPTY_CONFIG),
    Choice("missing", r"/config/users/[^/]+(/clients)?", theirs=""),
    # KIP-966: the quorum has this value for all brokers from its first start on.
    Choice("content", r"/config/brokers/<default>", {"config min.insync.replicas"}),
    Choice("extra", r"/config/brokers/<default>"),
)  # fmt: skip


def is_meant(found: Difference) -> bool:
    return any(choice.covers(found) for choice in CHOICES)


def has_no_znode(action: Action) -> bool:
    """Whether the entity cannot have a znode, for which ZooKeeper mode failed with UNKNOWN_SERVER_ERROR."""
    return NO_NAME in action.get("entity", {}).values() or action.get("user") == NO_NAME
