"""The rights that each request needs, as Apache Kafka asks for them: each of these sets suffices, and no similar right
does.

`RIGHTS` is written by hand from Kafka's `KafkaApis` and `ControllerApis`, because `docs/access.md` is generated from
our own declarations. Each request of each version is sent with each sufficient set of rights, with one right less, and
with one right replaced by every other operation on the same kind of resource.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import trio

from tests.broker.handlers.broker_client import AUTHORIZER, broker_client
from tests.broker.test_denied import REFUSALS, TITLES, answer, codes
from tests.cluster.data_side import replaced
from tests.interop.authorization.answers import comparable
from tests.interop.authorization.requests import (
    BROKER,
    GROUP,
    LISTENERS,
    LOGGER,
    METRICS,
    TOPIC,
    World,
    request_of,
)
from tests.test_access import OPEN, REGISTRIES
from trimaran.broker.groups.heartbeating.member import JOINING_EPOCH, LEAVING_EPOCH
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import AclIndex, Authorizer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType
from trimaran.wire.transport.requests.access import BY_CONTROLLER, needs_of

Op, Kind = Operation, ResourceType
USER = "nobody"
INTERNAL_TOPICS = {
    f"{topic}_{key}": "1"
    for topic in ("offsets_topic", "transaction_state_log", "share_coordinator_state_topic")
    for key in ("replication_factor", "num_partitions")
} | {"transaction_state_log_min_isr": "1"}
OPERATIONS = set(Op) - {Op.UNKNOWN, Op.ANY, Op.ALL}
# These operations imply the key (Kafka's `AclEntry`).
IMPLIED_BY = {
    Op.DESCRIBE: {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER},
    Op.DESCRIBE_CONFIGS: {Op.ALTER_CONFIGS},
}

Right = tuple[Operation, ResourceType]
Rights = frozenset[Right]


def sets(*alternatives: set[Right]) -> tuple[Rights, ...]:
    return tuple(map(frozenset, alternatives))


def on(kind: ResourceType, *operations: Operation) -> tuple[Rights, ...]:
    """Returns one sufficient set per operation."""
    return sets(*({(operation, kind)} for operation in operations))


class Fixed(World):
    """Draws nothing at random: one topic, one group and one transactional id; `choice` is the index for other
    choices.
    """

    def __init__(self, ids, choice=0, flags=False):
        super().__init__(None)
        self.ids, self._choice, self._flags = ids, choice, flags

    def topics(self, most=3, known=False):
        return ["orders"]

    def groups(self):
        return ["readers"]

    def transactions(self):
        return ["tx"]

    def one(self, pool):
        return pool[self._choice % len(pool)]

    def flag(self):
        return self._flags


@dataclass(frozen=True)
class Case:
    """One request of an API. `needs` may be a function of the version; without rights a `listed` field is empty.
    `group` is the group that it names, or the first one.
    """

    needs: tuple[Rights, ...] | Callable[[int], tuple[Rights, ...]]
    choice: int = 0
    flags: bool = False
    build: Callable[[World, int], dict] | None = None
    listed: str = ""
    group: str = "readers"
    versions: range = range(1000)

    def sufficient(self, version: int) -> tuple[Rights, ...]:
        return self.needs if isinstance(self.needs, tuple) else self.needs(version)


def case(kind: ResourceType, *operations: Operation, **more) -> list[Case]:
    return [Case(on(kind, *operations), **more)]


def resources(kind: int, name: str, value: tuple[str, str] | None = None):
    one = {"resource_type": kind, "resource_name": name}
    if value is not None:
        one["configs"] = [{"name": value[0], "value": value[1]}]
        return lambda _w, _version: {"resources": [one], "validate_only": True}
    return lambda _w, _version: {"resources": [one]}


def of_configs(operation: Operation, *, altered: bool, loggers: bool = False) -> list[Case]:
    """Configs of a topic or group need a right on it, all others one on the cluster."""
    settings = {
        (TOPIC, "orders", Kind.TOPIC): ("retention.ms", "1000"),
        (GROUP, "readers", Kind.GROUP): ("consumer.session.timeout.ms", "50000"),
        (BROKER, "11", Kind.CLUSTER): ("log.cleaner.threads", "1"),
        (BROKER, "", Kind.CLUSTER): ("log.cleaner.threads", "1"),
        (METRICS, "metrics", Kind.CLUSTER): ("interval.ms", "1000"),
    }
    if loggers:
        settings[LOGGER, "11", Kind.CLUSTER] = ("kafka", "INFO")
    return [
        Case(on(kind, operation), build=resources(number, name, value if altered else None))
        for (number, name, kind), value in settings.items()
    ]


def fetch(w, version):
    """Returns a fetch beyond the end, so that no records are returned."""
    values = LISTENERS["CLIENTS"]["Fetch"](w, version)
    for topic in values["topics"]:
        topic["partitions"][0]["fetch_offset"] = 1_000_000
    return values


def share_offsets(w, _version):
    asked = [{"topic_name": name, "partitions": [0]} for name in w.topics()]
    return {"groups": [{"group_id": group, "topics": asked} for group in w.groups()]}


def missing_share_partitions(w, _version):
    """Returns an alteration that changes nothing: no topic has the partition."""
    partitions = [{"partition_index": 7, "start_offset": 0}]
    return {
        "group_id": "shared",
        "topics": [{"topic_name": name, "partitions": partitions} for name in w.topics()],
    }


def deleted_share_offsets(w, _version):
    return {"group_id": "shared", "topics": [{"topic_name": name} for name in w.topics()]}


READ_GROUP, WRITE_TX = (Op.READ, Kind.GROUP), (Op.WRITE, Kind.TRANSACTIONAL_ID)
CLUSTER_ACTION = case(Kind.CLUSTER, Op.CLUSTER_ACTION)
ALTER = case(Kind.CLUSTER, Op.ALTER)
DESCRIBE = case(Kind.CLUSTER, Op.DESCRIBE)
RIGHTS: dict[str, dict[str, list[Case]]] = {
    "CLIENTS": {
        "Produce": [
            Case(on(Kind.TOPIC, Op.WRITE)),
            Case(
                sets({WRITE_TX, (Op.WRITE, Kind.TOPIC)}),
                choice=1,
                flags=True,
                versions=range(3, 100),
            ),
        ],
        "Fetch": [
            Case(on(Kind.TOPIC, Op.READ), build=fetch),
        ],
        "ListOffsets": case(Kind.TOPIC, Op.DESCRIBE),
        "Metadata": [
            Case(on(Kind.TOPIC, Op.DESCRIBE), build=lambda w, v: {"topics": [{"name": "orders"}]}),
            Case(
                on(Kind.TOPIC, Op.DESCRIBE),
                build=lambda w, v: {"topics": [{"name": None, "topic_id": w.id("orders")}]},
                versions=range(12, 100),
            ),
            Case(
                on(Kind.TOPIC, Op.DESCRIBE),
                build=lambda w, v: {"topics": None if v else []},
                listed="topics",
            ),
        ],
        "OffsetCommit": [Case(sets({READ_GROUP, (Op.READ, Kind.TOPIC)}))],
        "OffsetFetch": [Case(sets({(Op.DESCRIBE, Kind.GROUP), (Op.DESCRIBE, Kind.TOPIC)}))],
        "FindCoordinator": [
            Case(on(Kind.GROUP, Op.DESCRIBE)),
            Case(on(Kind.TRANSACTIONAL_ID, Op.DESCRIBE), choice=1, versions=range(1, 100)),
        ],
        "JoinGroup": case(Kind.GROUP, Op.READ),
        "Heartbeat": case(Kind.GROUP, Op.READ),
        "LeaveGroup": case(Kind.GROUP, Op.READ),
        "SyncGroup": case(Kind.GROUP, Op.READ),
        "DescribeGroups": case(Kind.GROUP, Op.DESCRIBE),
        "ListGroups": [
            Case(sets({(Op.DESCRIBE, Kind.GROUP)}, {(Op.DESCRIBE, Kind.CLUSTER)}), listed="groups")
        ],
        "DeleteRecords": case(Kind.TOPIC, Op.DELETE),
        "InitProducerId": [
            Case(sets({(Op.IDEMPOTENT_WRITE, Kind.CLUSTER)}, {(Op.WRITE, Kind.TOPIC)})),
            Case(sets({WRITE_TX}), choice=2),
        ],
        "OffsetForLeaderEpoch": [
            Case(sets({(Op.DESCRIBE, Kind.TOPIC)}, {(Op.CLUSTER_ACTION, Kind.CLUSTER)}))
        ],
        "AddPartitionsToTxn": [
            Case(
                lambda version: (
                    sets({WRITE_TX, (Op.WRITE, Kind.TOPIC)})
                    if version < 4
                    else on(Kind.CLUSTER, Op.CLUSTER_ACTION)
                )
            )
        ],
        "AddOffsetsToTxn": [Case(sets({WRITE_TX, READ_GROUP}))],
        "EndTxn": [Case(sets({WRITE_TX}))],
        "WriteTxnMarkers": case(Kind.CLUSTER, Op.ALTER, Op.CLUSTER_ACTION),
        "TxnOffsetCommit": [Case(sets({WRITE_TX, READ_GROUP, (Op.READ, Kind.TOPIC)}))],
        "DescribeAcls": DESCRIBE,
        "DescribeConfigs": of_configs(Op.DESCRIBE_CONFIGS, altered=False, loggers=True),
        "IncrementalAlterConfigs": [
            Case(
                on(Kind.CLUSTER, Op.ALTER_CONFIGS),
                build=resources(LOGGER, "11", ("kafka", "INFO")),
            )
        ],
        "AlterReplicaLogDirs": ALTER,
        "DescribeLogDirs": case(Kind.CLUSTER, Op.DESCRIBE, listed="results"),
        "DeleteGroups": case(Kind.GROUP, Op.DELETE),
        "OffsetDelete": [Case(sets({(Op.DELETE, Kind.GROUP), (Op.READ, Kind.TOPIC)}))],
        "DescribeClientQuotas": case(Kind.CLUSTER, Op.DESCRIBE_CONFIGS),
        "DescribeUserScramCredentials": DESCRIBE,
        "DescribeProducers": [
            Case(
                on(Kind.TOPIC, Op.READ),
                build=lambda w, v: {"topics": [{"name": "orders", "partition_indexes": [0]}]},
            )
        ],
        "DescribeTransactions": case(Kind.TRANSACTIONAL_ID, Op.DESCRIBE),
        "ConsumerGroupHeartbeat": [
            Case(sets({READ_GROUP})),
            Case(sets({READ_GROUP, (Op.DESCRIBE, Kind.TOPIC)}), choice=1),
        ],
        "ConsumerGroupDescribe": [
            Case(on(Kind.GROUP, Op.DESCRIBE), build=lambda w, v: {"group_ids": ["readers"]})
        ],
        "ListConfigResources": case(Kind.CLUSTER, Op.DESCRIBE_CONFIGS),
        "ShareGroupHeartbeat": [
            Case(sets({READ_GROUP})),
            Case(sets({READ_GROUP, (Op.DESCRIBE, Kind.TOPIC)}), choice=1),
        ],
        "ShareGroupDescribe": [
            Case(on(Kind.GROUP, Op.DESCRIBE), build=lambda w, v: {"group_ids": ["readers"]})
        ],
        "ShareFetch": [Case(sets({READ_GROUP, (Op.READ, Kind.TOPIC)}))],
        # It is refused without a session, before its topics.
        "ShareAcknowledge": [Case(sets({READ_GROUP}))],
        "DescribeShareGroupOffsets": [
            Case(
                sets({(Op.DESCRIBE, Kind.GROUP), (Op.DESCRIBE, Kind.TOPIC)}),
                build=share_offsets,
            ),
            Case(
                on(Kind.GROUP, Op.DESCRIBE),
                build=lambda w, v: {
                    "groups": [{"group_id": g, "topics": None} for g in w.groups()]
                },
            ),
        ],
        "AlterShareGroupOffsets": [
            Case(
                sets({READ_GROUP, (Op.READ, Kind.TOPIC)}),
                build=missing_share_partitions,
                group="shared",
            )
        ],
        "DeleteShareGroupOffsets": [
            Case(
                sets({(Op.DELETE, Kind.GROUP), (Op.READ, Kind.TOPIC)}),
                build=deleted_share_offsets,
                group="shared",
            )
        ],
        "StreamsGroupHeartbeat": [Case(sets({READ_GROUP}))],
        "StreamsGroupDescribe": [
            Case(on(Kind.GROUP, Op.DESCRIBE), build=lambda w, v: {"group_ids": ["readers"]})
        ],
        "StreamsGroupTopologyDescriptionUpdate": [Case(sets({READ_GROUP}))],
        "InitializeShareGroupState": CLUSTER_ACTION,
        "ReadShareGroupState": CLUSTER_ACTION,
        "WriteShareGroupState": CLUSTER_ACTION,
        "DeleteShareGroupState": CLUSTER_ACTION,
        "ReadShareGroupStateSummary": CLUSTER_ACTION,
        "DescribeTopicPartitions": [
            Case(
                on(Kind.TOPIC, Op.DESCRIBE),
                build=lambda w, v: {
                    "topics": [{"name": "orders"}],
                    "response_partition_limit": 10,
                },
            ),
            Case(
                on(Kind.TOPIC, Op.DESCRIBE),
                build=lambda w, v: {"topics": [], "response_partition_limit": 10},
                listed="topics",
            ),
        ],
    },
    "ADMINS": {
        "CreateTopics": [Case(sets({(Op.CREATE, Kind.TOPIC)}, {(Op.CREATE, Kind.CLUSTER)}))],
        "DeleteTopics": [
            # Names of missing topics: authorized clients get this error.
            Case(
                sets({(Op.DESCRIBE, Kind.TOPIC)}, {(Op.DELETE, Kind.CLUSTER)}),
                build=lambda w, v: {"topic_names": ["none", "neither"]},
                versions=range(6),
            ),
            Case(
                sets({(Op.DELETE, Kind.TOPIC)}, {(Op.DELETE, Kind.CLUSTER)}),
                versions=range(6, 100),
            ),
        ],
        "DescribeAcls": DESCRIBE,
        "CreateAcls": ALTER,
        "DeleteAcls": ALTER,
        "DescribeConfigs": of_configs(Op.DESCRIBE_CONFIGS, altered=False),
        "AlterConfigs": of_configs(Op.ALTER_CONFIGS, altered=True),
        "IncrementalAlterConfigs": of_configs(Op.ALTER_CONFIGS, altered=True),
        "CreatePartitions": case(Kind.TOPIC, Op.ALTER),
        "ElectLeaders": ALTER,
        "AlterPartitionReassignments": ALTER,
        "ListPartitionReassignments": DESCRIBE,
        "AlterClientQuotas": case(Kind.CLUSTER, Op.ALTER_CONFIGS),
        "AlterUserScramCredentials": ALTER,
        "DescribeQuorum": DESCRIBE,
        "UpdateFeatures": ALTER,
        "UnregisterBroker": ALTER,
        "UnregisterController": ALTER,
        "AddRaftVoter": ALTER,
        "RemoveRaftVoter": ALTER,
        "DescribeCluster": ALTER,
        **dict.fromkeys(
            (
                "AllocateProducerIds",
                "AlterPartition",
                "AssignReplicasToDirs",
                "BeginQuorumEpoch",
                "BrokerHeartbeat",
                "BrokerRegistration",
                "ControllerRegistration",
                "EndQuorumEpoch",
                "Envelope",
                "Fetch",
                "FetchSnapshot",
                "UpdateRaftVoter",
                "Vote",
            ),
            CLUSTER_ACTION,
        ),
    },
}
# These depend on the state, not only on the request: see `tests/broker/handlers/test_access.py` and the tests of
# tokens. A follower's Fetch is refused whatever its rights, unless it comes from the broker that it names:
# `test_fetch_access.py`.
ELSEWHERE = {
    "CLIENTS": {"DescribeDelegationToken", "ListTransactions"},
    "ADMINS": {"CreateDelegationToken"},
}


def test_every_api_has_its_rights():
    for listener, title in TITLES.items():
        judged = {
            handled.request.__name__.removesuffix("Request")
            for handled in REGISTRIES[title].handled().values()
            if needs_of(handled.access) != (BY_CONTROLLER,)
        }
        assert judged == RIGHTS[listener].keys() | ELSEWHERE[listener] | OPEN[title]


def allows(granted: Rights, needed: Rights) -> bool:
    return all(
        any(
            kind == wanted_kind and (operation == wanted or operation in IMPLIED_BY.get(wanted, ()))
            for operation, kind in granted
        )
        for wanted, wanted_kind in needed
    )


def grants(sufficient: tuple[Rights, ...]):
    """Yields sets of rights to try: each sufficient one, the set with one right less, and with each similar right in
    its place.
    """
    yield frozenset()
    for rights in sufficient:
        yield rights
        for right in rights:
            rest = rights - {right}
            yield rest
            for operation in OPERATIONS - {right[0]}:
                yield rest | {(operation, right[1])}


def authorizer_of(rights: Rights, names: dict[ResourceType, str] | None = None) -> Authorizer:
    """`names`: the resource of a kind that the rights apply to; for other kinds they apply to all."""
    made = Authorizer(["User:ANONYMOUS"])
    made._index = AclIndex.of(
        Acl(
            kind,
            (names or {}).get(kind, "*"),
            PatternType.LITERAL,
            f"User:{USER}",
            "*",
            operation,
            Permission.ALLOW,
        )
        for operation, kind in rights
    )
    made.complete_initial_load()
    made.epoch = next(_epochs)  # responses are cached while ACLs are unchanged
    return made


_epochs = itertools.count(1)


def is_refused(told, listed: str) -> bool:
    assert told != "closed"
    if listed:
        return not dict(told)[listed]
    return bool(REFUSALS & set(codes(told)))


def shared_by(member_epoch):
    return ShareGroupHeartbeatRequest(
        group_id="shared",
        member_id="AAAAAAAAAAAAAAAAAAAAAA",
        member_epoch=member_epoch,
        subscribed_topic_names=["orders"],
    )


@pytest.fixture
async def contexts(tmp_path):
    """Returns contexts of a broker that coordinates a group with an offset, an empty share group and a transactional
    id, and of the controller.
    """
    async with broker_client(tmp_path, **AUTHORIZER, **INTERNAL_TOPICS) as one:
        await one.create("orders", "secret")
        ids = {name: topic.id for name, topic in one.image.topics.by_name.items()}
        for kind, key in ((0, "readers"), (1, "tx")):
            await found(one, kind, key)
        world = Fixed(ids)
        await done(one, request_of("OffsetCommit", LISTENERS["CLIENTS"], 8, world, 1), 8)
        await done(
            one, InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000), 4
        )
        for epoch in (JOINING_EPOCH, LEAVING_EPOCH):
            await done(one, shared_by(epoch), 1)
        (controller,) = one.cluster.controllers.values()
        yield {"CLIENTS": one.broker.contexts, "ADMINS": controller.context}, ids


async def found(one, kind, key):
    with trio.fail_after(60):
        while True:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            (coordinator,) = (await one.call(request)).coordinators
            if not coordinator.error_code:
                return


async def done(one, request, version):
    """Retries until the coordinator is loaded."""
    with trio.fail_after(60):
        while set(codes(comparable(await one.call(request, version), {}))) != {ErrorCode.NONE}:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("listener", RIGHTS)
async def test_exactly_kafkas_rights_are_sufficient(contexts, listener):
    contexts, ids = contexts
    registry = REGISTRIES[TITLES[listener]]
    by_name = {
        exchange.request.__name__.removesuffix("Request"): exchange
        for exchange in registry.handled().values()
    }
    wrong, asked_for = [], 0
    for name, cases in RIGHTS[listener].items():
        served = registry.api_versions()[by_name[name].request.KEY]
        for number, each_case in enumerate(cases):
            builders = {name: each_case.build or LISTENERS[listener][name]}
            world = Fixed(ids, each_case.choice, each_case.flags)
            for version in range(max(served.low, each_case.versions.start), served.high + 1):
                if version not in each_case.versions:
                    continue
                sufficient = each_case.sufficient(version)
                request = request_of(name, builders, version, world, name)
                for rights in dict.fromkeys(grants(sufficient)):
                    context = replaced(contexts[listener], authorizer=authorizer_of(rights))
                    told = comparable(await answer(registry, context, request, version), {})
                    is_enough = any(allows(rights, needed) for needed in sufficient)
                    asked_for += 1
                    if is_refused(told, each_case.listed) == is_enough:
                        names = sorted(f"{right.name} {kind.name}" for right, kind in rights)
                        wrong.append((name, number, version, names, is_enough, told))
    assert not wrong, "\n".join(map(str, wrong[:20]))
    assert asked_for > 1000


class Two(Fixed):
    """Draws two of each."""

    def topics(self, most=3, known=False):
        return ["orders", "secret"]

    def groups(self):
        return ["readers", "ghosts"]

    def transactions(self):
        return ["tx", "nothing"]


FIRST = {Kind.TOPIC: "orders", Kind.GROUP: "readers", Kind.TRANSACTIONAL_ID: "tx"}
SECOND = ("secret", "ghosts", "nothing")
# The request has one item, or is refused as a whole.
OF_ONE_ITEM = {
    "AddOffsetsToTxn",
    "AlterConfigs",
    "ConsumerGroupDescribe",
    "ConsumerGroupHeartbeat",
    "CreateTopics",
    "DeleteGroups",
    "DescribeConfigs",
    "DescribeProducers",
    "EndTxn",
    "Heartbeat",
    "IncrementalAlterConfigs",
    "InitProducerId",
    "JoinGroup",
    "LeaveGroup",
    "ShareGroupDescribe",
    "ShareGroupHeartbeat",
    "SyncGroup",
}


def items(told):
    """Yields each named item, innermost first, with whether it is refused."""
    inner = [item for _, value in told if isinstance(value, tuple) for item in value]
    inside = [found for item in inner if isinstance(item, tuple) for found in items(item)]
    yield from inside
    names = {value for _, value in told if value in (*FIRST.values(), *SECOND)}
    is_refused = not inside and bool(REFUSALS & set(codes(told)))
    is_refused = is_refused or any(key == "error_code" and code in REFUSALS for key, code in told)
    yield from ((name, is_refused) for name in names)


async def test_only_the_authorized_item_is_served(contexts):
    contexts, ids = contexts
    names = {topic_id: name for name, topic_id in ids.items()}
    wrong, served = [], set()
    for listener, rights_of in RIGHTS.items():
        registry = REGISTRIES[TITLES[listener]]
        by_name = {
            exchange.request.__name__.removesuffix("Request"): exchange
            for exchange in registry.handled().values()
        }
        for name, cases in rights_of.items():
            versions = registry.api_versions()[by_name[name].request.KEY]
            for case in cases if name not in OF_ONE_ITEM else ():
                builders = {name: case.build or LISTENERS[listener][name]}
                first = FIRST | {Kind.GROUP: case.group}
                for version in range(max(versions.low, case.versions.start), versions.high + 1):
                    (needed, *_) = case.sufficient(version)
                    if version not in case.versions or not FIRST.keys() & {k for _, k in needed}:
                        continue
                    world = Two(ids, case.choice, case.flags)
                    request = request_of(name, builders, version, world, name)
                    context = replaced(contexts[listener], authorizer=authorizer_of(needed, first))
                    told = comparable(await answer(registry, context, request, version), names)
                    found = set(items(told))
                    served |= {name for item, is_refused in found if not is_refused}
                    for item, is_refused in found:
                        if is_refused != (item in SECOND):
                            wrong.append((name, version, item, is_refused, told))
    assert not wrong, "\n".join(map(str, wrong[:20]))
    assert len(served) > 12, served
