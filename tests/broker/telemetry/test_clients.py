"""The right to push, and the push intervals, as in Kafka's `ClientMetricsManager`."""

from types import SimpleNamespace

import pytest
from immutables import Map

from trimaran.broker.telemetry import clients
from trimaran.broker.telemetry.clients import ClientMetrics, subscription_id_of
from trimaran.broker.telemetry.received import ReceivedMetrics
from trimaran.broker.telemetry.subscriptions import Wanted
from trimaran.quorum.metadata.image import CLIENT_METRICS_RESOURCE, ConfigsImage
from trimaran.wire.buffers.primitives import NIL_UUID, uuid_from_text
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.requests.calls import Call, ConnectionInfo

ONE = uuid_from_text("q1XpcFCQQpKr0s4IXCpHbA")


class Clock:
    def __init__(self):
        self.ms = 5

    def __call__(self):
        return self.ms


def call(number=1):
    connection = ConnectionInfo(number, "L", ("10.0.0.7", 5), ("b", 9092))
    connection.client_software = ("librdkafka", "2.6")
    return Call(SimpleNamespace(client_id="shop"), connection)


def subscribe(metrics, **subscriptions):
    """Sets a subscription in the form of the metadata loader, with underscores for dots."""
    configs = {
        (CLIENT_METRICS_RESOURCE, name): Map({k.replace("_", "."): v for k, v in own.items()})
        for name, own in subscriptions.items()
    }
    image = SimpleNamespace(configs=ConfigsImage(Map(configs)))
    changed = dict.fromkeys(configs) or {(CLIENT_METRICS_RESOURCE, "gone"): None}
    metrics.publish(SimpleNamespace(configs=SimpleNamespace(changed=changed)), image, None)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def metrics(clock):
    made = ClientMetrics(ReceivedMetrics(clock), 100, clock)
    subscribe(made, all={"metrics": "*", "interval_ms": "1000"})
    return made


def push(metrics, client, on=None, **changed):
    options = {"terminating": False, "compression": 0, "size": 10}
    options["subscription_id"] = client.subscription_id
    return metrics.pushed(client.instance_id, on or call(), **(options | changed))


def check_refused(code, function, *args, **options):
    with pytest.raises(KafkaError) as caught:
        function(*args, **options)
    assert caught.value.code is code


def test_client_without_id_gets_one(metrics):
    one, other = (metrics.asked(NIL_UUID, call(number)) for number in (1, 2))
    assert NIL_UUID != one.instance_id != other.instance_id
    assert one.wanted == Wanted(("*",), 1000)
    assert metrics.asked(ONE, call(3)).instance_id == ONE


def test_early_request_or_push_is_throttled(metrics, clock):
    client = metrics.asked(ONE, call())
    check_refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, metrics.asked, ONE, call())
    push(metrics, client)  # the first push after the subscription request
    clock.ms += 999
    check_refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, push, metrics, client)
    check_refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, metrics.asked, ONE, call())
    clock.ms += 1
    push(metrics, client)
    assert metrics.counts.throttled == 3


def test_changed_subscription_is_returned_at_once(metrics, clock):
    client = metrics.asked(ONE, call())
    push(metrics, client)
    subscribe(metrics, all={"metrics": "org.", "interval_ms": "500"})
    check_refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, push, metrics, client)
    assert metrics.counts.unknown_subscriptions == 1
    again = metrics.asked(ONE, call())
    assert again.wanted == Wanted(("org.",), 500)
    assert again.subscription_id != client.subscription_id
    push(metrics, again)


def test_changed_subscription_may_be_requested_early(metrics):
    client = metrics.asked(ONE, call())
    check_refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, push, metrics, client, subscription_id=7)
    metrics.asked(ONE, call())


def test_another_broker_takes_push_matching_its_subscriptions(metrics, clock):
    elsewhere = ClientMetrics(ReceivedMetrics(clock), 100, clock)
    subscribe(elsewhere, all={"metrics": "*", "interval_ms": "1000"})
    taken = push(elsewhere, metrics.asked(ONE, call()))
    assert taken.last_error is ErrorCode.NONE


def test_invalid_push_is_refused(metrics, clock):
    client = metrics.asked(ONE, call())
    for code, changed in (
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, {"compression": 5}),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, {"compression": -1}),
        (ErrorCode.TELEMETRY_TOO_LARGE, {"size": 101}),
    ):
        check_refused(code, push, metrics, client, **changed)
        clock.ms += 1000
    push(metrics, client, size=100)
    nobody = SimpleNamespace(instance_id=NIL_UUID, subscription_id=0)
    check_refused(ErrorCode.INVALID_REQUEST, push, metrics, nobody)


def test_final_push_may_be_early(metrics, clock):
    client = metrics.asked(ONE, call())
    push(metrics, client)
    push(metrics, client, terminating=True)
    clock.ms += 5000
    check_refused(ErrorCode.INVALID_REQUEST, push, metrics, client)


def test_client_is_forgotten_on_disconnect_or_silence(metrics, clock):
    on = call()
    metrics.asked(ONE, on)
    on.connection.mark_closed()
    assert len(metrics) == 0
    metrics.asked(ONE, call(2))
    clock.ms += 60_001
    metrics.asked(NIL_UUID, call(3))
    assert len(metrics) == 1


def test_many_clients_share_callback_oldest_is_evicted(metrics, monkeypatch):
    monkeypatch.setattr(clients, "CLIENTS_MAX", 3)
    on = call()
    for _ in range(10):
        metrics.asked(NIL_UUID, on)
    assert len(metrics) == 3
    assert len(on.connection._callbacks) == 1


def test_client_labels_are_bounded_oldest_is_evicted(metrics, monkeypatch):
    monkeypatch.setattr(clients, "LABELS_BYTES_MAX", 100_000)
    on = call()
    on.header.client_id = "c" * 30_000
    told = [metrics.asked(NIL_UUID, on) for _ in range(10)]
    assert list(metrics._clients) == [client.instance_id for client in told[-3:]]
    subscribe(metrics, all={"metrics": "org."})  # each client has the same labels
    for item in told[-3:]:
        check_refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, push, metrics, item, on)
    assert len(metrics) == 3
    on.connection.mark_closed()
    assert len(metrics) == 2
    assert metrics._labels_bytes == sum(
        len(text) for client in metrics._clients.values() for text in client.labels.values()
    )


def test_subscription_without_metrics_warns_once(clock, caplog):
    idle = ClientMetrics(None, 100, clock)
    subscribe(idle, all={"metrics": "*"})
    subscribe(idle)
    (line,) = caplog.records
    assert "'all' collects nothing here" in line.getMessage()


def test_altered_subscription_applies_at_once(metrics, clock):
    subscribe(metrics, all={"metrics": "org."}, two={"metrics": "com."})
    assert metrics.asked(NIL_UUID, call()).wanted.metrics == ("com.", "org.")
    subscribe(metrics, all={})
    assert metrics.asked(NIL_UUID, call()).wanted.metrics == ("com.",)


def test_java_only_pattern_is_reported_others_apply(metrics, caplog):
    subscribe(metrics, java={"metrics": "com.", "match": r"client_id=\p{javaLowerCase}+"})
    (line,) = caplog.records
    assert "'java' asks no client" in line.getMessage()
    assert metrics.asked(NIL_UUID, call()).wanted.metrics == ("*",)


def test_subscription_id_matches_kafka():
    """`computeSubscriptionId` and `Uuid.hashCode` of Apache Kafka 4.3 return this value for this client."""
    assert subscription_id_of(Wanted(("*",), 100), ONE) == 967040551
    assert subscription_id_of(Wanted(("*",), 1000), ONE) == 1052151871
