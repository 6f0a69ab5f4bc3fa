"""The ready plans act upon real clients and a real broker, and correct clients do what each plan says."""

import itertools

import pytest

from tests.trimaran.faults import plan_clients
from tests.trimaran.faults.plan_clients import CLASSIC, RECORDS
from trimaran.faults.ready_plans import plan_keys, plan_names, ready_plan
from trimaran.testing import EmbeddedKafka

pytestmark = pytest.mark.slow(seconds=60)
NUMBERS = itertools.count(1)
# The plan, and settings of the producer.
PRODUCED = {
    "leader-moves": {},
    "not-enough-replicas": {},
    "not-enough-replicas-after-append": {},
    "disk-full": {},
    "produce-answer-lost": {},
    "produce-duplicated": {},
    "duplicate-sequence": {},
    "producer-id-forgotten": {},
    "produce-corrupted": {},
    "no-leader": {},
    "topic-not-known-yet": {},
    "stale-metadata": {},
    "unreachable-address": {},
    "rebootstrap-required": {},
    "older-broker": {},
    "rolling-restart": {},
    "idle-connection-closed": {},
    "half-open-connection": {"socket_timeout_ms": 1000},
    "one-way-partition": {"socket_timeout_ms": 1000},
    "slow-broker": {},
    "throttled": {},
    "response-truncated": {},
    "certificate-rejected": {},
}
# The plan, settings of the consumer, and values of the plan.
READ = {
    "fetch-corrupted": ({}, {}),
    "offset-out-of-range": ({}, {}),
    "leader-epoch-fenced": ({}, {}),
    "leader-epoch-unknown": ({}, {}),
    "topic-recreated": ({}, {}),
    "end-offset-not-known": ({}, {}),
    "coordinator-moves": ({}, {}),
    "coordinator-loading": ({}, {}),
    "coordinator-not-available": ({}, {}),
    "commit-answered-late": ({"socket.timeout.ms": 1000}, {"delay": 3}),
    "commit-answer-lost": ({}, {}),
    "commit-during-rebalance": ({}, {}),
    "generation-expired": ({}, {}),
    "member-expired": ({}, {}),
    "rebalance-storm": ({}, {}),
    "offsets-unstable": ({}, {}),
    "rolling-restart": ({}, {}),
}
FENCED = {
    "group-full": ({}, "group"),
    "instance-fenced": ({"group.instance.id": "one"}, "group.instance.id"),
}
# Plans with a test of their own.
ALONE = {
    "credentials-expired",
    "fetch-session-lost",
    "member-epoch-fenced",
    "message-too-large",
    "out-of-order-sequence",
    "producer-fenced",
}
SASL = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="admin" password="secret" user_admin="secret";'
    ),
}


@pytest.fixture(scope="module")
def node():
    settings = {
        "group.consumer.min.heartbeat.interval.ms": "200",
        "group.consumer.heartbeat.interval.ms": "200",
    }
    with EmbeddedKafka(settings) as running:
        yield running


@pytest.fixture
def kafka(node):
    yield node
    node.faults.clear()


def add_plan(kafka, name, topic, **values):
    """Adds a plan for one topic, if its rules name topics, and for the group or transactional id of that topic."""
    own = {"topic": topic, "group": f"group-{topic}", "transactional_id": f"id-{topic}"} | values
    keys = plan_keys(ready_plan(name))
    return kafka.faults.add_plan(name, **{key: own[key] for key in keys if key in own})


def new_topic(kafka, name, values=()):
    topic = kafka.create_topic(f"{name}-{next(NUMBERS)}")
    if values:
        plan_clients.fill(kafka, topic, values)
    return topic


@pytest.mark.parametrize("name", PRODUCED)
def test_idempotent_producer_writes_each_record_once(kafka, name):
    topic = new_topic(kafka, name)
    rules = add_plan(kafka, name, topic)
    errors = plan_clients.produce(kafka, topic, enable_idempotence=True, **PRODUCED[name])
    assert errors == []
    assert any(rule.applied for rule in rules), kafka.faults.trace
    assert plan_clients.log_of(kafka, topic) == RECORDS


def test_producer_reports_a_record_too_large(kafka):
    topic = new_topic(kafka, "message-too-large")
    add_plan(kafka, "message-too-large", topic)
    assert plan_clients.produce(kafka, topic) == ["MSG_SIZE_TOO_LARGE"] * 3
    assert plan_clients.log_of(kafka, topic) == []


def test_producer_ends_with_a_gap_of_sequences(kafka):
    topic = new_topic(kafka, "out-of-order-sequence")
    add_plan(kafka, "out-of-order-sequence", topic)
    assert plan_clients.fatal_error(kafka, topic) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert plan_clients.log_of(kafka, topic) == []


@pytest.mark.parametrize("name", ["not-enough-replicas-after-append", "produce-answer-lost"])
def test_producer_without_idempotence_writes_twice(kafka, name):
    topic = new_topic(kafka, name)
    add_plan(kafka, name, topic)
    assert plan_clients.produce(kafka, topic) == []
    assert plan_clients.log_of(kafka, topic) == ["0", *RECORDS]


@pytest.mark.parametrize("name", READ)
def test_consumer_reads_each_record_and_commits(kafka, name):
    settings, values = READ[name]
    topic = new_topic(kafka, name, RECORDS)
    rules = add_plan(kafka, name, topic, **values)
    read = plan_clients.read(kafka, topic, rules, CLASSIC | settings)
    assert read == [*RECORDS, "last"]


def test_consumer_of_consumer_protocol_joins_again(kafka):
    topic = new_topic(kafka, "member-epoch-fenced", RECORDS)
    rules = add_plan(kafka, "member-epoch-fenced", topic)
    read = plan_clients.read(kafka, topic, rules, {"group.protocol": "consumer"})
    assert read == [*RECORDS, "last"]


@pytest.mark.parametrize("name", FENCED)
def test_consumer_reports_that_it_is_fenced(kafka, name):
    settings, text = FENCED[name]
    topic = new_topic(kafka, name, RECORDS)
    add_plan(kafka, name, topic)
    error, read = plan_clients.first_error(kafka, topic, CLASSIC | settings)
    assert text in error
    assert read == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_consumer_begins_a_new_fetch_session(kafka):
    topic = new_topic(kafka, "fetch-session-lost", RECORDS)
    rules = add_plan(kafka, "fetch-session-lost", topic)
    assert plan_clients.read_in_sessions(kafka, topic, rules) == [*RECORDS, "last"]


@pytest.mark.parametrize(
    "name",
    [
        "transaction-still-ending",
        "transaction-coordinator-moves",
        "transaction-commit-unknown",
        "transaction-abortable",
    ],
)
def test_transaction_is_visible_once(kafka, name):
    topic = new_topic(kafka, name)
    rules = add_plan(kafka, name, topic)
    assert plan_clients.transact(kafka, topic) == ""
    assert any(rule.applied for rule in rules)
    assert plan_clients.log_of(kafka, topic) == RECORDS


def test_fenced_transaction_stays_invisible(kafka):
    topic = new_topic(kafka, "producer-fenced")
    add_plan(kafka, "producer-fenced", topic)
    assert plan_clients.transact(kafka, topic) == "_FENCED"
    assert plan_clients.log_of(kafka, topic) == []


@pytest.mark.parametrize("name", ["controller-moves", "creation-throttled"])
def test_topic_is_created_after_a_refusal(kafka, name):
    topic = f"{name}-{next(NUMBERS)}"
    (rule,) = add_plan(kafka, name, topic)
    assert plan_clients.create(kafka, topic) in ("", "NOT_CONTROLLER", "THROTTLING_QUOTA_EXCEEDED")
    assert rule.applied == 1
    assert plan_clients.log_of(kafka, topic) == []


def test_refused_login_works_when_credentials_are_valid():
    with EmbeddedKafka(SASL) as kafka:
        (rule,) = kafka.faults.add_plan("credentials-expired")
        assert plan_clients.log_in(kafka, "admin", "secret") == ["_AUTHENTICATION"]
        assert rule.applied == 1


def test_every_ready_plan_is_shown():
    marks = [
        mark.args[1]
        for name, function in globals().items()
        if name.startswith("test_")
        for mark in getattr(function, "pytestmark", ())
        if mark.name == "parametrize"
    ]
    shown = {name for names in marks for name in names} | ALONE
    assert shown == {*plan_names()}
