"""The messages of topics in the console: older and newer, search, one message whole, and decoded values."""

import json

import pytest

from tests.trimaran.console.conftest import console_before
from tests.wire.values.naive_registry import naive_registry
from trimaran.cli.value_schemas import Schemas
from trimaran.client.consumer_member import MemberSubscription
from trimaran.client.group_consumer import GroupConsumer
from trimaran.client.idempotent_producer import IdempotentProducer
from trimaran.client.positions import parse_position
from trimaran.console.cluster import ConsoleCluster
from trimaran.console.pages import messages
from trimaran.log.batches.records import NewRecord
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.blocking import BlockingClient

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture(scope="module")
def now():
    return now_ms()


@pytest.fixture(scope="module")
def shopping(kafka, now):
    """A topic of three partitions with 30 records in turn, a second apart."""
    kafka.create_topic("shopping", partitions=3)
    with BlockingClient(kafka.bootstrap) as client:
        producer = IdempotentProducer(client, "shopping")
        for number in range(30):
            headers = [("trace", f"t{number}".encode())]
            value = f"value {number}".encode()
            record = NewRecord(f"key {number}".encode(), value, now + 1000 * number, headers)
            producer.send_records(number % 3, [record])
    return "/topics/shopping/messages"


@pytest.fixture(scope="module")
def special(kafka, now):
    """A topic with null, empty, long and binary content."""
    kafka.create_topic("special")
    records = [
        NewRecord(None, None, now),
        NewRecord(b"", b"", now, [("n", None), ("e", b"")]),
        NewRecord(b"\xff", json.dumps({"a": [1], "long": "x" * 6000}).encode(), now),
    ]
    with BlockingClient(kafka.bootstrap) as client:
        IdempotentProducer(client, "special").send_records(0, records)
    return "/topics/special/messages"


def values(page):
    return [int(row["value"].split()[1]) for row in page["rows"]]


def test_all_partitions_have_older_and_newer(browser, shopping):
    page = browser.json(f"{shopping}?limit=7")
    assert (values(page), page["newer"]) == (list(range(23, 30)), None)
    older = browser.json(f"{shopping}?limit=7&before={page['older']}")
    assert values(older) == list(range(16, 23))
    assert values(browser.json(f"{shopping}?limit=7&after={older['newer']}")) == values(page)
    first = browser.json(f"{shopping}?from=start&limit=7")
    assert (values(first), first["older"]) == (list(range(7)), None)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("find=value+2", [2, *range(20, 30)]),
        ("find=key+7&in=key", [7]),
        ("find=key+7&in=value", []),
        ("find=t13&in=headers", [13]),
        ("find=trace&in=headers&partition=1", list(range(1, 30, 3))),
        ("find=VALUE", []),
        ("find=value&from=-3&partition=0", [21, 24, 27]),
    ],
)
def test_search_looks_into_each_part(browser, shopping, query, found):
    page = browser.json(f"{shopping}?{query}")
    assert (values(page), page["is_over"], page["newer"]) == (found, True, None)


def test_search_continues_from_its_end(browser, shopping):
    found, after, scanned = [], "", 0
    while after is not None:
        page = browser.json(f"{shopping}?find=value&limit=4&after={after}")
        assert 0 <= page["share"] <= 1
        found += values(page)
        after, scanned = page["newer"], scanned + page["scanned"]
    assert (sorted(found), scanned) == (list(range(30)), 30)
    html = browser.get(f"{shopping}?find=value&limit=4").body
    assert 'id="on"' in html
    assert 'data-scanned="4"' in html


def test_live_tail_reloads_each_second(browser, shopping):
    page = browser.get(f"{shopping}?tail=1&limit=3")
    assert ('data-live="1"' in page.body, "value 29" in page.body) == (True, True)
    assert 'data-live="0"' in browser.get(shopping).body


def test_null_and_empty_are_told_apart(browser, special):
    rows = browser.json(special)["rows"]
    assert [(row["key"], row["value"]) for row in rows[:2]] == [(None, None), ("", "")]
    assert rows[1]["headers"] == [["n", None], ["e", ""]]
    html = browser.get(f"{special}?limit=3").body
    assert html.count('<span class="state">null</span>') == 3
    assert html.count('<span class="state">empty</span>') == 3


def test_page_of_message_shows_whole_content(browser, special):
    path = f"{special}/0/2"
    page = browser.json(f"{path}?as=json")
    assert json.loads(page["value"]) == {"a": [1], "long": "x" * 6000}
    assert (page["key"], page["key_bytes"]) == ("\\xff", 1)
    assert f'href="{special}/0/2/value"' in browser.get(path).body
    assert '<a href="/topics/special/messages/0/2">' in browser.get(special).body
    assert browser.json(f"{path}?as=hex")["value"].startswith("000000  7b 22 61 22")


def test_value_is_downloaded_as_bytes(browser, special):
    answer = browser.get(f"{special}/0/2/value")
    assert json.loads(answer.body)["a"] == [1]
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="special-0-2.value"'
    assert browser.get(f"{special}/0/1/key").body == ""


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/0/0/value", 404),
        ("/0/9", 404),
        ("/5/0", 404),
        ("/0/99999999999999999999999", 404),
        ("?before=x", 400),
        ("?after=0:1:2", 400),
    ],
)
def test_unknown_partition_or_offset_is_explained(browser, special, path, status):
    answer = browser.get(f"{special}{path}", accept="application/json")
    assert (answer.status, set(answer.json["error"])) == (status, {"what", "why", "fix"})


def test_larger_topic_needs_a_partition(browser, shopping, monkeypatch):
    monkeypatch.setattr(messages, "PARTITIONS_MAX", 2)
    assert browser.json(shopping)["partition"] == "0"
    answer = browser.get(f"{shopping}?partition=all", accept="application/json")
    assert (answer.status, "has 3 partitions" in answer.json["error"]["what"]) == (400, True)


def test_values_are_decoded_by_registry(kafka, now):
    kafka.create_topic("decoded")
    with naive_registry() as registry:
        number = registry.register("decoded-value", ORDER)
        head = b"\0" + number.to_bytes(4, "big")
        records = [
            NewRecord(b"plain key", head + b"\x54", now),
            NewRecord(head + b"\x02", b"plain", now),
            NewRecord(None, b"\0\0\0\x0f\xff\x54", now),
        ]
        with BlockingClient(kafka.bootstrap) as client:
            IdempotentProducer(client, "decoded").send_records(0, records)
        codecs = Schemas(registry=registry.url).codecs_of_console
        with console_before(ConsoleCluster(kafka.bootstrap, codecs=codecs)) as browser:
            rows = browser.json("/topics/decoded/messages")["rows"]
            assert json.loads(rows[0]["value"]) == {"id": 42}
            assert (rows[0]["key"], rows[0]["value_note"]) == ("plain key", f"id {number}")
            assert (json.loads(rows[1]["key"]), rows[1]["value"]) == ({"id": 1}, "plain")
            assert "not decoded: id 4095" in rows[2]["value_note"]
            raw = browser.json("/topics/decoded/messages?as=hex")["rows"]
            assert raw[0]["value"] == (head + b"\x54").hex(" ")
            one = browser.json("/topics/decoded/messages/0/0")
            assert json.loads(one["value"]) == {"id": 42}


def test_silent_registry_is_asked_once(kafka, now):
    kafka.create_topic("unreachable")
    record = NewRecord(None, b"\0\0\0\0\x01\x54", now)
    with BlockingClient(kafka.bootstrap) as client:
        IdempotentProducer(client, "unreachable").send_records(0, [record, record])
    codecs = Schemas(registry="http://127.0.0.1:9").codecs_of_console
    with console_before(ConsoleCluster(kafka.bootstrap, codecs=codecs)) as browser:
        first, second = browser.json("/topics/unreachable/messages")["rows"]
    assert "no registry listens there" in first["value_note"]
    assert second["value_note"] == "not decoded"


def test_internal_topics_are_decoded(browser, kafka, shopping):
    with BlockingClient(kafka.bootstrap) as client:
        begin = parse_position("start")
        subscription = MemberSubscription(["shopping"])
        with GroupConsumer(client, "seen", subscription, begin, is_committed=True) as member:
            for where, record in member.records(exit_at_end=True, quiet_seconds=9.0):
                member.finished(where, record)
    path = "/topics/__consumer_offsets/messages?find=seen&limit=200"
    rows = browser.json(path)["rows"]
    commits = [row for row in rows if row["key_note"] == "OffsetCommit"]
    assert "group=seen topic=shopping partition=" in commits[0]["key"]
    assert json.loads(commits[-1]["value"])["offset"] == 10
    assert browser.json(f"{path}&as=text")["rows"][0]["key_note"] == ""
