"""Groups: the time until 50 members have their partitions, the cost of 1,000 idle members, and the time until a
coordinator has loaded 1,000,000 offsets.

Members that join use librdkafka, all in this process, with the same settings for both systems. Idle members are
simulated by heartbeats of our own client: a thousand real clients would overload the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer

from bench.accounting import cpu_seconds, measured
from bench.clusters import Cluster, Opener
from bench.load import create_topic
from bench.results import Figure
from bench.scale_client import open_clients, seconds_until
from bench.sizes import sized
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from trimaran.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
PROTOCOLS = ("classic", "consumer")
IDLE_PROTOCOLS = (*PROTOCOLS, "share")
MEMBERS, PARTITIONS_EACH = sized(50, 3), 2
ROUNDS = sized(3, 1)
IDLE_MEMBERS, IDLE_GROUPS = sized(1_000, 20), sized(20, 2)
LOADED_GROUPS, OFFSETS_EACH = sized(1_000, 10), sized(1_000, 100)
IDLE_SECONDS = sized(20.0, 4.0)
CLASSIC_INTERVAL_SECONDS = 3.0  # heartbeat.interval.ms of clients
SECONDS_MAX = 60.0


def joining_bench(open_cluster: Opener, system: str) -> list[Figure]:
    """Measures from the subscription of all members until each has its share of the partitions."""
    figures = []
    # Kafka's default for both, since our local clusters do not wait for more members.
    with open_cluster(1, 1, {**SETTINGS, "group.initial.rebalance.delay.ms": "3000"}) as cluster:
        create_topic(cluster, "joining", MEMBERS * PARTITIONS_EACH, 1)
        with _connected(cluster) as ask:
            coordinator(ask, "joining")
        for protocol in PROTOCOLS:
            rounds = [_join(cluster, protocol, number) for number in range(ROUNDS)]
            seconds, cpu = sorted(rounds)[ROUNDS // 2]
            label = f"{MEMBERS} members, {protocol}"
            figures += [
                Figure("group-joining", f"{label}: stable", "s", "lower", system, seconds),
                Figure("group-joining", f"{label}: CPU", "s", "lower", system, cpu),
            ]
    return figures


def _join(cluster: Cluster, protocol: str, number: int) -> tuple[float, float]:
    """Runs the members in a process that is killed, since closing this many at once can hang in librdkafka 2.16
    (KIP-848).
    """
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": f"joining-{protocol}-{number}",
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "latest",
        "log_level": 0,
    }
    mine, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_members, args=(theirs, settings), daemon=True)
    process.start()
    try:
        _received(mine)
        with measured(cluster.pids()) as usage:
            mine.send("go")
            _received(mine)
    finally:
        process.kill()
        process.join()
    return usage.seconds, usage.cpu_seconds


def _received(pipe: Connection) -> None:
    if not pipe.poll(SECONDS_MAX):
        raise RuntimeError(f"the members do not get there within {SECONDS_MAX:.0f} s")
    pipe.recv()


def _members(pipe: Connection, settings: dict[str, object]) -> None:
    """Reports when all members have metadata, subscribes on request, and reports when each has its share."""
    members = [Consumer(settings) for _ in range(MEMBERS)]
    for member in members:
        member.list_topics("joining", timeout=SECONDS_MAX)
    pipe.send("ready")
    pipe.recv()
    for member in members:
        member.subscribe(["joining"])
    while any(len(member.assignment()) != PARTITIONS_EACH for member in members):
        for member in members:
            member.poll(0)
        time.sleep(0.01)
    pipe.send("stable")
    pipe.recv()  # until this process is killed


def idle_bench(open_cluster: Opener, system: str) -> list[Figure]:
    """Measures CPU of the cluster while members of settled groups send heartbeats only."""
    figures = []
    with open_cluster(1, 1, {**SETTINGS, "group.initial.rebalance.delay.ms": "0"}) as cluster:
        create_topic(cluster, "idle", IDLE_MEMBERS // IDLE_GROUPS, 1)
        for protocol in IDLE_PROTOCOLS:
            with _connected(cluster) as ask:
                coordinator(ask, "idle")
                settle = {"classic": _classic, "consumer": _consumer, "share": _share}[protocol]
                members = [settle(ask, number) for number in range(IDLE_MEMBERS)]
                _beat(ask, members, IDLE_SECONDS)  # members of KIP-848 need this long to settle
                with measured(cluster.pids()) as usage:
                    beats = _beat(ask, members, IDLE_SECONDS)
            label = f"{IDLE_MEMBERS} idle members, {protocol}"
            busy = usage.cpu_seconds / usage.seconds
            figures += [
                Figure("group-idle", f"{label}: CPU", "% core", "lower", system, busy * 100),
                Figure("group-idle", f"{label}: heartbeats", "1/s", "lower", system, beats / usage.seconds),
            ]  # fmt: skip
    return figures


Ask = Callable[..., Any]
"""`BlockingConnection.call`."""


@dataclass
class Member:
    """A member: its next heartbeat, and the time at which it is due, in seconds of `time.perf_counter`."""

    beat: HeartbeatRequest | ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest
    interval: float
    due: float = 0.0


@contextmanager
def _connected(cluster: Cluster) -> Iterator[Ask]:
    (address,) = parse_bootstrap(cluster.bootstrap)
    with closing(BlockingConnection(address, timeout=SECONDS_MAX)) as connection:
        yield partial(connection.call, timeout=SECONDS_MAX)


def coordinator(ask: Ask, group: str) -> None:
    """Waits until the group has a coordinator that has loaded it."""
    seconds_until(lambda: not ask(_find(group)).coordinators[0].error_code)
    seconds_until(lambda: not _offsets_of(ask, group).error_code)


def _classic(ask: Ask, number: int) -> Member:
    """Returns the only member of a settled group: many members would each need a connection to join."""
    group = f"idle-classic-{number}"
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=45_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    join.member_id = ask(join).member_id  # the first response is MEMBER_ID_REQUIRED (KIP-394)
    joined = _well(ask(join))
    share = SyncGroupRequestAssignment(member_id=join.member_id, assignment=b"")
    _well(
        ask(
            SyncGroupRequest(
                group_id=group,
                generation_id=joined.generation_id,
                member_id=join.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[share],
            )
        )
    )
    beat = HeartbeatRequest(
        group_id=group, generation_id=joined.generation_id, member_id=join.member_id
    )
    return Member(beat, CLASSIC_INTERVAL_SECONDS, _some_time(number, CLASSIC_INTERVAL_SECONDS))


def _some_time(number: int, interval: float) -> float:
    """Returns a random time within the next interval, different for each member."""
    return time.perf_counter() + interval * number / IDLE_MEMBERS


def _consumer(ask: Ask, number: int) -> Member:
    """Returns one of the members of a group, which settle while they send heartbeats."""
    beat = ConsumerGroupHeartbeatRequest(
        group_id=f"idle-consumer-{number % IDLE_GROUPS}",
        member_id=str(uuid4()),
        member_epoch=0,
        rebalance_timeout_ms=45_000,
        subscribed_topic_names=["idle"],
        topic_partitions=[],
    )
    joined = _well(ask(beat))
    member = Member(beat, 0.0)
    _follow(member, joined)
    return member


def _share(ask: Ask, number: int) -> Member:
    """Returns one of the members of a share group."""
    beat = ShareGroupHeartbeatRequest(
        group_id=f"idle-share-{number % IDLE_GROUPS}",
        member_id=str(uuid4()),
        member_epoch=0,
        subscribed_topic_names=["idle"],
    )
    joined = _well(ask(beat))
    member = Member(beat, 0.0)
    _go_on(member, joined)
    return member


def _go_on(member: Member, response: ShareGroupHeartbeatResponse) -> None:
    """Handles a response as a share consumer does, which has nothing to acknowledge."""
    member.beat = ShareGroupHeartbeatRequest(
        group_id=member.beat.group_id,
        member_id=member.beat.member_id,
        member_epoch=response.member_epoch,
    )
    member.interval = response.heartbeat_interval_ms / 1000
    member.due = time.perf_counter() + member.interval


def _follow(member: Member, response: ConsumerGroupHeartbeatResponse) -> None:
    """Handles a response as a consumer does: takes the assignment and acknowledges it at once."""
    beat = ConsumerGroupHeartbeatRequest(
        group_id=member.beat.group_id,
        member_id=member.beat.member_id,
        member_epoch=response.member_epoch,
    )
    if response.assignment is not None:
        beat.topic_partitions = response.assignment.topic_partitions
    member.beat, member.interval = beat, response.heartbeat_interval_ms / 1000
    member.due = time.perf_counter() + (0.0 if response.assignment else member.interval)


def _beat(ask: Ask, members: list[Member], seconds: float) -> int:
    """Sends each member's heartbeats when they are due; returns their number."""
    end, count = time.perf_counter() + seconds, 0
    queue = [(member.due, number) for number, member in enumerate(members)]
    heapify(queue)
    while queue[0][0] < end:
        due, number = heappop(queue)
        time.sleep(max(0.0, due - time.perf_counter()))
        member = members[number]
        response = _well(ask(member.beat))
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            _follow(member, response)
        elif isinstance(response, ShareGroupHeartbeatResponse):
            _go_on(member, response)
        else:
            member.due = max(due, time.perf_counter() - member.interval) + member.interval
        heappush(queue, (member.due, number))
        count += 1
    return count


def _well(response: Any) -> Any:
    if response.error_code:
        raise RuntimeError(f"{type(response).__name__}: {ErrorCode(response.error_code).name}")
    return response


def loading_bench(open_cluster: Opener, system: str) -> list[Figure]:
    """Stops a broker with 1,000,000 offsets; measures from the time at which its successor leads them until it serves
    them.
    """
    with open_cluster(1, 2, {**SETTINGS, "offsets.topic.replication.factor": "2"}) as cluster:
        create_topic(cluster, "loading", OFFSETS_EACH, 1)
        with open_clients(cluster) as clients:
            first, second = (client for client in clients if client)
            seconds_until(
                lambda: not clients[0].call(_find("loading-0")).coordinators[0].error_code
            )
            leader = clients[0].call(_find("loading-0")).coordinators[0].node_id
            successor = second if leader == first else first
            seconds_until(lambda: not _offsets_of(clients[leader].call, "loading-0").error_code)
            for number in range(LOADED_GROUPS):
                _commit(clients[leader].call, f"loading-{number}")
            seconds_until(lambda: _in_sync(clients[0].call) == 2)
            pid = cluster.pid_of(successor)
            cpu = cpu_seconds([pid])
            ask = partial(clients[successor].call, timeout=SECONDS_MAX)
            group = f"loading-{LOADED_GROUPS - 1}"
            with ThreadPoolExecutor(1) as stopping:
                # A leaving broker hands over first; Kafka then takes seconds to end, in which its successor loads.
                stopped = stopping.submit(cluster.stop, leader)
                seconds_until(lambda: _leader_of_offsets(ask) == successor, pause=0.005)
                seconds = seconds_until(lambda: _committed(ask, group) == OFFSETS_EACH, pause=0.005)
                cpu = cpu_seconds([pid]) - cpu
                stopped.result()
    label = f"{LOADED_GROUPS * OFFSETS_EACH:,} offsets"
    return [
        Figure("group-loading", f"{label}: until served", "s", "lower", system, seconds),
        Figure("group-loading", f"{label}: CPU of the successor", "s", "lower", system, cpu),
    ]


def _find(group: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(coordinator_keys=[group])


def _commit(ask: Ask, group: str) -> None:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=index, committed_metadata=""
        )
        for index in range(OFFSETS_EACH)
    ]
    topic = OffsetCommitRequestTopic(name="loading", partitions=partitions)
    response = ask(OffsetCommitRequest(group_id=group, topics=[topic]), version=9)
    if errors := {
        partition.error_code for partition in response.topics[0].partitions if partition.error_code
    }:
        raise RuntimeError(f"no commit: {errors}")


def _offsets_partition(ask: Ask) -> Any:
    topic = MetadataRequestTopic(name="__consumer_offsets")
    found = ask(MetadataRequest(topics=[topic], allow_auto_topic_creation=False))
    return found.topics[0].partitions[0]


def _leader_of_offsets(ask: Ask) -> int:
    return int(_offsets_partition(ask).leader_id)


def _in_sync(ask: Ask) -> int:
    return len(_offsets_partition(ask).isr_nodes)


def _committed(ask: Ask, group: str) -> int:
    """Returns the number of known offsets of the group; 0 while they are being loaded."""
    found = _offsets_of(ask, group)
    return 0 if found.error_code else sum(len(topic.partitions) for topic in found.topics)


def _offsets_of(ask: Ask, group: str) -> OffsetFetchResponseGroup:
    wanted = OffsetFetchRequestGroup(group_id=group, topics=None)
    (found,) = ask(OffsetFetchRequest(groups=[wanted]), version=9).groups
    assert isinstance(found, OffsetFetchResponseGroup)
    return found
