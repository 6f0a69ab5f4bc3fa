"""The metrics that a client must push."""

from trimaran.broker.telemetry.subscriptions import Wanted, subscription_of, wanted_of

JAVA = {"client_id": "shop-1", "client_software_name": "apache-kafka-java"}


def wanted(client=JAVA, **subscriptions):
    return wanted_of(client, [subscription_of(own) for own in subscriptions.values()])


def test_no_subscription_means_nothing_every_five_minutes():
    assert wanted() == Wanted((), 300_000)


def test_matching_subscriptions_combine_with_shortest_interval():
    found = wanted(
        one={"metrics": "org.a.,org.b.", "interval.ms": "60000"},
        two={"metrics": "org.b.,org.c.", "interval.ms": "1000", "match": "client_id=shop-.*"},
        other={"metrics": "org.d.", "interval.ms": "100", "match": "client_id=bank-.*"},
    )
    assert found == Wanted(("org.a.", "org.b.", "org.c."), 1000)


def test_subscription_to_all_metrics_absorbs_others():
    assert wanted(one={"metrics": "org.a."}, two={"metrics": "*"}).metrics == ("*",)


def test_seldom_is_five_minutes_as_in_kafka():
    assert wanted(one={"metrics": "*", "interval.ms": "3600000"}).interval_ms == 300_000


def test_patterns_must_match_the_whole_text():
    both = "client_software_name = apache-kafka-.*, client_id = shop-1"
    assert wanted(one={"metrics": "*", "match": both}).metrics == ("*",)
    for match in (
        "client_id=shop",
        "client_id=shop-1,client_software_name=librdkafka",
        "client_software_version=.*",
    ):
        assert wanted(one={"metrics": "*", "match": match}).metrics == (), match


def test_overlong_client_text_matches_nothing():
    assert (
        wanted({"client_id": "a" * 256}, one={"metrics": "*", "match": "client_id=a+"}).metrics
        == ()
    )


def test_last_pattern_of_parameter_applies():
    one = {"metrics": "*", "match": "client_id=bank-1,client_id=shop-1"}
    assert wanted(one=one).metrics == ("*",)


def test_catastrophic_pattern_takes_linear_time():
    """Python's own matcher would take longer than the age of the universe."""
    client = {"client_id": "a" * 254 + "!"}
    assert wanted(client, one={"metrics": "*", "match": "client_id=(a|aa)+"}).metrics == ()


def test_java_only_pattern_matches_no_client():
    for pattern in ("shop-1++", r"\p{javaLowerCase}+-1", "(?=s)shop-1"):
        assert wanted(one={"metrics": "*", "match": f"client_id={pattern}"}).metrics == (), pattern


def test_stored_lists_with_gaps_are_read():
    stored = {
        "metrics": "org.a.,,org.b.",
        "match": "client_id=shop-.*,,client_software_name=apache.*",
    }
    assert wanted(one=stored).metrics == ("org.a.", "org.b.")
    assert wanted({**JAVA, "client_id": "bank-1"}, one=stored).metrics == ()
