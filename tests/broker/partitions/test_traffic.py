"""Counters of topics: a topic's counts stay in the total after its replicas are removed."""

from trimaran.broker.partitions.traffic import TopicTraffic, Traffic


def test_all_counters_begin_at_zero():
    traffic = Traffic()
    for counted in (traffic.of("orders"), traffic.total()):
        assert {getattr(counted, name) for name in TopicTraffic.__slots__} == {0}
    assert (traffic.isr_shrinks, traffic.isr_expands) == (0, 0)


def test_removed_topic_stays_in_total():
    traffic = Traffic()
    orders, payments = traffic.of("orders"), traffic.of("payments")
    orders.bytes_in += 10
    payments.bytes_in += 5
    payments.failed_fetches += 1
    traffic.forget("payments")
    assert [name for name, _ in traffic] == ["orders"]
    assert traffic.find("payments") is None
    assert (traffic.total().bytes_in, traffic.total().failed_fetches) == (15, 1)


def test_topics_are_sorted_by_name():
    traffic = Traffic()
    for name in ("b", "c", "a"):
        traffic.of(name)
    assert [name for name, _ in traffic] == ["a", "b", "c"]


def test_topic_keeps_its_counters_until_forgotten():
    traffic = Traffic()
    first = traffic.of("orders")
    assert traffic.of("orders") is first
    assert traffic.find("orders") is first
    traffic.forget("orders")
    assert traffic.of("orders") is not first


def test_forgetting_unknown_topic_is_no_error():
    traffic = Traffic()
    traffic.forget("orders")
    assert traffic.total().produces == 0
