"""A request of every API that both nodes serve, with random names; no request has effects on later ones. Requests of
APIs that change data name things that cannot be changed, such as members, producers and brokers that do not exist.
"""

import random
from uuid import UUID

from tests.broker.batches import batch
from tests.interop.authorization.making import make
from trimaran.wire.messages.registry import REQUESTS

TOPICS = ("orders", "orders-eu", "secret")
GROUPS = ("readers", "readers-2", "ghosts")
TRANSACTIONS = ("tx", "tx-2", "nothing")
NOWHERE = "nowhere"
UNKNOWN_ID = UUID(int=77).bytes
METADATA, METADATA_ID = "__cluster_metadata", UUID(int=1).bytes
BY_NAME = {request.__name__.removesuffix("Request"): request for request in REQUESTS.values()}
READERS, PRODUCER = 1, 999_999
TOPIC, GROUP, BROKER, LOGGER, METRICS = 2, 32, 4, 8, 16


class World:
    """A source of random names; `ids` are the topic ids of one node."""

    def __init__(self, rng):
        self.rng = rng
        self.ids = {}

    def topics(self, most=3, known=False):
        pool = TOPICS if known else (*TOPICS, NOWHERE)
        return self.rng.sample(pool, self.rng.randint(1, min(most, len(pool))))

    def groups(self):
        return self.rng.sample(GROUPS, self.rng.randint(1, len(GROUPS)))

    def transactions(self):
        return self.rng.sample(TRANSACTIONS, self.rng.randint(1, len(TRANSACTIONS)))

    def one(self, pool):
        return self.rng.choice(pool)

    def flag(self):
        return self.rng.random() < 0.5

    def id(self, name):
        return self.ids.get(name, UNKNOWN_ID)

    def named(self, name, by_id):
        return {"topic_id": self.id(name)} if by_id else {"name": name}


def _partitions(names, field="partitions", key="name", **of_partition):
    """Returns each topic with its partition 0, which has these values."""
    return [{key: name, field: [of_partition]} for name in names]


def _indexes(names, field, key="name"):
    return [{key: name, field: [0]} for name in names]


def produce(w, version):
    transactional = w.flag() and version >= 3
    fields = {"producer_id": PRODUCER, "producer_epoch": 0, "base_sequence": 0}
    records = batch(b"v", is_transactional=True, **fields) if transactional else batch(b"v")
    data = [{"index": 0, "records": bytes(records)}]
    topics = [{**w.named(t, version >= 13), "partition_data": data} for t in w.topics()]
    return {
        "transactional_id": w.one((None, *TRANSACTIONS)),
        "acks": 1,
        "timeout_ms": 1000,
        "topic_data": topics,
    }


def fetch(w, version):
    wanted = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    key = "topic_id" if version >= 13 else "topic"
    topics = [{key: w.id(t) if version >= 13 else t, "partitions": wanted} for t in w.topics()]
    values = {"max_wait_ms": 0, "min_bytes": 1, "topics": topics, "session_epoch": -1}
    return values | {"max_bytes": 10_000}


def metadata(w, version):
    asked = None
    by_id = version >= 12 and w.flag()
    if w.rng.random() < 0.8:
        asked = [{"topic_id": w.id(t), "name": None} if by_id else {"name": t} for t in w.topics()]
    elif version == 0:
        asked = []
    return {
        "topics": asked,
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": w.flag(),
        "include_topic_authorized_operations": w.flag(),
    }


def offset_commit(w, version):
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    topics = [{**w.named(t, version >= 10), "partitions": [partition]} for t in w.topics()]
    return {
        "group_id": w.one(GROUPS),
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": topics,
    }


def offset_fetch(w, version):
    everything = w.flag() and version >= 2
    if version < 8:
        topics = None if everything else _indexes(w.topics(), "partition_indexes")
        return {"group_id": w.one(GROUPS), "topics": topics}
    groups = []
    for group in w.groups():
        topics = [{**w.named(t, version >= 10), "partition_indexes": [0]} for t in w.topics()]
        groups.append({"group_id": group, "topics": None if everything else topics})
    return {"groups": groups}


def share_states(**of_partition):
    """Returns a request about the state of a share partition whose topic does not exist."""
    topics = [{"topic_id": UNKNOWN_ID, "partitions": [{"partition": 0, **of_partition}]}]
    return plain(group_id="ghosts", topics=topics)


def find_coordinator(w, version):
    kind = w.one((0, 1)) if version >= 1 else 0
    pool = TRANSACTIONS if kind else GROUPS
    keys = w.rng.sample(pool, 2)
    return {"key": keys[0], "key_type": kind, "coordinator_keys": keys}


def add_partitions_to_txn(w, version):
    who = {"producer_id": PRODUCER, "producer_epoch": 0}
    topics = _indexes(w.topics(), "partitions")
    transaction = {"transactional_id": w.one(TRANSACTIONS), **who, "verify_only": True}
    known = _indexes(w.topics(known=True), "partitions")
    return {
        "transactions": [transaction | {"topics": known}],
        "v3_and_below_transactional_id": w.one(TRANSACTIONS),
        **{f"v3_and_below_{key}": value for key, value in who.items()},
        "v3_and_below_topics": topics,
    }


def txn_offset_commit(w, version):
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    topics = [{**w.named(t, version >= 6), "partitions": [partition]} for t in w.topics()]
    return {
        "transactional_id": w.one(TRANSACTIONS),
        "group_id": w.one(GROUPS),
        "producer_id": PRODUCER,
        "topics": topics,
    }


def config_resources(w, loggers=True):
    found = [(TOPIC, name) for name in w.topics()] + [(GROUP, w.one(GROUPS)), (BROKER, "1")]
    found += [(BROKER, ""), (METRICS, "metrics")] + [(LOGGER, "1")] * loggers
    return [
        {"resource_type": kind, "resource_name": name}
        for kind, name in w.rng.sample(found, w.rng.randint(1, len(found)))
    ]


_SETTINGS = {
    TOPIC: ("retention.ms", "1000"),
    GROUP: ("consumer.session.timeout.ms", "50000"),
    BROKER: ("log.cleaner.threads", "1"),
    METRICS: ("interval.ms", "1000"),
}


def alter_configs(w, _version):
    resources = config_resources(w, loggers=False)
    for resource in resources:
        name, value = _SETTINGS[resource["resource_type"]]
        resource["configs"] = [{"name": name, "value": value}]
    return {"resources": resources, "validate_only": True}


def create_topics(w, _version):
    names = w.rng.sample(("orders", "new", "orders-new", NOWHERE), 2)
    if w.rng.random() < 0.2:
        names.append(w.one((names[0], "__cluster_metadata", "bad name")))
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    return {"topics": topics, "timeout_ms": 5000, "validate_only": True}


def create_partitions(w, _version):
    names = w.topics() + ([w.one(TOPICS)] if w.rng.random() < 0.2 else [])
    topics = [{"name": name, "count": 1, "assignments": None} for name in names]
    return {"topics": topics, "timeout_ms": 5000, "validate_only": True}


def delete_topics(w, version):
    """Builds a request that names existing topics twice (by id and name), so that no authorized user deletes them."""
    if version < 6:
        return {"topic_names": w.rng.sample((NOWHERE, "no-1", "no-2"), 2), "timeout_ms": 5000}
    names = w.topics()
    topics = [{"name": name} for name in names]
    topics += [{"name": None, "topic_id": w.id(name)} for name in names]
    return {"topics": topics, "timeout_ms": 5000}


def describe_topic_partitions(w, _version):
    asked = [] if w.rng.random() < 0.3 else [{"name": t} for t in w.topics()]
    return {"topics": asked, "response_partition_limit": w.one((1, 2000))}


def consumer_group_heartbeat(w, _version):
    return {
        "group_id": w.one(GROUPS),
        "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "member_epoch": 5,
        "subscribed_topic_names": w.one((None, w.topics())),
        "topic_partitions": None,
    }


def share_group_heartbeat(w, _version):
    return {
        "group_id": w.one(GROUPS),
        "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "member_epoch": 5,
        "subscribed_topic_names": w.one((None, w.topics())),
    }


def streams_group_heartbeat(w, _version):
    topology = {
        "epoch": 1,
        "subtopologies": [
            {
                "subtopology_id": "0",
                "source_topics": w.topics(),
                "source_topic_regex": [],
                "state_changelog_topics": [],
                "repartition_sink_topics": [],
                "repartition_source_topics": [],
                "copartition_groups": [],
            }
        ],
    }
    return {
        "group_id": w.one(GROUPS),
        "member_id": "m",
        "member_epoch": 5,
        "endpoint_information_epoch": 0,
        "topology": w.one((None, topology)),
    }


def share_fetch(w, _version):
    """Builds a request without unknown topic ids, which end in an exception of Kafka's authorizer in a later epoch."""
    partitions = [{"partition_index": 0, "acknowledgement_batches": []}]
    return {
        "group_id": w.one(GROUPS),
        "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "share_session_epoch": w.one((0, 1, -1)),
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_records": 10,
        "batch_size": 10,
        "topics": [{"topic_id": w.id(t), "partitions": partitions} for t in w.topics(known=True)],
        "forgotten_topics_data": [],
    }


def share_acknowledge(w, _version):
    """Builds a request without unknown topic ids, as for ShareFetch."""
    batch = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
    partitions = [{"partition_index": 0, "acknowledgement_batches": [batch]}]
    return {
        "group_id": w.one(GROUPS),
        "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "share_session_epoch": w.one((0, 1, -1)),
        "topics": [{"topic_id": w.id(t), "partitions": partitions} for t in w.topics(known=True)],
    }


def acl_filter(w):
    return {
        "resource_type_filter": w.one((1, 2, 3)),
        "resource_name_filter": w.one((None, "orders")),
        "pattern_type_filter": w.one((1, 2, 3)),
        "principal_filter": w.one((None, "User:nobody")),
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }


def raft(key="topic_name", **partition):
    """Builds requests for another cluster's controllers, in versions with a cluster id."""
    topics = [{key: "__cluster_metadata", "partitions": [partition]}]
    return lambda _w, _version: {"cluster_id": "another", "topics": topics}


def plain(**values):
    return lambda _w, _version: values


MARKER = {"producer_id": PRODUCER, "transaction_result": False, "coordinator_epoch": 0}
NO_ACL = {
    "resource_type": 2,
    "resource_name": "",
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": "alice"}],
    "ops": [{"key": "producer_byte_rate", "value": 1e6, "remove": False}],
}
OWNERS = ("alice", "bob", "root")

BROKERS = {
    "Produce": produce,
    "Fetch": fetch,
    "ListOffsets": lambda w, v: {
        "replica_id": -1,
        "topics": _partitions(w.topics(), partition_index=0, timestamp=-1, max_num_offsets=1),
    },
    "Metadata": metadata,
    "OffsetCommit": offset_commit,
    "OffsetFetch": offset_fetch,
    "FindCoordinator": find_coordinator,
    "JoinGroup": lambda w, v: {
        "group_id": w.one(GROUPS),
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 1000,
        "member_id": "nobody",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    },
    "Heartbeat": lambda w, v: {"group_id": w.one(GROUPS), "generation_id": 1, "member_id": "no"},
    "LeaveGroup": lambda w, v: {
        "group_id": w.one(GROUPS),
        "member_id": "nobody",
        "members": [{"member_id": "nobody"}],
    },
    "SyncGroup": lambda w, v: {
        "group_id": w.one(GROUPS),
        "generation_id": 1,
        "member_id": "nobody",
        "protocol_type": "consumer",
        "protocol_name": "range",
    },
    "DescribeGroups": lambda w, v: {
        "groups": w.groups(),
        "include_authorized_operations": w.flag(),
    },
    "ListGroups": plain(),
    "CreateTopics": create_topics,
    "DeleteTopics": delete_topics,
    "DeleteRecords": lambda w, v: {
        "topics": _partitions(w.topics(), partition_index=0, offset=0),
        "timeout_ms": 5000,
    },
    "InitProducerId": lambda w, v: {
        "transactional_id": w.one((None, None, "tx-8", "tx-9", "no-tx")),
        "transaction_timeout_ms": 10_000,
        "producer_id": -1,
        "producer_epoch": -1,
    },
    "OffsetForLeaderEpoch": lambda w, v: {
        "replica_id": -2,
        "topics": _partitions(
            w.topics(), key="topic", partition=0, current_leader_epoch=-1, leader_epoch=0
        ),
    },
    "AddPartitionsToTxn": add_partitions_to_txn,
    "AddOffsetsToTxn": lambda w, v: {
        "transactional_id": w.one(TRANSACTIONS),
        "producer_id": PRODUCER,
        "group_id": w.one(GROUPS),
    },
    "EndTxn": lambda w, v: {"transactional_id": w.one(TRANSACTIONS), "producer_id": PRODUCER},
    "WriteTxnMarkers": lambda w, v: {
        "markers": [MARKER | {"topics": _indexes([NOWHERE], "partition_indexes")}]
    },
    "TxnOffsetCommit": txn_offset_commit,
    "DescribeAcls": lambda w, v: acl_filter(w),
    "CreateAcls": lambda w, v: {"creations": [NO_ACL]},
    "DeleteAcls": lambda w, v: {"filters": [acl_filter(w) | {"principal_filter": "User:nobody"}]},
    "DescribeConfigs": lambda w, v: {"resources": config_resources(w)},
    "AlterConfigs": alter_configs,
    "AlterReplicaLogDirs": lambda w, v: {
        "dirs": [{"path": "/nowhere", "topics": _indexes(w.topics(), "partitions")}]
    },
    "DescribeLogDirs": lambda w, v: {"topics": _indexes(["none"], "partitions", "topic")},
    "CreatePartitions": create_partitions,
    "CreateDelegationToken": lambda w, v: {
        "owner_principal_type": "User",
        "owner_principal_name": w.one(OWNERS),
        "max_lifetime_ms": 100_000_000,
    },
    "RenewDelegationToken": plain(hmac=b"none", renew_period_ms=1),
    "ExpireDelegationToken": plain(hmac=b"none", expiry_time_period_ms=1),
    "DescribeDelegationToken": lambda w, v: {
        "owners": w.one((None, [{"principal_type": "User", "principal_name": w.one(OWNERS)}]))
    },
    "DeleteGroups": lambda w, v: {"groups_names": w.rng.sample(("g-1", "g-2", "readers-9"), 2)},
    "ElectLeaders": lambda w, v: {"topic_partitions": _indexes(w.topics(), "partitions", "topic")},
    "IncrementalAlterConfigs": alter_configs,
    "AlterPartitionReassignments": lambda w, v: {
        "topics": _partitions(w.topics(), partition_index=0, replicas=None)
    },
    "ListPartitionReassignments": lambda w, v: {"topics": None},
    "OffsetDelete": lambda w, v: {
        "group_id": w.one(("readers", "ghosts")),
        "topics": _partitions(w.topics(), partition_index=7),
    },
    "DescribeClientQuotas": plain(components=[], strict=False),
    "AlterClientQuotas": plain(entries=[QUOTA], validate_only=True),
    "DescribeUserScramCredentials": plain(users=[{"name": "alice"}]),
    "AlterUserScramCredentials": plain(deletions=[{"name": "alice", "mechanism": 1}]),
    "DescribeQuorum": plain(
        topics=[{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    ),
    "UpdateFeatures": plain(
        feature_updates=[{"feature": "none", "max_version_level": 7}], validate_only=True
    ),
    "DescribeCluster": lambda w, v: {
        "include_cluster_authorized_operations": w.flag(),
        "endpoint_type": 1,
    },
    "DescribeProducers": lambda w, v: {
        "topics": _indexes(
            dict.fromkeys([*w.topics(), w.one(("bad name", NOWHERE))]), "partition_indexes"
        )
    },
    "UnregisterBroker": plain(broker_id=99),
    "UnregisterController": plain(controller_id=99),
    "DescribeTransactions": lambda w, v: {"transactional_ids": w.transactions()},
    "ListTransactions": plain(),
    "ConsumerGroupHeartbeat": consumer_group_heartbeat,
    "InitializeShareGroupState": share_states(),
    "ReadShareGroupState": share_states(leader_epoch=1),
    "WriteShareGroupState": share_states(leader_epoch=1),
    "DeleteShareGroupState": share_states(),
    "ReadShareGroupStateSummary": share_states(),
    "ConsumerGroupDescribe": lambda w, v: {
        "group_ids": [*w.groups(), "modern"],
        "include_authorized_operations": w.flag(),
    },
    "ShareFetch": share_fetch,
    "ShareAcknowledge": share_acknowledge,
    "ShareGroupHeartbeat": share_group_heartbeat,
    "ShareGroupDescribe": lambda w, v: {
        "group_ids": [*w.groups(), "shared"],
        "include_authorized_operations": w.flag(),
    },
    "DescribeShareGroupOffsets": lambda w, v: {
        "groups": [
            {"group_id": "shared", "topics": None},
            {
                "group_id": "mine",
                "topics": [{"topic_name": name, "partitions": [0]} for name in w.topics()],
            },
        ]
    },
    "AlterShareGroupOffsets": lambda w, v: {
        "group_id": "shared",
        "topics": [
            {"topic_name": name, "partitions": [{"partition_index": 0, "start_offset": 0}]}
            for name in w.topics()
        ],
    },
    "DeleteShareGroupOffsets": lambda w, v: {
        "group_id": "shared",
        "topics": [{"topic_name": name} for name in w.topics()],
    },
    "StreamsGroupHeartbeat": streams_group_heartbeat,
    "StreamsGroupDescribe": lambda w, v: {
        "group_ids": [*w.groups(), "streams"],
        "include_authorized_operations": w.flag(),
    },
    "StreamsGroupTopologyDescriptionUpdate": lambda w, v: {
        "group_id": w.one(GROUPS),
        "member_id": "m",
        "topology_epoch": 1,
        "topology_description": {"subtopologies": [], "global_stores": []},
    },
    "ListConfigResources": plain(),
    "DescribeTopicPartitions": describe_topic_partitions,
    "AddRaftVoter": plain(cluster_id="another", timeout_ms=1000, voter_id=9),
    "RemoveRaftVoter": plain(cluster_id="another", voter_id=9),
}
_BY_CLIENTS = [
    "CreateTopics",
    "DeleteTopics",
    "DescribeAcls",
    "CreateAcls",
    "DeleteAcls",
    "DescribeConfigs",
    "AlterConfigs",
    "CreatePartitions",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "AlterClientQuotas",
    "AlterUserScramCredentials",
    "DescribeQuorum",
    "UpdateFeatures",
    "UnregisterBroker",
    "UnregisterController",
    "AddRaftVoter",
    "RemoveRaftVoter",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "CreateDelegationToken",
]
CONTROLLERS = {name: BROKERS[name] for name in _BY_CLIENTS} | {
    "DescribeCluster": plain(include_cluster_authorized_operations=True, endpoint_type=2),
    "Vote": raft(partition_index=0, replica_id=9),
    "BeginQuorumEpoch": raft(partition_index=0, leader_id=9, leader_epoch=1),
    "EndQuorumEpoch": raft(partition_index=0, leader_id=9, leader_epoch=1),
    "FetchSnapshot": raft("name", partition=0),
    "Fetch": lambda w, v: {
        "cluster_id": "another",
        "max_wait_ms": 0,
        "min_bytes": 0,
        "topics": [{"topic": METADATA, "topic_id": METADATA_ID, "partitions": [{"partition": 0}]}],
    },
    "AlterPartition": lambda w, v: {
        "broker_id": 99,
        "topics": [{"topic_id": UNKNOWN_ID, "partitions": [{"partition_index": 0}]}],
    },
    "ControllerRegistration": plain(controller_id=99),
    "BrokerHeartbeat": plain(broker_id=99, broker_epoch=1),
    "BrokerRegistration": plain(broker_id=99, cluster_id="another"),
    "AllocateProducerIds": plain(broker_id=99, broker_epoch=1),
    "AssignReplicasToDirs": plain(broker_id=99, broker_epoch=1),
    "UpdateRaftVoter": plain(cluster_id="another", voter_id=9),
    "Envelope": plain(request_data=b"", request_principal=b"", client_host_address=b"\x7f\0\0\1"),
}
# These are advertised for old clients, but not served.
LOWEST = {"Produce": 3}
LISTENERS = {"CLIENTS": BROKERS, "ADMINS": CONTROLLERS}


def request_of(name, builders, version, world, seed):
    """Returns the same random request for each node, except for topic ids."""
    world.rng = random.Random(seed)
    return make(BY_NAME[name], builders[name](world, version), version)
