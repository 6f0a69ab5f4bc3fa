"""A shard with share groups: heartbeats of their members, and what share coordinators do for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.broker.groups.driver import Driver
from trimaran.broker.groups.heartbeating.member import partitions_bytes
from trimaran.broker.groups.memory import group_bytes
from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.groups import ShareGroups, ShareHeartbeat
from trimaran.broker.groups.share.heartbeat import check_request
from trimaran.broker.groups.share.operation import Initialization
from trimaran.broker.groups.share.settings import ShareGroupSettings
from trimaran.broker.share_state.changes import InitializedStates
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


def no_partition(_partition: TopicIdPartition) -> bool:
    return False


def of_topics(partitions: Iterable[TopicIdPartition]) -> dict[bytes, set[int]]:
    """Returns the partitions by topic id."""
    found: dict[bytes, set[int]] = {}
    for topic_id, partition in partitions:
        found.setdefault(topic_id, set()).add(partition)
    return found


class ShareDriver(Driver):
    """Named states are initialized by `initialize`."""

    def __init__(self, *, share_settings: ShareGroupSettings | None = None, **more: Any) -> None:
        self.share_settings = share_settings or ShareGroupSettings(assignment_interval_ms=0)
        super().__init__(**more)

    def settings_of_kinds(self) -> dict[str, Callable[[str], Any]]:
        of_share = {"share": lambda _group_id: self.share_settings}
        return {**super().settings_of_kinds(), **of_share}

    def reloaded(self) -> ShareDriver:
        """Returns another coordinator that has loaded the log."""
        return ShareDriver(
            log=self.log, now=self.now, topics=self.topics, share_settings=self.share_settings
        )

    @property
    def shares(self) -> ShareGroups:
        return self.shard.of(share.KIND)

    def group(self, group_id: str = "g") -> ShareGroup | None:
        return self.shard.store.of("share").get(group_id)

    def beat(
        self,
        member_id: str,
        epoch: int = 0,
        *,
        group: str = "g",
        topics: Iterable[str] | None = None,
        rack: str | None = None,
        client: str = "c",
        principal: str = "User:a",
    ) -> ShareGroupHeartbeatResponse | ErrorCode:
        """Returns the response, or the error code of the refusal."""
        topics = ["t"] if topics is None and epoch == 0 else topics
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            rack_id=rack,
            subscribed_topic_names=None if topics is None else list(topics),
        )
        given = ShareHeartbeat(request, client, "/127.0.0.1", principal)
        try:
            check_request(request)
            result = self.shares.member_heartbeat(given, self.at)
        except KafkaError as error:
            self.settle()
            return error.code
        if self.failing is not None and result.records:
            self.shares.heartbeat_failed(given, self.at)
            self.settle()
            return self.failing
        return self.submit(result)

    def initialize(
        self, failing: Callable[[TopicIdPartition], bool] = no_partition
    ) -> list[tuple[str, Initialization]]:
        """Finishes the requested initializations, as share coordinators do, and returns them. Partitions for which
        `failing` is true fail.
        """
        begun = []
        groups, self.follow_ups = self.follow_ups, []
        for group_id in groups:
            if (asked := self.shares.begin_initialization(group_id)) is not None:
                begun.append((group_id, asked))
                failed = [partition for partition in asked.offsets if failing(partition)]
                done = asked.offsets.keys() - set(failed)
                outcome = InitializedStates(of_topics(done), of_topics(failed))
                self.shares.initialized(group_id, asked, outcome, self.at)
                self.settle()
        return begun

    def held_bytes(self) -> int:
        groups = self.shard.store.of("share").values()
        members = (member for group in groups for member in group.members.values())
        targets = (target for group in groups for target in group.target.values())
        return (
            super().held_bytes()
            + sum(group.known_states.held_bytes for group in groups)
            + sum(member.held_bytes for member in members)
            + sum(map(partitions_bytes, targets))
        )

    def known_bytes(self) -> int:
        return super().known_bytes() + sum(map(group_bytes, self.shard.store.of("share")))
