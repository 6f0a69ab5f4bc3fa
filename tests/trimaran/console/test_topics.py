"""The list of topics with the figures that a user chooses."""

import pytest

from tests.librdkafka import Producer
from trimaran.console.pages import topics
from trimaran.console.rates import KEPT_SECONDS, TopicRates

ALL = "size,records,rate,retention_ms,cleanup,last_write"


@pytest.fixture(scope="module")
def figured(kafka, cluster):
    """Creates two topics, of which one has three records."""
    for name in ("figured-a", "figured-b"):
        kafka.create_topic(name, partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(3):
        producer.produce("figured-b", b"x" * 100, partition=number % 2)
    assert producer.flush(30) == 0
    cluster.forget()  # a response may be a second old


def test_chosen_figures_are_columns(browser, figured):
    empty, full = browser.json(f"/topics?filter=figured&columns={ALL}")["rows"]
    assert (empty["size"], empty["records"], empty["last_write"]) == (0, 0, None)
    assert full["size"] > 300
    assert full["records"] == 3
    assert full["last_write"] > 1_700_000_000_000
    assert (full["cleanup"], full["retention_ms"]) == ("delete", 604_800_000)
    page = browser.get(f"/topics?filter=figured&columns={ALL}").body
    assert "7 d 0 h" in page
    assert 'columns=size%2Crecords%2Crate%2Cretention_ms%2Ccleanup"' in page


def test_figures_that_are_hidden_are_not_asked(browser, figured, monkeypatch):
    monkeypatch.setattr(topics, "topic_figures", None)
    (row, _) = browser.json("/topics?filter=figured&columns=none")["rows"]
    assert not {"size", "records"} & row.keys()


def test_topics_are_sorted_by_figure(browser, figured):
    found = browser.json("/topics?filter=figured&sort=-size&columns=none")
    assert [row["topic"] for row in found["rows"]] == ["figured-b", "figured-a"]
    assert found["sort"] == "-size"


def test_too_many_topics_are_not_sorted_by_figure(browser, figured, monkeypatch):
    monkeypatch.setattr(topics, "SORTED_TOPICS_MAX", 1)
    answer = browser.get("/topics?filter=figured&sort=size", accept="application/json")
    assert answer.status == 400
    assert "filter the topics" in answer.json["error"]["fix"]
    assert browser.get("/topics?columns=colour").status == 400


def test_rate_needs_two_readings_apart():
    rates = TopicRates()
    assert rates.read({"a": 100}, 0.0) == {}
    assert rates.read({"a": 110}, 1.0) == {}
    assert rates.read({"a": 200}, 5.0) == {"a": 20.0}
    assert rates.read({"a": 300}, 10.0) == {"a": 20.0}


def test_rate_begins_anew_after_deletion_or_pause():
    rates = TopicRates()
    rates.read({"a": 100}, 0.0)
    assert rates.read({"a": 7}, 5.0) == {}
    assert rates.read({"a": 17}, 10.0) == {"a": 2.0}
    assert rates.read({"a": 18}, 11.0 + KEPT_SECONDS) == {}
