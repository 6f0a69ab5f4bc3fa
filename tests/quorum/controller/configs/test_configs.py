"""IncrementalAlterConfigs as a decision; producer ids, controllers, activation."""

import pytest

from tests.quorum.config_of import config_of
from tests.quorum.metadata.build import broker, config, features, image_of, partition, topic, uid
from trimaran.broker.telemetry.subscriptions import subscription_of
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.configs.configs import alter_configs, replace_configs
from trimaran.quorum.controller.handlers.allocate_producer_ids import next_block
from trimaran.quorum.controller.nodes.controllers import register_controller
from trimaran.quorum.controller.tasks.activation import activation_records
from trimaran.quorum.metadata.features import bootstrap_records
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages import alter_configs as alter_messages
from trimaran.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from trimaran.wire.messages.controller_registration import ControllerRegistrationRequest, Listener
from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from trimaran.wire.records.brokers import RegisterControllerRecord
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.producer_ids import ProducerIdsRecord
from trimaran.wire.records.topics import ClearElrRecord
from trimaran.wire.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
IMAGE = image_of(
    features(), broker(1), topic("t", 1), partition(1, 0, [1]), config("retention.ms", "5")
)


def resource(kind, name, *configs):
    listed = [AlterableConfig(name=n, config_operation=op, value=v) for n, op, v in configs]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=listed)


def alter(*resources, image=IMAGE, validate_only=False):
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    result = at_once(alter_configs(request, image))
    return result.records, [
        ErrorCode(response.error_code) for response in result.response.responses
    ]


def test_configs_are_set_and_deleted():
    asked = resource(TOPIC, "t", ("segment.ms", SET, "7"), ("retention.ms", DELETE, None))
    assert alter(asked) == (
        [config("segment.ms", "7"), config("retention.ms", None)],
        [ErrorCode.NONE],
    )
    assert alter(asked, validate_only=True) == ([], [ErrorCode.NONE])


def test_unchanged_topic_config_is_not_written_again():
    assert alter(resource(TOPIC, "t", ("retention.ms", SET, "5"))) == ([], [ErrorCode.NONE])


def test_unchanged_broker_config_is_written_again():
    """KAFKA-14136: it makes brokers read their files again."""
    image = image_of(config("min.insync.replicas", "2", (BROKER, "")), base=IMAGE)
    records, _ = alter(resource(BROKER, "", ("min.insync.replicas", SET, "2")), image=image)
    assert len(records) == 1


@pytest.mark.parametrize(
    ("operation", "after"),
    [(APPEND, "0:1,1:1,2:1,9:1"), (SUBTRACT, "0:1,2:1")],
)
def test_list_is_split_once_and_duplicates_counted_once(operation, after):
    """B2. A topic's list may have thousands of elements, and a request hundreds of topics."""
    splits = []

    class Counted(str):
        __slots__ = ()

        def split(self, *args):
            splits.append(self)
            return super().split(*args)

    key = "leader.replication.throttled.replicas"
    image = image_of(config(key, "0:1,1:1,2:1"), base=IMAGE)
    asked = resource(TOPIC, "t", (key, operation, Counted("1:1,9:1,9:1")))
    assert alter(asked, image=image)[0] == [config(key, after)]
    assert len(splits) == 1


def test_append_and_subtract_begin_with_the_default():
    appended = resource(TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    records, _ = alter(appended)
    assert records == [config("cleanup.policy", "delete,compact")]
    image = image_of(*records, base=IMAGE)
    assert alter(appended, image=image)[0] == []
    subtracted = resource(TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))
    assert alter(subtracted, image=image)[0] == [config("cleanup.policy", "compact")]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (resource(TOPIC, "t", ("no.such.key", SET, "1")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", ("retention.ms", SET, "later")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", ("retention.ms", SET, "-2")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", ("retention.ms", APPEND, "1")), ErrorCode.INVALID_CONFIG),
        (
            resource(TOPIC, "t", ("cleanup.policy", SET, "delete\ncompact")),
            ErrorCode.INVALID_CONFIG,
        ),
        (resource(TOPIC, "t", ("retention.ms", SET, "1" * 40_000)), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", ("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "t", ("retention.ms", 9, "1")), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "t", ("a", SET, "1"), ("a", SET, "2")), ErrorCode.INVALID_REQUEST),
        (
            resource(
                TOPIC, "t", ("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "8")
            ),
            ErrorCode.INVALID_CONFIG,
        ),
        (resource(TOPIC, "u", ("retention.ms", SET, "1")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (resource(TOPIC, "", ("retention.ms", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "a b", ("retention.ms", SET, "1")), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (resource(BROKER, "x", ("min.insync.replicas", SET, "1")), ErrorCode.INVALID_REQUEST),
        (
            resource(BROKER, "9", ("min.insync.replicas", SET, "1")),
            ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
        (resource(BROKER, "1", ("node.id", SET, "7")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "1", ("no.such.key", APPEND, "7")), ErrorCode.INVALID_CONFIG),
        (resource(BROKER, "", ("min.insync.replicas", SET, "0")), ErrorCode.INVALID_REQUEST),
        (resource(77, "t"), ErrorCode.UNSUPPORTED_VERSION),
        (resource(LOGGER, "1", ("root", SET, "INFO")), ErrorCode.UNSUPPORTED_VERSION),
        (resource(TOPIC, "t", ("remote.storage.enable", SET, "true")), ErrorCode.INVALID_CONFIG),
        (resource(METRICS, "", ("interval.ms", SET, "1000")), ErrorCode.INVALID_REQUEST),
        (resource(METRICS, "m", ("interval.ms", SET, "99")), ErrorCode.INVALID_REQUEST),
        (resource(METRICS, "m", ("no.such.key", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(METRICS, "m", ("match", SET, "client_id=[")), ErrorCode.INVALID_CONFIG),
        (resource(METRICS, "m", ("match", SET, "shoe_size=1")), ErrorCode.INVALID_CONFIG),
        (resource(METRICS, "m", ("metrics", APPEND, "a")), ErrorCode.INVALID_CONFIG),
        (resource(METRICS, "m", ("metrics", SET, "a,,b")), ErrorCode.INVALID_CONFIG),
        (resource(METRICS, "m", ("match", SET, "client_id=a,")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", ("cleanup.policy", SET, ",")), ErrorCode.INVALID_CONFIG),
        (resource(BROKER, "", ("log.cleanup.policy", SET, ",")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "", ("max.connections.per.ip", SET, "0")), ErrorCode.INVALID_REQUEST),
        (resource(GROUP, "", ("share.auto.offset.reset", SET, "x")), ErrorCode.INVALID_REQUEST),
        (resource(GROUP, "g", ("no.such.key", SET, "x")), ErrorCode.INVALID_CONFIG),
        (
            resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "1000")),
            ErrorCode.INVALID_CONFIG,
        ),
        (resource(GROUP, "g", ("share.auto.offset.reset", SET, "now")), ErrorCode.INVALID_CONFIG),
        (
            resource(GROUP, "g", ("share.auto.offset.reset", SET, "by_duration:P")),
            ErrorCode.INVALID_CONFIG,
        ),
        (resource(BROKER, "-1", ("min.insync.replicas", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "1", ("ssl.keystore.location", SET, "/x")), ErrorCode.INVALID_REQUEST),
        (
            resource(BROKER, "", ("listener.name.a.ssl.keystore.location", SET, "/x")),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_unalterable_configs_are_refused(asked, code):
    assert alter(asked) == ([], [code])


@pytest.mark.parametrize("name", ["my.reporter.interval.ms", "cleanup.policy", "super.users"])
def test_a_broker_keeps_a_config_that_nothing_declares(name):
    """Kafka stores it for plug-ins."""
    for of in ("1", ""):
        records, codes = alter(resource(BROKER, of, (name, SET, "5")))
        assert (records, codes) == ([config(name, "5", (BROKER, of))], [ErrorCode.NONE])


def test_undeclared_listener_config_needs_one_broker():
    asked = ("listener.name.a.my.own", SET, "5")
    assert alter(resource(BROKER, "1", asked))[1] == [ErrorCode.NONE]
    assert alter(resource(BROKER, "", asked)) == ([], [ErrorCode.INVALID_REQUEST])


def test_group_configs_obey_bounds_of_node():
    request = IncrementalAlterConfigsRequest(
        resources=[resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "100000"))],
        validate_only=False,
    )
    for most, code in (("3600000", ErrorCode.NONE), ("90000", ErrorCode.INVALID_CONFIG)):
        server = config_of(group_consumer_max_session_timeout_ms=most)
        result = at_once(alter_configs(request, IMAGE, server=server))
        assert [response.error_code for response in result.response.responses] == [code]


def test_broker_values_must_fit_defaults_and_file():
    """The most specific values are compared: `num.io.threads` may be halved or doubled."""
    pool = "num.io.threads"
    image = image_of(config(pool, "40", (BROKER, "")), config(pool, "4", (BROKER, "1")), base=IMAGE)
    of_one, of_all = resource(BROKER, "1", (pool, SET, "9")), resource(BROKER, "", (pool, SET, "9"))
    assert alter(of_one, image=image)[1] == [ErrorCode.INVALID_REQUEST]
    assert alter(of_all, image=image)[1] == [ErrorCode.INVALID_REQUEST]
    assert alter(of_one, of_all)[1] == [ErrorCode.NONE] * 2
    without_own = image_of(config(pool, "40", (BROKER, "")), base=IMAGE)
    assert alter(of_one, image=without_own)[1] == [ErrorCode.INVALID_REQUEST]
    request = IncrementalAlterConfigsRequest(resources=[of_all], validate_only=False)
    result = at_once(alter_configs(request, IMAGE, server=config_of(num_io_threads="4")))
    [answer] = result.response.responses
    assert answer.error_message == (
        "Dynamic thread count update validation failed for num.io.threads=9, "
        "value should not be greater than double the current value 4"
    )


def test_deleted_broker_values_are_checked_against_rest():
    """Without overrides no address could connect. A deleted retention no longer bounds its local part."""
    per_ip, overrides = "max.connections.per.ip", "max.connections.per.ip.overrides"
    no_overrides = resource(BROKER, "1", (overrides, DELETE, None))
    both = resource(BROKER, "1", (per_ip, DELETE, None), (overrides, DELETE, None))
    closed = image_of(config(per_ip, "0", (BROKER, "1")), base=IMAGE)
    closed = image_of(config(overrides, "h:5", (BROKER, "1")), base=closed)
    assert alter(no_overrides, image=closed) == ([], [ErrorCode.INVALID_REQUEST])
    assert alter(both, image=closed)[1] == [ErrorCode.NONE]
    of_all = image_of(config(overrides, "h:5", (BROKER, "")), base=closed)
    assert alter(no_overrides, image=of_all)[1] == [ErrorCode.NONE]
    no_overrides_of_all = resource(BROKER, "", (overrides, DELETE, None))
    closed_for_all = image_of(config(per_ip, "0", (BROKER, "")), base=of_all)
    assert alter(no_overrides_of_all, image=closed_for_all)[1] == [ErrorCode.INVALID_REQUEST]

    short = image_of(config("log.retention.ms", "1000", (BROKER, "1")), base=IMAGE)
    local = ("log.local.retention.ms", SET, "5000")
    assert alter(resource(BROKER, "1", local), image=short)[1] == [ErrorCode.INVALID_REQUEST]
    default = resource(BROKER, "1", ("log.retention.ms", DELETE, None), local)
    assert alter(default, image=short)[1] == [ErrorCode.NONE]


def test_list_with_gaps_from_old_controller_is_alterable():
    """The old controller accepted gaps in lists. A new value has none."""
    stored = image_of(config("cordoned.log.dirs", "/a,,/b", (BROKER, "1")), base=IMAGE)
    fewer = resource(BROKER, "1", ("cordoned.log.dirs", SET, "/a"))
    assert alter(fewer, image=stored)[1] == [ErrorCode.NONE]
    with_gap = resource(BROKER, "1", ("cordoned.log.dirs", SET, "/a,,/b"))
    assert (
        answer_message(with_gap, image=stored)
        == "Configuration 'cordoned.log.dirs' values must not be empty."
    )


def test_subscription_with_gaps_is_still_read():
    """The old controller accepted gaps in lists."""
    stored = image_of(config("metrics", "a,,b", (METRICS, "m")), base=IMAGE)
    found = subscription_of(stored.configs.of(METRICS, "m"))
    assert found.metrics == {"a", "b"}


def test_resource_is_altered_completely_or_not_at_all():
    good, bad = ("segment.ms", SET, "7"), ("retention.ms", SET, "x")
    assert alter(resource(TOPIC, "t", good, bad))[0] == []
    records, codes = alter(
        resource(TOPIC, "t", bad), resource(BROKER, "", ("min.insync.replicas", SET, "1"))
    )
    assert codes == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    assert len(records) == 1


def test_a_resource_named_twice_is_not_changed():
    one = resource(TOPIC, "t", ("segment.ms", SET, "7"))
    assert alter(one, one) == ([], [ErrorCode.INVALID_REQUEST])


def test_unknown_configs_of_older_version_can_be_deleted():
    image = image_of(config("gone.since", "1", (BROKER, "1")), base=IMAGE)
    records, codes = alter(resource(BROKER, "1", ("gone.since", DELETE, None)), image=image)
    assert (len(records), codes) == (1, [ErrorCode.NONE])


def test_excessive_request_fails_as_a_whole():
    image = image_of(*(broker(i) for i in range(1, 7)), base=IMAGE)
    many = [
        resource(BROKER, str(i), *((f"k{k}", DELETE, None) for k in range(2_000)))
        for i in range(1, 6)
    ]
    one = resource(BROKER, "6", ("k", DELETE, None))
    assert len(alter(*many, image=image)[0]) == 10_000
    with pytest.raises(KafkaError) as caught:
        alter(*many, one, image=image)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    eligible = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
    minimum = resource(BROKER, "", ("min.insync.replicas", SET, "2"))
    image = image_of(eligible, base=image)
    many[0].configs.pop()
    with pytest.raises(KafkaError):  # one more record, which clears the ELR
        alter(*many, minimum, image=image)


def test_request_with_too_much_text_is_refused():
    """B2. A list of 32,767 bytes takes a millisecond to check."""
    key, value = "leader.replication.throttled.replicas", "0:1," * 8_000
    several = [resource(TOPIC, str(i), (key, SET, value)) for i in range(300)]
    with pytest.raises(KafkaError) as caught:
        alter(*several)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_longer_texts_take_more_steps_of_decision():
    key, value = "leader.replication.throttled.replicas", ",".join(["0:1"] * 8_000)
    request = IncrementalAlterConfigsRequest(
        resources=[resource(TOPIC, "t", (key, SET, value))], validate_only=False
    )
    assert 300 <= sum(alter_configs(request, IMAGE)) <= 400


def test_request_has_bounded_configs_per_resource():
    many = resource(BROKER, "", *((f"k{i}", DELETE, None) for i in range(2_001)))
    assert alter(many) == ([], [ErrorCode.POLICY_VIOLATION])
    assert "2001 configs of one resource" in answer_message(many)


def test_undeclared_configs_of_a_broker_are_bounded():
    """Each check of a broker's configs iterates over its undeclared configs too."""
    stored = image_of(*(config(f"k{i}", "1", (BROKER, "")) for i in range(999)), base=IMAGE)
    one, two = ("x", SET, "1"), ("y", SET, "1")
    declared = ("log.retention.ms", SET, "5")
    assert alter(resource(BROKER, "", one, declared), image=stored)[1] == [ErrorCode.NONE]
    assert alter(resource(BROKER, "", one, two), image=stored)[1] == [ErrorCode.POLICY_VIOLATION]
    assert alter(resource(BROKER, "1", one, two), image=stored)[1] == [ErrorCode.NONE]
    more = image_of(*(config(f"m{i}", "1", (BROKER, "")) for i in range(9)), base=stored)
    again = resource(BROKER, "", ("k0", SET, "2"), ("m0", DELETE, None), declared)
    assert alter(again, image=more)[1] == [ErrorCode.NONE], (
        "what an older version took can be altered"
    )


def answer_message(*asked, image=IMAGE):
    """Returns the error message of the response."""
    request = IncrementalAlterConfigsRequest(resources=list(asked), validate_only=False)
    return at_once(alter_configs(request, image)).response.responses[0].error_message


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            resource(TOPIC, "t", ("retention.ms", SET, "later")),
            "Invalid value later for configuration retention.ms: Not a number of type LONG",
        ),
        (
            resource(TOPIC, "t", ("retention.ms", SET, "-2")),
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            resource(TOPIC, "t", ("cleanup.policy", SET, "delete,shred")),
            "Invalid value shred for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            resource(TOPIC, "t", ("min.cleanable.dirty.ratio", SET, "2")),
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            resource(BROKER, "1", ("log.retention.ms", APPEND, "1")),
            "Config value append is not allowed for config key: log.retention.ms",
        ),
        (resource(TOPIC, "t", ("foo", SET, "1")), "Unknown topic config name: foo"),
        *(
            (
                resource(BROKER, name, ("log.retention.ms", SET, "1")),
                "Write the id of the broker as 1.",
            )
            for name in ("01", "+1", " 1", "\u0661")
        ),
        (
            resource(TOPIC, "t", ("cordoned.log.dirs", SET, "/a")),  # a broker's config
            "Unknown topic config name: cordoned.log.dirs",
        ),
        (
            resource(TOPIC, "t", ("retention.ms", APPEND, "1")),
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (resource(TOPIC, "u", ("retention.ms", SET, "1")), "The topic 'u' does not exist."),
        (
            resource(TOPIC, "t", ("retention.ms", SET, "1" * 32_768)),
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        ),
        (
            resource(TOPIC, "t", ("retention.ms", SET, "é" * 16_384)),
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        ),
        (
            resource(BROKER, "1", ("node.id", SET, "7")),
            "Cannot update these configs dynamically: [node.id]",
        ),
        (resource(BROKER, "9", ("min.insync.replicas", SET, "1")), "No node with id 9 found."),
        (
            resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "1000")),
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
    ],
)
def test_error_messages_equal_those_of_kafka(asked, message):
    assert answer_message(asked) == message


def test_every_registered_node_has_configs():
    """Brokers, from id 0 on, and controllers."""
    controller = RegisterControllerRecord(
        controller_id=7,
        incarnation_id=uid(7),
        zk_migration_ready=False,
        end_points=[],
        features=[],
    )
    image = image_of(broker(0), controller, base=IMAGE)
    nodes = [resource(BROKER, name, ("num.io.threads", SET, "4")) for name in ("", "0", "1", "7")]
    assert alter(*nodes, image=image)[1] == [ErrorCode.NONE] * 4


def test_broker_list_grows_and_shrinks():
    image = image_of(config("cordoned.log.dirs", "/a", (BROKER, "1")), base=IMAGE)
    for operation, value, after in ((APPEND, "/b", "/a,/b"), (SUBTRACT, "/a", "")):
        asked = resource(BROKER, "1", ("cordoned.log.dirs", operation, value))
        request = IncrementalAlterConfigsRequest(resources=[asked], validate_only=False)
        records = at_once(alter_configs(request, image, forwarded=True)).records
        assert records == [config("cordoned.log.dirs", after, (BROKER, "1"))]


def test_longest_value_fits_a_record():
    metrics = resource(METRICS, "m", ("metrics", SET, "a" * 32_767))
    assert alter(metrics)[1] == [ErrorCode.NONE]


def test_groups_and_subscriptions_have_configs():
    group = resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    metrics = resource(METRICS, "m", ("metrics", SET, "a"), ("match", SET, "client_id=x.*"))
    records, codes = alter(group, metrics)
    assert codes == [ErrorCode.NONE, ErrorCode.NONE]
    assert records == [
        config("consumer.session.timeout.ms", "50000", (GROUP, "g")),
        config("metrics", "a", (METRICS, "m")),
        config("match", "client_id=x.*", (METRICS, "m")),
    ]


def test_configs_only_kafka_applies_are_kept():
    asked = resource(
        BROKER,
        "1",
        ("num.io.threads", SET, "4"),
        ("listener.name.external.ssl.keystore.password", SET, "secret"),
    )
    records, codes = alter(asked)
    assert (len(records), codes) == (2, [ErrorCode.NONE])


def test_kerberos_may_be_set_for_one_broker():
    """Kafka also accepts the key (`DynamicListenerConfig`). It has no effect here, but librdkafka's tests set it."""
    of_one = resource(BROKER, "1", ("sasl.kerberos.min.time.before.relogin", SET, "58000"))
    records, codes = alter(of_one)
    assert (len(records), codes) == (1, [ErrorCode.NONE])
    of_all = resource(BROKER, "", ("sasl.kerberos.min.time.before.relogin", SET, "58000"))
    assert "broker id must be specified" in answer_message(of_all)


def test_eligible_leaders_make_min_insync_cluster_wide():
    """KIP-966: with ELR, no broker may have its own value, the cluster must have one, and a change clears the ELR."""
    level = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
    image = image_of(level, base=IMAGE)
    topic_change = resource(TOPIC, "t", ("min.insync.replicas", SET, "2"))
    cluster_change = resource(BROKER, "", ("min.insync.replicas", SET, "2"))
    records, _ = alter(topic_change, cluster_change, image=image)
    assert [r.topic_name for r in records if isinstance(r, ClearElrRecord)] == ["t", ""]
    others = (
        resource(TOPIC, "t", ("segment.ms", SET, "7")),
        resource(BROKER, "1", ("log.retention.ms", SET, "7")),
    )
    records, codes = alter(*others, image=image)
    assert ([type(r) for r in records], codes) == ([ConfigRecord] * 2, [ErrorCode.NONE] * 2)
    assert (
        answer_message(resource(BROKER, "1", ("min.insync.replicas", SET, "2")), image=image)
        == "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
    )
    assert (
        answer_message(resource(BROKER, "", ("min.insync.replicas", DELETE, None)), image=image)
        == "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    )


@pytest.mark.parametrize(
    ("value", "forwarded", "code"),
    [
        ("/a", False, ErrorCode.NONE),
        (" /b , /a", False, ErrorCode.NONE),
        ("", False, ErrorCode.NONE),
        ("/c", False, ErrorCode.INVALID_CONFIG),
        ("*", False, ErrorCode.INVALID_CONFIG),
        ("/c", True, ErrorCode.NONE),
    ],
)
def test_controller_itself_accepts_only_removal_of_cordons(value, forwarded, code):
    """KIP-1066: the controller does not know the paths of directories; the broker that forwards does."""
    image = image_of(config("cordoned.log.dirs", "/a, /b", (BROKER, "1")), base=IMAGE)
    asked = resource(BROKER, "1", ("cordoned.log.dirs", SET, value))
    request = IncrementalAlterConfigsRequest(resources=[asked], validate_only=False)
    response = at_once(alter_configs(request, image, forwarded=forwarded)).response
    assert ErrorCode(response.responses[0].error_code) is code


def test_cordons_wait_for_their_metadata_version():
    image = image_of(features(29), base=IMAGE)
    asked = resource(BROKER, "1", ("cordoned.log.dirs", DELETE, None))
    assert answer_message(asked, image=image) == (
        "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
    )


def test_cordons_apply_to_one_broker():
    asked = resource(BROKER, "", ("cordoned.log.dirs", SET, ""))
    assert alter(asked) == ([], [ErrorCode.INVALID_REQUEST])


def replaced(kind, name, *configs, image=IMAGE, validate_only=False):
    listed = [alter_messages.AlterableConfig(name=n, value=v) for n, v in configs]
    request = alter_messages.AlterConfigsRequest(
        resources=[
            alter_messages.AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=listed
            )
        ],
        validate_only=validate_only,
    )
    result = at_once(replace_configs(request, image))
    return result.records, ErrorCode(result.response.responses[0].error_code)


def test_alter_configs_deletes_what_it_omits():
    assert replaced(TOPIC, "t", ("segment.ms", "7")) == (
        [config("segment.ms", "7"), config("retention.ms", None)],
        ErrorCode.NONE,
    )
    assert replaced(TOPIC, "t", ("segment.ms", "7"), validate_only=True)[0] == []
    assert replaced(TOPIC, "t", ("segment.ms", None)) == ([], ErrorCode.INVALID_REQUEST)
    listed = [alter_messages.AlterableConfig(name="segment.ms", value="x")]
    asked = alter_messages.AlterConfigsResource(
        resource_type=TOPIC, resource_name="t", configs=listed
    )
    request = alter_messages.AlterConfigsRequest(resources=[asked], validate_only=False)
    (answer,) = at_once(replace_configs(request, IMAGE)).response.responses
    assert answer.error_message.startswith("Invalid value x for configuration segment.ms")
    assert replaced(TOPIC, "t", ("a", "1"), ("a", "2")) == ([], ErrorCode.INVALID_REQUEST)


# --- producer ids


def allocate(image, epoch=101):
    return next_block(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch), image)


def test_every_producer_id_block_is_allocated_once():
    first = allocate(IMAGE)
    second = allocate(image_of(*first.records, base=IMAGE))
    assert [
        (r.response.producer_id_start, r.response.producer_id_len) for r in (first, second)
    ] == [(0, 1000), (1000, 1000)]
    assert second.records == [
        ProducerIdsRecord(broker_id=1, broker_epoch=101, next_producer_id=2000)
    ]


def test_blocks_go_only_to_registered_incarnations():
    with pytest.raises(KafkaError) as caught:
        allocate(IMAGE, epoch=7)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_last_block_ends_at_largest_id():
    """Ids are signed 64-bit numbers."""
    last = (1 << 63) - 1 - 1000
    for begins, are_left in ((last, True), (last + 1, False)):
        image = image_of(ProducerIdsRecord(broker_id=1, next_producer_id=begins), base=IMAGE)
        if are_left:
            assert allocate(image).response.producer_id_start == begins
        else:
            with pytest.raises(KafkaError) as caught:
                allocate(image)
            assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


# --- controllers, activation


def test_a_controller_needs_names_for_its_listeners():
    listener = Listener(name="C", host="h", port=1, security_protocol=0)
    request = ControllerRegistrationRequest(
        controller_id=1,
        incarnation_id=uid(1),
        zk_migration_ready=True,
        listeners=[listener],
        features=[],
    )
    image = image_of(features())
    (record,) = register_controller(request, image).records
    assert (record.controller_id, record.zk_migration_ready, record.end_points[0].host) == (
        1,
        False,
        "h",
    )
    assert register_controller(request.replace(controller_id=0), image).records
    assert register_controller(request, image_of(features(15))).records
    with pytest.raises(KafkaError):
        register_controller(request.replace(listeners=[listener, listener]), image)
    with pytest.raises(KafkaError):
        register_controller(request.replace(controller_id=-1), image)
    with pytest.raises(KafkaError):
        register_controller(request.replace(listeners=[listener.replace(name="")]), image)
    known = image_of(record, base=image)
    assert register_controller(request, known).records == []
    assert register_controller(request.replace(incarnation_id=uid(2)), known).records
    with pytest.raises(KafkaError) as caught:
        register_controller(request, image_of(features(14)))
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_empty_log_gets_bootstrap_records_in_one_transaction():
    records = activation_records(image_of(), bootstrap_records(), in_transaction=False)
    assert [type(r) for r in (records[0], records[-1])] == [
        BeginTransactionRecord,
        EndTransactionRecord,
    ]
    assert image_of(*records).features.metadata_version == 33


def test_log_with_metadata_gets_no_bootstrap_records():
    assert activation_records(IMAGE, bootstrap_records(), in_transaction=False) == []


def test_open_transaction_of_predecessor_is_aborted():
    (record,) = activation_records(IMAGE, bootstrap_records(), in_transaction=True)
    assert isinstance(record, AbortTransactionRecord)


def test_unserved_features_stay_off_in_empty_log():
    formatted_by_kafka = [
        *bootstrap_records(),
        FeatureLevelRecord(name="nova.version", feature_level=1),
    ]
    records = activation_records(image_of(), formatted_by_kafka, in_transaction=False)
    assert [r for r in records if isinstance(r, FeatureLevelRecord)] == bootstrap_records()
