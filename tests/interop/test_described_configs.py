"""DescribeConfigs of every resource: Apache Kafka 4.4's response and ours, field by field, with equal texts. Kafka's
tools change the case of their output, so the decoded responses are compared. Allowed differences are listed here:
configs and loggers that only one of the two has, values that are specific to a node, the documentation texts, and
configs that are read-only here (`ONLY_READ`).
"""

import pytest

from tests import datadriven
from tests.interop.authorization.peers import eventually, two_peers
from tests.node.config.described import (
    BROKER,
    GROUP,
    LOGGER,
    METRICS,
    TABLE,
    TOPIC,
    WORDS,
    rows,
    table,
)
from tests.node.config.test_described import ONLY_READ, OTHER_DEFAULTS
from trimaran.node.config.server_keys import DYNAMIC_ONLY
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

FILE = """
log.retention.minutes=600
log.roll.hours=100
log.roll.jitter.ms=7
log.flush.scheduler.interval.ms=5000
log.cleaner.min.cleanable.ratio=0.25
log.cleaner.io.buffer.load.factor=.5
log.segment.bytes= 2097152
log.local.retention.ms=5000
log.cleanup.policy=compact, delete
log.message.timestamp.type=LogAppendTime
compression.type=gzip
num.partitions=3
unclean.leader.election.enable=TRUE
auto.create.topics.enable=False
replica.lag.time.max.ms=20000
group.consumer.heartbeat.interval.ms=6000
my.reporter.interval.ms=5
my.reporter.password=secret
rsm.config.bucket=x
leader.imbalance.per.broker.percentage=10
listener.name.clients.max.connections=77
listener.name.clients.plain.connections.max.reauth.ms=0
listener.name.clients.my.own=5
producer.id.expiration.check.interval.ms=500000
"""
ALTERED = {
    (TOPIC, "own"): {
        "segment.ms": "1000",
        "retention.ms": "77",
        "cleanup.policy": "compact",
        "flush.ms": "9",
        "min.cleanable.dirty.ratio": ".30",
        "preallocate": "TRUE",
        "leader.replication.throttled.replicas": "0:1, 1:1",
    },
    (BROKER, ""): {
        "log.retention.ms": "7200000",
        "log.index.interval.bytes": "100",
        "log.roll.ms": "500000",
        "log.cleaner.io.max.bytes.per.second": "10000000",
        "num.io.threads": "9",
        "follower.replication.throttled.rate": "7",
        "my.plugin.of.all": "5",
    },
    (BROKER, "1"): {
        "log.flush.interval.ms": "100",
        "log.retention.ms": "8000000",
        "log.segment.delete.delay.ms": "5000",
        "leader.replication.throttled.rate": "7",
        "listener.name.clients.ssl.keystore.password": "x",
        "listener.name.clients.max.connections": "66",
        "my.plugin": "5",
        "cleanup.policy": "5",
        "super.users": "User:nobody",
    },
    (METRICS, "own"): {"interval.ms": "5000", "metrics": "a,b", "match": "client_id=x"},
    (GROUP, "own"): {
        "consumer.session.timeout.ms": "50000",
        "share.isolation.level": "read_committed",
    },
}
REFUSED = {
    (BROKER, ""): {
        "log.dirs": "/x",
        "ssl.keystore.location": "/x",
        "listener.name.clients.my.own": "5",
    },
    (BROKER, "1"): {"num.io.threads": "x", "ssl.truststore.type": "JKS"},
    (TOPIC, "own"): {"my.plugin": "5"},
    (METRICS, "own"): {"my.plugin": "5"},
    (GROUP, "own"): {"my.plugin": "5"},
}
DESCRIBED = [*ALTERED, (TOPIC, "none"), (METRICS, "none"), (GROUP, "none")]


@pytest.fixture(scope="module")
def peers(tmp_path_factory):
    with two_peers(tmp_path_factory.mktemp("described"), everyone=False, more=FILE) as found:
        for peer in found:
            create(peer, "own", "none")
            for (kind, name), values in ALTERED.items():
                for key, value in values.items():
                    assert alter(peer, kind, name, key, value) == (0, None), (peer.name, key)
            eventually("configs are known", lambda: all_are_known(peer))  # noqa: B023
        yield found


def create(peer, *names):
    topics = [
        CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        for name in names
    ]
    answer = peer.root(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
    assert [topic.error_code for topic in answer.topics] == [0] * len(names)
    eventually("topics are known", lambda: describe(peer, TOPIC, names[-1], 4).configs)
    return [
        (config.name, config.value, config.config_source) for config in answer.topics[0].configs
    ]


def alter(peer, kind, name, key, value, *, validate_only=False):
    config = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (answer,) = peer.root(request, 1).responses
    return answer.error_code, answer.error_message


def describe(peer, kind, name, version, keys=None):
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], include_documentation=version > 2)
    (answer,) = peer.root(request, version).results
    return answer


def all_are_known(peer):
    """Waits until all brokers know the alterations, which they learn asynchronously."""
    return all(
        name
        in {
            config.name
            for config in describe(peer, kind, resource, 4).configs
            if config.config_source != 5
        }
        for (kind, resource), values in ALTERED.items()
        for name in values
    )


def told(peer, kind, name, version):
    """Returns the fields of a response by config name; texts that depend on the node are replaced."""
    answer = describe(peer, kind, name, version)
    return (answer.error_code, answer.error_message), {
        config.name: fields(peer, kind, config)
        for config in answer.configs
        if not config.name.startswith("trimaran.")
    }


def fields(peer, kind, config):
    is_other = kind == BROKER and config.name in OTHER_DEFAULTS
    is_refused = kind == BROKER and config.name in ONLY_READ
    return {
        "value": None if is_other else neutral(peer, config.value),
        "read_only": is_refused or config.read_only,
        "is_default": config.is_default,
        "source": config.config_source,
        "is_sensitive": config.is_sensitive,
        "type": config.config_type,
        "is_documented": bool(config.documentation) or config.name in DYNAMIC_ONLY,
        "synonyms": [
            (synonym.name, None if is_other else neutral(peer, synonym.value), synonym.source)
            for synonym in config.synonyms
        ],
    }


def neutral(peer, text):
    """Returns the text without the addresses and directories of the node."""
    for name, port in peer.ports.items():
        text = text and text.replace(f":{port}", f":{name}")
    return text and text.replace(str(peer.dir), "DIR")


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize(("kind", "name"), DESCRIBED)
def test_described_configs_equal_kafkas(peers, kind, name, version):
    (theirs, theirs_told), (ours, ours_told) = (told(peer, kind, name, version) for peer in peers)
    assert ours == theirs
    assert ours_told.keys() == theirs_told.keys()
    differing = {
        key: (their, ours_told[key])
        for key, their in theirs_told.items()
        if ours_told[key] != their
    }
    assert differing == {}


@pytest.mark.parametrize("version", range(1, 5))
def test_loggers_are_described_like_kafkas(peers, version):
    """The names and levels of loggers depend on the programming language."""
    theirs, ours = (describe(peer, LOGGER, "1", version) for peer in peers)
    assert (ours.error_code, ours.error_message) == (theirs.error_code, theirs.error_message)
    kinds = [
        {
            (
                *(config.read_only, config.is_default, config.config_source, config.is_sensitive),
                *(config.config_type, config.documentation, tuple(config.synonyms)),
            )
            for config in answer.configs
        }
        for answer in (theirs, ours)
    ]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize(("kind", "name"), REFUSED)
def test_refused_alterations_have_kafkas_wording(peers, kind, name):
    for key, value in REFUSED[kind, name].items():
        theirs, ours = (alter(peer, kind, name, key, value) for peer in peers)
        assert ours == theirs
        assert ours[0] != 0


@pytest.mark.parametrize(
    "resource",
    [
        (TOPIC, "nowhere"),
        (TOPIC, "a/b"),
        (BROKER, "7"),
        (BROKER, "x"),
        (LOGGER, ""),
        (METRICS, ""),
        (GROUP, ""),
    ],
)
def test_missing_resources_answer_like_kafka(peers, resource):
    theirs, ours = (told(peer, *resource, 4) for peer in peers)
    assert ours == theirs


@pytest.mark.parametrize("keys", [[], ["log.retention.ms", "no.such", "my.plugin", "trimaran"]])
def test_only_requested_configs_are_described(peers, keys):
    theirs, ours = (
        sorted(
            config.name
            for config in describe(peer, BROKER, "1", 4, keys).configs
            if not config.name.startswith("trimaran.")
        )
        for peer in peers
    )
    assert ours == theirs


def test_creation_response_has_configs_of_kafka(peers):
    theirs, ours = (sorted(create(peer, "created")) for peer in peers)
    assert ours == theirs


def test_config_table_is_that_of_kafka(kafka):
    with BlockingClient(kafka.bootstrap) as client:
        topic = CreatableTopic(
            name="table", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        client.call(None, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        found = []
        for kind, name in (
            (BROKER, str(kafka.brokers[0].id)),
            (TOPIC, "table"),
            (GROUP, "g"),
            (METRICS, "m"),
        ):
            resource = DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
            request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
            node = kafka.brokers[0].id if kind == BROKER else None
            answer = eventually("configs", lambda: client.call(node, request).results[0].configs)  # noqa: B023
            found += rows(kind, answer)
    if datadriven.REWRITE:
        TABLE.write_text("\n".join(found) + "\n")
    assert table() == found


def try_alteration(peer, kind, name, key, value):
    return alter(peer, kind, name, key, value, validate_only=True)


# Values for which our table of keys might differ from Kafka's.
VALUES = [
    *("-5", "-2", "-1", "0", "1", "7", "30000", "100000", "2147483648", "9223372036854775808"),
    *("x", "", " 7 ", "1.5", ".5", "NaN", "TRUE", "yes", "a,b", "a,,b", "delete,delete", "*"),
    *(
        "1_0",
        "0x10",
        "+7",
        "1:2",
        "gzip",
        "GZIP",
        "none",
        "CreateTime",
        "earliest",
        "by_duration:PT1H",
    ),
]


# Kafka refuses an empty element of a list; we omit it.
LISTS_WITHOUT_EMPTY_PARTS = {("metrics", "a,,b")}
# A broker-level alteration while eligible leader replicas are enabled: both refuse all values, with different codes.
# Kafka parses Kerberos rules only if a listener uses them; we refuse wrong rules.
ELSEWHERE = {"min.insync.replicas", "sasl.kerberos.principal.to.local.rules"}
# Values for all brokers below log.local.retention.ms, which Kafka ignores if the broker that it asks has its own value.
OVERRIDDEN = {("log.retention.ms", value) for value in ("0", "1", "7", "+7", " 7 ")}


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "none"), (GROUP, "none"), (METRICS, "none")])
def test_same_values_are_accepted_by_both(peers, kind, name):
    found = {}
    for key in keys_of(kind):
        for value in VALUES:
            theirs, ours = (try_alteration(peer, kind, name, key, value)[0] for peer in peers)
            if theirs != ours and (key, value) not in LISTS_WITHOUT_EMPTY_PARTS:
                found[key, value] = (theirs, ours)
    assert found == {}


@pytest.mark.parametrize("name", ["1", ""])
def test_broker_values_that_kafka_accepts_are_accepted(peers, name):
    """Kafka refuses more values, because it must start threads and load classes immediately."""
    found = {}
    for key in set(keys_of(BROKER)) - ONLY_READ - ELSEWHERE:
        for value in VALUES:
            theirs, ours = (try_alteration(peer, BROKER, name, key, value)[0] for peer in peers)
            if ours and theirs != ours and (key, value) not in OVERRIDDEN:
                found[key, value] = (theirs, ours)
    assert found == {}


def keys_of(kind):
    return [line.split(" | ")[1] for line in table() if line.startswith(f"{WORDS[kind]} | ")]
