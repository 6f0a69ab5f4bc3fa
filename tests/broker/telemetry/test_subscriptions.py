"""Which metrics a client is asked for."""

from immutables import Map

from broker.telemetry.subscriptions import Wanted, subscriptions_of, wanted_of
from quorum.metadata.image import CLIENT_METRICS_RESOURCE, TOPIC_RESOURCE, ConfigsImage

JAVA = {"client_id": "shop-1", "client_software_name": "apache-kafka-java"}


def wanted(client=JAVA, **subscriptions):
    by_resource = {
        (CLIENT_METRICS_RESOURCE, name): Map(configs) for name, configs in subscriptions.items()
    }
    by_resource[TOPIC_RESOURCE, "t"] = Map({"retention.ms": "1"})
    return wanted_of(client, subscriptions_of(ConfigsImage(Map(by_resource))))


def test_without_a_subscription_nothing_is_wanted_every_five_minutes():
    assert wanted() == Wanted((), 300_000)


def test_what_matches_adds_up_and_the_most_impatient_says_how_often():
    found = wanted(
        one={"metrics": "org.a.,org.b.", "interval.ms": "60000"},
        two={"metrics": "org.b.,org.c.", "interval.ms": "1000", "match": "client_id=shop-.*"},
        other={"metrics": "org.d.", "interval.ms": "100", "match": "client_id=bank-.*"},
    )
    assert found == Wanted(("org.a.", "org.b.", "org.c."), 1000)


def test_all_metrics_swallow_the_others():
    assert wanted(one={"metrics": "org.a."}, two={"metrics": "*"}).metrics == ("*",)


def test_seldom_is_five_minutes_as_in_kafka():
    assert wanted(one={"metrics": "*", "interval.ms": "3600000"}).interval_ms == 300_000


def test_every_pattern_must_match_the_whole_text_of_what_is_known():
    both = "client_software_name = apache-kafka-.*, client_id = shop-1"
    assert wanted(one={"metrics": "*", "match": both}).metrics == ("*",)
    for match in (
        "client_id=shop",
        "client_id=shop-1,client_software_name=librdkafka",
        "client_software_version=.*",
    ):
        assert wanted(one={"metrics": "*", "match": match}).metrics == (), match


def test_a_text_of_a_client_that_is_too_long_matches_nothing():
    assert (
        wanted({"client_id": "a" * 256}, one={"metrics": "*", "match": "client_id=a+"}).metrics
        == ()
    )
