"""ElectLeaders through a broker."""

from tests.broker.handlers.broker_client import broker_client, refusal_by_controller
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions


def election(*partitions, topic="t"):
    wanted = TopicPartitions(topic=topic, partitions=list(partitions))
    return ElectLeadersRequest(topic_partitions=[wanted])


def codes_of(answer):
    return {
        (found.topic, partition.partition_id): partition.error_code
        for found in answer.replica_election_results
        for partition in found.partition_result
    }


async def test_preferred_leader_needs_no_election(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.create("t")
        answer = await one.call(election(0, 1))
        assert codes_of(answer) == {
            ("t", 0): ErrorCode.ELECTION_NOT_NEEDED,
            ("t", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }


async def test_preferred_replica_leads_again(tmp_path):
    async with broker_client(tmp_path, brokers=2, auto_leader_rebalance_enable="false") as one:
        await one.create_at("t", [12, 11])
        await one.cluster.stop(12)
        await one.seen(lambda image: image.topics.by_name["t"].partitions[0].leader == 11)
        await one.cluster.start_broker(12)
        await one.seen(lambda image: set(image.topics.by_name["t"].partitions[0].isr) == {11, 12})
        assert codes_of(await one.call(election(0))) == {("t", 0): 0}
        await one.seen(lambda image: image.topics.by_name["t"].partitions[0].leader == 12)


async def test_refusal_is_returned_for_every_partition(tmp_path):
    answer = await refusal_by_controller(tmp_path, election(0, 5), 2)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert codes_of(answer) == {("t", 0): code, ("t", 5): code}


async def test_election_of_all_is_refused_at_top(tmp_path):
    """The response has no partition that could have the error; without it the client would assume success. Version 0
    has no top-level error.
    """
    everywhere = ElectLeadersRequest(topic_partitions=None)
    for version, code in ((2, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), (0, ErrorCode.NONE)):
        path = tmp_path / str(version)
        path.mkdir()
        answer = await refusal_by_controller(path, everywhere, version)
        assert (answer.error_code, answer.replica_election_results) == (code, [])


async def test_refusal_of_version_0_is_per_partition(tmp_path):
    answer = await refusal_by_controller(tmp_path, election(0), 0)
    assert answer.error_code == ErrorCode.NONE
    assert codes_of(answer) == {("t", 0): ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
