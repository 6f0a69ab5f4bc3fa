"""A `Driver` whose members run the tasks of a topology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.broker.groups.driver import Driver, FakeTopics
from trimaran.broker.groups.streams import kind as streams
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.groups import StreamsGroups, StreamsHeartbeat
from trimaran.broker.groups.streams.heartbeat import StreamsHeartbeatAnswer
from trimaran.broker.groups.streams.settings import StreamsGroupSettings
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

Owned = tuple[Mapping[str, Iterable[int]], Mapping[str, Iterable[int]]]


def topic(name: str, partitions: int = 0, replicas: int = 0, **configs: str) -> TopicInfo:
    pairs = [KeyValue(key=key, value=value) for key, value in configs.items()]
    return TopicInfo(
        name=name, partitions=partitions, replication_factor=replicas, topic_configs=pairs
    )


def subtopology(
    subtopology_id: str = "0",
    sources: Iterable[str] = ("t",),
    *,
    changelogs: Iterable[str] = (),
    sinks: Iterable[str] = (),
    repartition: Iterable[TopicInfo] = (),
    together: Iterable[tuple[list[int], list[int]]] = (),
    regex: Iterable[str] = (),
) -> Subtopology:
    """Returns a subtopology; `together` has the indexes of copartition groups in sources and repartition topics."""
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=list(sources),
        source_topic_regex=list(regex),
        state_changelog_topics=[topic(name) for name in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=list(repartition),
        copartition_groups=[
            CopartitionGroup(
                source_topics=external, source_topic_regex=[], repartition_source_topics=internal
            )
            for external, internal in together
        ],
    )


def topology(*subtopologies: Subtopology, epoch: int = 1) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(subtopologies) or [subtopology()])


def task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=one, partitions=sorted(mine)) for one, mine in tasks.items()]


def request(member_id: str = "a", epoch: int = 0, **fields) -> StreamsGroupHeartbeatRequest:
    """Returns a request of a joining or staying member; by default only required fields are set."""
    joining = {"rebalance_timeout_ms": 60_000, "topology": topology()} if epoch == 0 else {}
    if epoch == 0 and "process_id" not in fields:
        joining["process_id"] = f"process-{member_id}"
    defaults = {"group_id": "g", "endpoint_information_epoch": 0, **joining}
    return StreamsGroupHeartbeatRequest(
        member_id=member_id, member_epoch=epoch, **{**defaults, **fields}
    )


class StreamsDriver(Driver):
    """One shard, group `g`, topic `t` with 4 partitions; without delays unless `settings` has some."""

    def __init__(self, settings: StreamsGroupSettings | None = None, **fields) -> None:
        self.streams_settings = settings or StreamsGroupSettings(
            assignment_interval_ms=0, initial_rebalance_delay_ms=0
        )
        super().__init__(**fields)

    def settings_of_kinds(self):
        return {**super().settings_of_kinds(), "streams": lambda _group_id: self.streams_settings}

    @property
    def streams(self) -> StreamsGroups:
        return self.shard.of(streams.KIND)

    @property
    def group(self) -> StreamsGroup:
        return self.shard.store.of("streams")["g"]

    def reloaded(self) -> StreamsDriver:
        """Returns another shard with the same log and topics."""
        return StreamsDriver(self.streams_settings, log=self.log, now=self.now, topics=self.topics)

    def beat(
        self,
        member_id: str = "a",
        epoch: int = 0,
        *,
        owned: Owned | None = None,
        tags: Mapping[str, str] | None = None,
        endpoint: tuple[str, int] | None = None,
        offsets: Mapping[str, Mapping[int, int]] | None = None,
        version: int = 1,
        principal: str = "User:a",
        **fields,
    ) -> StreamsHeartbeatAnswer | ErrorCode:
        """Returns the answer, or the error code of the refusal. `owned` has active and standby tasks."""
        if owned is not None:
            fields["active_tasks"], fields["standby_tasks"] = map(task_ids, owned)
            fields["warmup_tasks"] = []
        if tags is not None:
            fields["client_tags"] = [KeyValue(key=key, value=tag) for key, tag in tags.items()]
        if endpoint is not None:
            fields["user_endpoint"] = Endpoint(host=endpoint[0], port=endpoint[1])
        if offsets is not None:
            fields["task_offsets"] = [
                TaskOffset(subtopology_id=one, partition=partition, offset=offset)
                for one, mine in offsets.items()
                for partition, offset in mine.items()
            ]
        given = StreamsHeartbeat(
            request(member_id, epoch, **fields), version, "c", "/127.0.0.1", principal
        )
        try:
            result = self.streams.member_heartbeat(given, self.at)
        except KafkaError as error:
            self.refusal = error
            return error.code
        if self.failing is not None:
            self.streams.heartbeat_failed(given, self.at)
            return self.failing
        return self.submit(result)

    def settled_beats(self, *member_ids: str, rounds: int = 6) -> None:
        """Lets members send heartbeats in turn, with all their tasks, until they are stable."""
        for _ in range(rounds):
            for member_id in member_ids:
                member = self.group.members[member_id]
                mine = member.assigned.without_epochs()
                self.beat(member_id, member.epoch, owned=(mine.active, mine.standby))

    def active(self) -> dict[str, dict[str, list[int]]]:
        """Returns the active tasks by member."""
        return {
            member.id: {one: sorted(mine) for one, mine in sorted(member.assigned.active.items())}
            for member in sorted(self.group.members.values(), key=lambda member: member.id)
        }

    def standby(self) -> dict[str, dict[str, list[int]]]:
        """Returns the standby tasks by member."""
        return {
            member.id: {one: sorted(mine) for one, mine in sorted(member.assigned.standby.items())}
            for member in sorted(self.group.members.values(), key=lambda member: member.id)
        }


def statuses(answer: Any) -> list[int]:
    """Returns the codes of the statuses in a heartbeat's result."""
    return [one.status_code for one in answer.response.status]


def topics_of(**counts: int) -> FakeTopics:
    return FakeTopics(**counts)
