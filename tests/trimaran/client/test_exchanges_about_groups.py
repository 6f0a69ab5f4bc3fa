"""Exchanges about offsets, records and groups: each request with all its fields, each row with all its columns, each
error with its three lines and its exit code.
"""

from pathlib import Path

import pytest

from tests.trimaran.client.answers import (
    LEADERS,
    NOW_MS,
    UUID,
    batch_of,
    fetched,
    listed,
)
from tests.trimaran.client.transcripts import Cases, exchange, exchanges
from trimaran.client import (
    group_members,
    groups,
    offsets,
    positions,
    record_ages,
)
from trimaran.client.positions import Position
from trimaran.client.reader import PartitionReader
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut, VersionMismatch
from trimaran.wire.client.routing import LeaderOf
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Address, TopicPartition
from trimaran.wire.messages import (
    consumer_group_describe,
    describe_groups,
    describe_share_group_offsets,
    fetch,
    list_groups,
    offset_fetch,
    share_group_describe,
    streams_group_describe,
)
from trimaran.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    encode_assignment,
)

case = Cases()


@pytest.fixture(autouse=True)
def _still_clock(monkeypatch):
    for module in (record_ages, positions):
        monkeypatch.setattr(module, "now_ms", lambda: NOW_MS)


def test_exchanges_about_groups_are_as_written():
    case.check(Path(__file__).parent / "testdata/groups.txt")


@case
def _end_offset():
    refused = listed(-1, code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return exchanges(
        exchange(lambda client: offsets.end_offset(client, TopicPartition("t", 1)), listed(42)),
        exchange(
            lambda client: offsets.end_offset(client, TopicPartition("t", 1), -2, isolation=1),
            listed(4),
        ),
        exchange(lambda client: offsets.end_offset(client, TopicPartition("t", 1)), refused),
        exchange(lambda client: offsets.end_offset(client, TopicPartition("t", 1)), listed(4, 5)),
    )


@case
def _end_offsets():
    leaders = {
        ("t", 2): LeaderOf(1, 0),
        ("t", 1): LeaderOf(1, 0),
        ("s", 1): LeaderOf(2, 0),
        ("u", 0): LeaderOf(9, 0),
    }
    wanted = [TopicPartition(*pair) for pair in (*leaders, ("v", 0))]

    def asked(timestamp=-1):
        return lambda client: (offsets.end_offsets(client, wanted, timestamp), client.refreshed)

    failed = listed(7, 8, name="s", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return exchanges(
        exchange(asked(), listed(5), listed(6, name="t", first=2), leaders=leaders),
        exchange(asked(-2), ConnectionLost("gone"), listed(7, name="s"), leaders=leaders),
        exchange(asked(), failed, RequestTimedOut("late"), leaders=leaders),
        exchange(lambda client: (offsets.end_offsets(client, []), hasattr(client, "refreshed"))),
    )


@case
def _offset_in():
    rows = [
        (Position(offset=5), []),
        (Position(offset=0), []),
        (Position(before_end=3), [0, 10]),
        (Position(before_end=30), [4, 10]),
        (Position(timestamp_ms=0), [0]),
        (Position(timestamp_ms=77), [-1, 10]),
    ]
    return exchanges(
        *(
            exchange(
                lambda client, one=row: one.offset_in(client, TopicPartition("t", 1), isolation=1),
                *map(listed, answers),
            )
            for row, answers in rows
        )
    )


@case
def _parse_position():
    texts = ["start", "earliest", "end", "latest", "0", "9" * 18, "9" * 19, "-0", "-" + "9" * 18]
    texts += ["-" + "9" * 19, "@0", "@" + "9" * 15, "@" + "9" * 16, "@-500ms", "@-1s", "@-15m"]
    texts += ["@-2h", "@-2d", "@-2w", "@2026-11-23T12:00:00.5+01:00", "@9999999-1-1", "+5", ""]
    texts += ["1.5", "@"]
    return exchanges(
        *(exchange(lambda _, one=text: positions.parse_position(one)) for text in texts)
    )


@case
def _reader():
    def read(*, is_committed, exit_at_end):
        def run(client):
            reader = PartitionReader(client, [TopicPartition("t", 1)], is_committed=is_committed)
            found = reader.records(Position(offset=0), exit_at_end)
            return [
                (where.partition, record.offset, record.timestamp_ms) for where, record in found
            ]

        return run

    def first_of_all(client):
        """Returns the first row: reading without an end waits for more."""
        reader = PartitionReader(client, [TopicPartition("t", 1)], is_committed=False)
        found = reader.records(Position(offset=0), False)
        return [next(found)[1].offset for _ in range(3)]

    nothing = fetch.FetchResponse(responses=[])
    return exchanges(
        exchange(read(is_committed=True, exit_at_end=True), listed(2), fetched(batch_of(2))),
        exchange(read(is_committed=False, exit_at_end=True), listed(0), nothing),
        exchange(first_of_all, fetched(batch_of(2)), nothing, fetched(batch_of(1, 2))),
    )


@case
def _age_seconds():
    return exchanges(
        exchange(
            lambda client: record_ages.age_seconds(client, TopicPartition("t", 1), -1),
            fetched(batch_of(3)),
        ),
        exchange(
            lambda client: record_ages.age_seconds(client, TopicPartition("t", 1), 2),
            fetched(batch_of(3)),
        ),
        exchange(
            lambda client: record_ages.age_seconds(client, TopicPartition("t", 1), 3),
            fetched(batch_of(3)),
        ),
    )


# --- groups


@case
def _group_rows():
    def answer(*names, code=0):
        ones = [
            list_groups.ListedGroup(
                group_id=name, protocol_type="p", group_state="Stable", group_type="classic"
            )
            for name in names
        ]
        return list_groups.ListGroupsResponse(error_code=code, groups=ones)

    refused = answer(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def refreshed(client):
        client.routing.nodes = dict(reversed(client.routing.nodes.items()))
        return groups.group_rows(client), client.refreshed

    return exchanges(
        exchange(refreshed, answer("z", "b"), answer(), answer("a")),
        exchange(groups.group_rows, answer(), refused),
    )


def committed(*ones, code=0):
    parts = [
        offset_fetch.OffsetFetchResponsePartitions(
            partition_index=n, committed_offset=each_one, metadata=""
        )
        for n, each_one in enumerate(ones)
    ]
    topics_ = [offset_fetch.OffsetFetchResponseTopics(name="t", partitions=parts)]
    group = offset_fetch.OffsetFetchResponseGroup(group_id="g", topics=topics_, error_code=code)
    return offset_fetch.OffsetFetchResponse(groups=[group])


SHARE = {"group": "g", "type": "Share"}


def lag_rows(client, kind):
    """Returns the rows, and the topics that may not be read."""
    ages = record_ages.RecordAges(client)
    return groups.lag_rows(client, {"group": "g", "type": kind}, ages), ages.denied


@case
def _lag_rows():
    refused = committed(code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    answers = [
        committed(3, -1, 9, 0),
        listed(5, 9, first=0),  # the end of partition 3 is missing
        fetched(batch_of(4)),
    ]
    # The response for partition 2 has index 1, which is not committed.
    return exchanges(
        exchange(lambda client: lag_rows(client, ""), *answers, leaders=LEADERS),
        exchange(
            lambda client: lag_rows(client, ""),
            committed(3, 4, 5),
            listed(5, 5, 9, first=0),
            fetched(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            leaders=LEADERS,
        ),
        exchange(
            lambda client: lag_rows(client, ""),
            committed(3, 4),
            listed(5, 5, first=0),
            RequestTimedOut("late"),
            leaders=LEADERS,
        ),
        exchange(lambda client: lag_rows(client, ""), committed()),
        exchange(lambda client: lag_rows(client, ""), refused),
    )


@case
def _share_lag_rows():
    def answer(*ones, code=0, message=None):
        parts = [
            describe_share_group_offsets.DescribeShareGroupOffsetsResponsePartition(
                partition_index=n, start_offset=start, leader_epoch=0, lag=lag
            )
            for n, (start, lag) in enumerate(ones)
        ]
        of_topic = describe_share_group_offsets.DescribeShareGroupOffsetsResponseTopic(
            topic_name="t", topic_id=UUID, partitions=parts
        )
        group = describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup(
            group_id="g", topics=[of_topic], error_code=code, error_message=message
        )
        return describe_share_group_offsets.DescribeShareGroupOffsetsResponse(groups=[group])

    told_ = answer((0, 0), (40, 7), (-1, -1), (5, -1))
    refused = answer(code=ErrorCode.GROUP_AUTHORIZATION_FAILED, message="not you")
    ends = listed(9, 90, 8, 7, first=0)
    return exchanges(
        exchange(lambda client: groups.offset_rows(client, SHARE), told_, ends, leaders=LEADERS),
        exchange(lambda client: groups.offset_rows(client, SHARE), refused),
        exchange(
            lambda client: lag_rows(client, "share"),
            answer((0, 0), (-1, 7)),
            listed(9, 90, first=0),
            fetched(batch_of(3)),
            leaders=LEADERS,
        ),
    )


def classic(state="Stable", code=0, protocol="consumer", data=b"", message=None):
    member = describe_groups.DescribedGroupMember(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        member_metadata=b"",
        member_assignment=data,
    )
    group = describe_groups.DescribedGroup(
        error_code=code,
        error_message=message,
        group_id="g",
        group_state=state,
        protocol_type=protocol,
        protocol_data="range",
        members=[member],
    )
    return describe_groups.DescribeGroupsResponse(groups=[group])


def modern(module, response, code=0, message=None, **assignor):
    if module is streams_group_describe:
        tasks = module.TaskIds(subtopology_id="sub", partitions=[0, 2])
        assignment = module.Assignment(active_tasks=[tasks], standby_tasks=[], warmup_tasks=[])
        more = {
            "topology_epoch": 0,
            "process_id": "p",
            "client_tags": [],
            "task_offsets": [],
            "task_end_offsets": [],
            "target_assignment": assignment,
            "is_classic": False,
            "instance_id": "i",
        }
    else:
        parts = module.TopicPartitions(topic_id=UUID, topic_name="t", partitions=[1, 3])
        assignment = module.Assignment(topic_partitions=[parts])
        more = {"subscribed_topic_names": []}
        if module is consumer_group_describe:
            more |= {
                "target_assignment": module.Assignment(topic_partitions=[]),
                "instance_id": "i",
            }
    member = module.Member(
        member_id="m",
        member_epoch=4,
        client_id="c",
        client_host="/h",
        assignment=assignment,
        **more,
    )
    group = module.DescribedGroup(
        error_code=code,
        error_message=message,
        group_id="g",
        group_state="Stable",
        group_epoch=7,
        assignment_epoch=6,
        members=[member],
        **assignor,
    )
    return response(groups=[group])


def consumers(**options):
    response = consumer_group_describe.ConsumerGroupDescribeResponse
    return modern(consumer_group_describe, response, assignor_name="uniform", **options)


def shares(**options):
    response = share_group_describe.ShareGroupDescribeResponse
    return modern(share_group_describe, response, assignor_name="simple", **options)


def streams(**options):
    response = streams_group_describe.StreamsGroupDescribeResponse
    return modern(streams_group_describe, response, **options)


@case
def _group_described():
    def describe(client):
        found = group_members.group_described(client, "g")
        return found, sorted(group_members.owners_of(found))

    parts = [ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[2, 0])]
    assigned = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts), 0)
    gone, none = classic("Dead"), ErrorCode.GROUP_ID_NOT_FOUND
    too_old = ErrorCode.UNSUPPORTED_VERSION
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    unknown = VersionMismatch("a"), VersionMismatch("b"), VersionMismatch("c")
    return exchanges(
        exchange(describe, classic(data=assigned)),
        exchange(describe, classic(protocol="connect", data=assigned)),
        exchange(describe, classic(data=b"?")),
        exchange(describe, classic(code=denied, message="not you")),
        exchange(describe, gone, consumers()),
        exchange(describe, gone, consumers(code=denied, message="not you")),
        exchange(describe, classic(code=none), consumers(code=none), shares()),
        exchange(describe, gone, consumers(code=too_old), shares(code=none), streams()),
        exchange(describe, gone, *unknown, *[list_groups.ListGroupsResponse(groups=[])] * 3),
    )


@case
def _coordinator_of_a_described_group():
    def describe(client):
        found = group_members.group_described(client, "g")
        return found["coordinator"], found["coordinator_address"]

    def with_routes(client, where):
        client.routing.locate = lambda destination: where
        return describe(client)

    return exchanges(
        exchange(lambda client: with_routes(client, None), classic()),
        exchange(lambda client: with_routes(client, Address("x", 9)), classic()),
        exchange(lambda client: with_routes(client, Address("c", 3)), classic()),
    )
