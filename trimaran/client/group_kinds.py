"""The kinds of groups on the client's side: a row for each, with the requests that only this kind has.

A new kind is a file with its requests, and a row here; its views are a row of `trimaran/cli/group_views.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trimaran.client import (
    changes,
    consumer_groups,
    group_offsets,
    share_groups,
    streams_groups,
)
from trimaran.wire.identity import Offset, TopicPartition

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient


@dataclass(frozen=True, slots=True)
class GroupRequests:
    """The requests of a kind of group.

    Args:
        name: the name in ListGroups, in lower case.
        feature: the feature that enables groups of this kind, "" for none.
        describe: returns the group, None if there is no group of this kind with that name; `with_operations`, also
            what this client may do with it.
        owners: returns the only member of a partition, from a described group.
        offset_rows: returns a row for each partition in which a described group has a position, with its lag in
            records.
        positions: returns the positions of a described group that `groups reset-offsets` resets by default.
        set_positions: sets positions; the group must not have members.
        delete_positions: deletes positions, and returns their number.
        ensure_deletable: raises the error of `delete_positions`, if the members of a described group use positions in
            these topics.
        has_positions_of_topics: positions are deleted for whole topics only.
        has_rows_of_topology: `offset_rows` follows from the topology, which members describe, and which stays when
            they leave.
        has_progress_beyond: records after a position may be done already, so setting the same position again is a
            change.
    """

    name: str
    feature: str
    describe: Callable[..., dict[str, Any] | None]
    owners: Callable[[Mapping[str, Any]], dict[TopicPartition, Mapping[str, Any]]]
    offset_rows: Callable[[BlockingClient, Mapping[str, Any]], list[dict[str, Any]]]
    positions: Callable[[BlockingClient, Mapping[str, Any]], dict[TopicPartition, Offset]]
    set_positions: Callable[[BlockingClient, str, Mapping[TopicPartition, Offset]], None]
    delete_positions: Callable[[BlockingClient, str, Collection[TopicPartition]], int]
    ensure_deletable: Callable[[Mapping[str, Any], Collection[str]], None]
    has_rows_of_topology: bool = False
    has_positions_of_topics: bool = False
    has_progress_beyond: bool = False


CLASSIC = GroupRequests(
    "classic",
    "",
    consumer_groups.classic_described,
    consumer_groups.owners,
    group_offsets.committed_rows,
    group_offsets.committed_positions,
    changes.commit_offsets,
    group_offsets.delete_offsets,
    consumer_groups.ensure_not_consumed,
)
CONSUMER = GroupRequests(
    "consumer",
    "group.version",
    consumer_groups.consumer_described,
    consumer_groups.owners,
    group_offsets.committed_rows,
    group_offsets.committed_positions,
    changes.commit_offsets,
    group_offsets.delete_offsets,
    consumer_groups.ensure_not_consumed,
)
SHARE = GroupRequests(
    "share",
    "share.version",
    share_groups.share_described,
    share_groups.no_owners,
    share_groups.start_rows,
    share_groups.start_offsets,
    share_groups.set_start_offsets,
    share_groups.delete_positions,
    share_groups.ensure_idle,
    has_positions_of_topics=True,
    has_progress_beyond=True,
)
STREAMS = GroupRequests(
    "streams",
    "streams.version",
    streams_groups.streams_described,
    streams_groups.task_owners,
    streams_groups.source_rows,
    streams_groups.input_offsets,
    changes.commit_offsets,
    group_offsets.delete_offsets,
    streams_groups.ensure_not_consumed,
    has_rows_of_topology=True,
)
KINDS = {kind.name: kind for kind in (CLASSIC, CONSUMER, SHARE, STREAMS)}


def kind_named(name: str) -> GroupRequests:
    """Returns the kind of a type that ListGroups names; brokers before Kafka 3.8 name none, and have classic groups."""
    return KINDS.get(name.lower(), CLASSIC)
