"""B4: a broker with the largest permitted state returns all of it in response to small requests: no step is long, no
response exceeds its limit, and the broker is not fenced. `--exhaustive` creates the whole state, every other run a
tenth of it.
"""

from __future__ import annotations

import contextlib
from functools import partial

import pytest
import trio

from tests.badinput.peer import Peer, frame_of
from tests.broker.real_state import GROUP, TOPIC, TRANSACTION, make_some_of_everything
from tests.broker.test_repeated_items import SETTINGS
from tests.cluster.in_process import cluster
from tests.slow_steps import no_slow_steps
from trimaran.broker.groups.classic import kind as classic
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.transactions.records import TransactionRecord
from trimaran.broker.transactions.transaction import Transaction, TransactionState
from trimaran.wire.buffers.response_size import ENCODED_BYTES_MAX
from trimaran.wire.messages.create_acls import AclCreation, CreateAclsRequest
from trimaran.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from trimaran.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from trimaran.wire.messages.describe_acls import DescribeAclsRequest
from trimaran.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest
from trimaran.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from trimaran.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from trimaran.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from trimaran.wire.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from trimaran.wire.messages.describe_transactions import DescribeTransactionsRequest
from trimaran.wire.messages.list_config_resources import ListConfigResourcesRequest
from trimaran.wire.messages.list_groups import ListGroupsRequest
from trimaran.wire.messages.list_transactions import ListTransactionsRequest
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.records.groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PARTITIONS, GROUPS, OFFSETS_EACH = 9_900, 1_000, 1_000
TRANSACTIONS, MEMBERS, ACLS = 20_000, 10_000, 1_000
CALLS_MAX = 120_000
SECONDS = 120


class Sizes:
    def __init__(self, exhaustive):
        part = 1 if exhaustive else 10
        self.partitions = PARTITIONS // part
        self.groups, self.offsets_each = GROUPS // part, OFFSETS_EACH // part
        self.transactions, self.members = TRANSACTIONS // part, MEMBERS // part
        self.acls = ACLS // part


async def test_small_requests_for_all_there_is(tmp_path, request):
    sizes = Sizes(request.config.getoption("--hypothesis-profile") == "exhaustive")
    async with cluster(tmp_path, **SETTINGS) as running:
        host, _, port = running.bootstrap.rpartition(":")
        address = (host, int(port))
        [broker] = running.brokers.values()
        await trio.to_thread.run_sync(make_some_of_everything, address)
        await trio.to_thread.run_sync(make_partitions_and_acls, address, sizes)
        await running.seen(
            lambda image: len(image.topics.by_name[TOPIC].partitions) == sizes.partitions,
            broker.node_id,
        )
        [groups] = broker.parts.families.groups.runtime.epochs
        await fill_groups(groups.active(), sizes)
        [transactions] = broker.parts.families.transactions.coordinator.runtime.epochs
        fill_transactions(transactions.active(), sizes, broker.contexts.data.now_ms())
        epoch = broker.parts.metadata.image.cluster.brokers[broker.node_id].epoch
        for asked in requests(sizes, broker.node_id):
            for _ in range(2):  # the first request compiles its codecs, and fills caches
                with no_slow_steps(CALLS_MAX):
                    await trio.to_thread.run_sync(check_answer, address, asked)
        now = broker.parts.metadata.image.cluster.brokers[broker.node_id]
        assert (now.fenced, now.epoch) == (False, epoch)


def check_answer(address, asked):
    version = asked.VERSIONS.high
    with contextlib.closing(Peer(address)) as peer:
        peer.socket.settimeout(SECONDS)
        peer.send(frame_of(asked, version))
        frame = peer.frame()
        assert frame is not None, type(asked).__name__
        assert len(frame) <= ENCODED_BYTES_MAX
        flexible = version in RESPONSES[asked.KEY].FLEXIBLE
        response = RESPONSES[asked.KEY].decode(frame[4 + flexible :], version)
        assert not getattr(response, "error_code", 0), type(asked).__name__


def make_partitions_and_acls(address, sizes):
    more = CreatePartitionsTopic(name=TOPIC, count=sizes.partitions, assignments=None)
    creations = [
        AclCreation(
            resource_type=2,
            resource_name=f"topic-{number}",
            resource_pattern_type=3,
            principal=f"User:{number}",
            host="*",
            operation=3,
            permission_type=3,
        )
        for number in range(sizes.acls)
    ]
    with contextlib.closing(Peer(address)) as peer:
        peer.socket.settimeout(SECONDS)
        asked = CreatePartitionsRequest(topics=[more], timeout_ms=60_000, validate_only=False)
        [result] = peer.ask(asked, 3).results
        assert not result.error_code
        assert len(peer.ask(CreateAclsRequest(creations=creations), 3).results) == sizes.acls


async def fill_groups(shard, sizes):
    for group in range(sizes.groups):
        for index in range(sizes.offsets_each):
            key = OffsetCommitKey(group=f"g{group}", topic=TOPIC, partition=index)
            value = OffsetCommitValue(offset=index, metadata="", commit_timestamp=0)
            shard.replay(index, GroupRecord(key, value))
        await trio.lowlevel.checkpoint()
    members = [
        MemberMetadata(
            member_id=f"member-{number}",
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=300_000,
            session_timeout=300_000,
            subscription=bytes(200),
            assignment=bytes(100),
        )
        for number in range(sizes.members)
    ]
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="member-0",
        members=members,
    )
    shard.replay(0, GroupRecord(GroupMetadataKey(group="crowd"), value))
    assert len(shard.of(classic.KIND).groups["crowd"].members) == sizes.members


def fill_transactions(shard, sizes, begun):
    for number in range(sizes.transactions):
        transaction = Transaction(
            number,
            0,
            600_000,
            TransactionState.ONGOING,
            frozenset((TOPIC, index) for index in range(number % 5)),
            started_ms=begun,
            updated_ms=begun,
        )
        shard.replay(number, TransactionRecord(f"x{number}", transaction))


def requests(sizes, node_id):
    """Returns requests of a few bytes each, or with a few hundred names."""
    groups = [f"g{number}" for number in range(min(sizes.groups, 200))]
    resource = partial(DescribeConfigsResource, configuration_keys=None)
    everything = {
        "resource_name_filter": None,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    filters = {"resource_type_filter": 1, "pattern_type_filter": 1, **everything}
    none = DeleteAclsFilter(**filters | {"principal_filter": "User:nobody"})
    return [
        MetadataRequest(topics=None, include_topic_authorized_operations=True),
        MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]),
        DescribeTopicPartitionsRequest(topics=[DescribedTopic(name=TOPIC)]),
        DescribeLogDirsRequest(topics=None),
        DescribeProducersRequest(
            topics=[TopicRequest(name=TOPIC, partition_indexes=list(range(sizes.partitions)))]
        ),
        DescribeConfigsRequest(
            resources=[resource(resource_type=4, resource_name=str(node_id))],
            include_synonyms=True,
            include_documentation=True,
        ),
        ListConfigResourcesRequest(resource_types=[]),
        ListGroupsRequest(),
        DescribeGroupsRequest(groups=["crowd", GROUP, *groups], include_authorized_operations=True),
        OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in groups]
        ),
        ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
        ListTransactionsRequest(
            state_filters=[], producer_id_filters=[], transactional_id_pattern="x[0-9]*5"
        ),
        DescribeTransactionsRequest(
            transactional_ids=[TRANSACTION, *(f"x{number}" for number in range(500))]
        ),
        DescribeAclsRequest(**filters),
        DeleteAclsRequest(filters=[none] * 100),
    ]
