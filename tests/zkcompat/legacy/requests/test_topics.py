import pytest

from tests.zkcompat import build
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.legacy.requests.topics import decide

EMPTY = build.image_of()
IMAGE = build.image_of(
    build.topic("t", build.T1),
    build.partition(build.T1, 0, [1, 2]),
    build.partition(build.T1, 1, [2, 1]),
)
# As kafka-topics --zookeeper of these versions writes it.
CREATED = {
    "0.8.2": b'{"version":1,"partitions":{"1":[2,1],"0":[1,2]}}',
    "1.1": b'{"version":1,"partitions":{"1":[2,1],"0":[1,2]}}',
    "2.8": b'{"removing_replicas":{},"partitions":{"1":[2,1],"0":[1,2]},"adding_replicas":{},'
    b'"version":3}',
}
CONFIG = b'{"version":1,"config":{"retention.ms":"1000","cleanup.policy":"compact"}}'
STALE = b'{"partitions":{"0":[1]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","version":3}'


@pytest.mark.parametrize("version", CREATED)
def test_new_topic_is_requested_as_written(version):
    request = decide("new", CREATED[version], CONFIG, EMPTY)
    assert request.kind is RequestKind.TOPIC
    (topic,) = request.quorum_requests[0].request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("new", -1, -1)
    assert [(a.partition_index, a.broker_ids) for a in topic.assignments] == [
        (0, [1, 2]),
        (1, [2, 1]),
    ]
    assert {c.name: c.value for c in topic.configs} == {
        "retention.ms": "1000",
        "cleanup.policy": "compact",
    }
    assert request.entities == ("/brokers/topics/new",)
    assert not request.cleanup


def test_new_topic_without_configs_is_requested():
    for config in (None, b"", b"x", b'{"version":1,"config":{}}'):
        request = decide("new", CREATED["2.8"], config, EMPTY)
        assert request.quorum_requests[0].request.topics[0].configs == []


def test_leftover_of_deleted_topic_is_no_request():
    assert decide("gone", STALE, None, EMPTY) is None


@pytest.mark.parametrize(
    "data",
    [None, b"", b"{}", b"[]", b'{"partitions":{}}', b'{"partitions":{"-1":[1]}}',
     b'{"partitions":{"x":[1]}}', b'{"partitions":{"0":1}}', b'{"partitions":{"0":["1"]}}'],
)  # fmt: skip
def test_invalid_request_creates_nothing(data):
    request = decide("new", data, None, EMPTY)
    assert not request.quorum_requests
    assert len(request.refused) == 1


def test_topic_created_earlier_is_requested():
    (quorum_request,) = decide("new", CREATED["1.1"], None, EMPTY).quorum_requests

    def said(code):
        one = CreatableTopicResult(name="new", error_code=code, error_message="why")
        return quorum_request.refusals(CreateTopicsResponse(topics=[one]))

    assert said(ErrorCode.NONE) == said(ErrorCode.TOPIC_ALREADY_EXISTS) == []
    assert said(ErrorCode.INVALID_TOPIC_EXCEPTION) == [
        "create topic new: INVALID_TOPIC_EXCEPTION: why"
    ]


def test_added_partitions_are_requested():
    data = b'{"version":1,"partitions":{"3":[2],"1":[2,1],"0":[1,2],"2":[1]}}'
    request = decide("t", data, None, IMAGE)
    assert request.kind is RequestKind.PARTITIONS
    (topic,) = request.quorum_requests[0].request.topics
    assert (topic.name, topic.count) == ("t", 4)
    assert [a.broker_ids for a in topic.assignments] == [[1], [2]]


def test_unchanged_partitions_need_no_request():
    for data in CREATED.values():
        assert decide("t", data, None, IMAGE) is None
    assert decide("t", b'{"partitions":{"0":[9]}}', None, IMAGE) is None
    assert decide("t", b"nonsense", None, IMAGE) is None


@pytest.mark.parametrize(
    "data",
    [
        b'{"partitions":{"0":[1,2],"1":[2,1],"3":[1]}}',
        b'{"partitions":{"0":[1,2],"2":[1]}}',
        b'{"partitions":{"0":[1],"1":[1],"9999999999":[1]}}',
    ],
)
def test_partitions_with_gaps_are_refused(data):
    request = decide("t", data, None, IMAGE)
    assert not request.quorum_requests
    assert request.refused
