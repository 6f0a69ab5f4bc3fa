"""Permitted changes by the console; other sites cannot submit its forms."""

import logging
import re
from contextlib import closing
from urllib.parse import urlencode

import pytest

from tests.checks import check_each
from tests.librdkafka import Consumer, Producer
from tests.trimaran import group_members
from tests.trimaran.console.conftest import console_before
from trimaran.client import changes
from trimaran.client.group_offsets import committed_offsets
from trimaran.client.idempotent_producer import IdempotentProducer
from trimaran.console.write_registry import WRITES
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.identity import TopicPartition

FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def writer(cluster):
    with console_before(cluster, allow_writes=True) as asking:
        yield asking


@pytest.fixture
def client(kafka, monkeypatch, request):
    """Yields a client for members of a group; each test has a topic of its own."""
    topic = f"of-{request.node.name}"
    monkeypatch.setattr(group_members, "TOPIC", topic)
    kafka.create_topic(topic, partitions=2)
    with BlockingClient(kafka.bootstrap) as client:
        producer = IdempotentProducer(client, topic)
        for partition in range(2):
            producer.send(partition, [(None, b"v")] * 5)
        yield client


@pytest.fixture
def send(writer):
    token = re.search(r'name="token" value="([^"]+)"', writer.get("/topics").body)[1]

    def send(path, Content_Type=FORM, **fields):  # noqa: N803 - a header
        body = urlencode({"token": token, "confirmed": "yes", **fields})
        return writer.get(path, method="POST", body=body, Content_Type=Content_Type)

    return send


def audited(caplog):
    """Returns the lines of the audit; a broker may log others meanwhile."""
    return [one.getMessage() for one in caplog.records if one.name == "trimaran.console.audit"]


def test_topic_is_created_altered_and_deleted(writer, send, caplog):
    with caplog.at_level(logging.INFO, logger="trimaran.console.audit"):
        made = send("/topics", name="written", partitions="2")
        assert (made.status, made.headers["location"]) == (303, "/topics/written")
        assert len(writer.json("/topics/written")["rows"]) == 2

        def retention():
            configs = {row["name"]: row for row in writer.json("/topics/written")["configs"]}
            return configs["retention.ms"]

        before = retention()["value"]
        assert send("/topics/written/config", key="retention.ms", value="1000").status == 303
        assert (retention()["value"], retention()["is_set"]) == ("1000", True)
        assert send("/topics/written/config", key="retention.ms").status == 303
        assert retention()["value"] == before
        assert send("/topics/written/elect").status == 303
        assert send("/topics/written/delete", confirm="writ").status == 400
        assert send("/topics/written/delete", confirm="written").status == 303
        assert writer.get("/topics/written").status == 404
    said = audited(caplog)
    assert said[0] == "create topic name='written' partitions='2' by 127.0.0.1: done"
    assert "confirm='writ' by 127.0.0.1: refused: " in said[4]
    assert len(said) == 6


def test_offsets_are_reset(writer, send, kafka):
    kafka.create_topic("rewound")
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(5):
        producer.produce("rewound", f"{number}")
    assert producer.flush(30) == 0
    settings = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": "rewinders",
        "auto.offset.reset": "earliest",
    }
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe(["rewound"])
        assert len(consumer.consume(5, timeout=30)) == 5
        consumer.commit(asynchronous=False)
    assert send("/groups/rewinders", to="2").status == 303
    assert [row["committed"] for row in writer.json("/groups/rewinders")["rows"]] == [2]
    assert send("/groups/rewinders", to="whenever").status == 400
    assert send("/groups/rewinders", to="end", topic="another").status == 400


def committed_in(writer, group):
    return {row["partition"]: row["committed"] for row in writer.json(f"/groups/{group}")["rows"]}


def test_start_offsets_of_share_group_are_reset(writer, send, client):
    group_members.join(client, "share", "share-writers")
    assert "has members" in send("/groups/share-writers", to="0").body
    group_members.leave(client, "share", "share-writers")
    assert committed_in(writer, "share-writers") == {0: None, 1: None}
    assert send("/groups/share-writers", to="2", topic=group_members.TOPIC).status == 303
    assert committed_in(writer, "share-writers") == {0: 2, 1: 2}


def test_streams_group_keeps_offsets_of_internal_topics(writer, send, client):
    group_members.join(client, "streams", "app")
    group_members.leave(client, "streams", "app")
    inner, outer = (
        TopicPartition("app-by-key-repartition", 0),
        TopicPartition(group_members.TOPIC, 0),
    )
    changes.commit_offsets(client, "app", {inner: 4, outer: 4})
    assert send("/groups/app", to="2").status == 303
    assert committed_offsets(client, "app") == {inner: 4, outer: 2}
    assert send("/groups/app", to="2", topic=inner.topic).status == 400


def test_group_that_is_missing_is_named(send):
    assert "no coordinator knows it" in send("/groups/nosuch", to="0").body


def test_refusal_by_cluster_is_shown(send):
    refused = send("/topics", name="no/such name")
    assert refused.status == 400
    assert "INVALID_TOPIC" in refused.body
    assert send("/topics", name="").status == 400
    assert send("/topics", name="x", partitions="many").status == 400


def test_forms_of_other_sites_are_refused(writer, send):
    def is_refused(options):
        assert writer.get("/topics", method="POST", **options).status == 403

    body = urlencode({"name": "forged"})
    check_each(
        [
            {"body": body, "Content_Type": FORM},
            {"body": f"{body}&token=x", "Content_Type": FORM},
            {"body": b"\xff&token=%ff", "Content_Type": FORM},
            {"body": "&".join("a=b" for _ in range(99)), "Content_Type": FORM},
            {"body": body, "Content_Type": "text/plain"},
        ],
        is_refused,
    )
    assert writer.get("/topics/forged").status == 404
    ours = re.search(r'name="token" value="([^"]+)"', writer.get("/topics").body)[1]
    is_refused(
        {"body": f"{body}&token={ours}", "Content_Type": FORM, "Sec_Fetch_Site": "cross-site"}
    )
    assert send("/topics", name="x" * 20_000).status == 400
    assert writer.get("/topics", method="POST", body="", Host="evil.example").status == 421


def test_read_only_console_has_no_forms(browser):
    def is_read_only(write):
        path = write.path.replace("{topic}", "orders").replace("{group:path}", "g")
        assert browser.get(path, method="POST", body="", Content_Type=FORM).status in (404, 405)

    check_each(WRITES, is_read_only)
    assert 'method="post"' not in browser.get("/topics").body


def test_refused_form_keeps_what_was_sent(send):
    refused = send("/topics", name="kept?", partitions="3", configs="retention.ms=soon\nx=<b>")
    assert refused.status == 400
    assert 'role="alert"' in refused.body
    assert '<details class="create" open>' in refused.body
    assert 'name="name" value="kept?"' in refused.body
    assert 'name="partitions" value="3"' in refused.body
    assert "retention.ms=soon\nx=&lt;b&gt;</textarea>" in refused.body
    assert "each line is written NAME=VALUE" in send("/topics", name="x", configs="what").body


def test_topic_is_created_with_configs(writer, send):
    assert send("/topics", name="configured", configs="cleanup.policy=compact\n").status == 303
    configs = {row["name"]: row["value"] for row in writer.json("/topics/configured")["configs"]}
    assert configs["cleanup.policy"] == "compact"
    row = writer.json("/topics?filter=configured&columns=cleanup")["rows"][0]
    assert row["cleanup"] == "compact"


def test_change_is_previewed_before_confirmation(writer, send, client, request):
    topic = group_members.TOPIC

    def check(case):
        path, fields, shown, before = case
        page = send(path, confirmed="", **fields)
        assert page.status == 200
        assert all(text in page.body for text in shown)
        assert 'name="confirmed" value="yes"' in page.body
        assert [len(writer.json(f"/topics/{topic}")["rows"]), begins()] == before

    def begins():
        return [row["begin"] for row in writer.json(f"/topics/{topic}")["rows"]]

    path = f"/topics/{topic}"
    unchanged = [2, [0, 0]]
    check_each(
        [
            (f"{path}/config", {"key": "retention.ms", "value": "77"}, [">77<"], unchanged),
            (f"{path}/partitions", {"count": "5"}, ["3 more partitions", ">5<"], unchanged),
            (f"{path}/purge", {"before": "3"}, ["6 offsets", "Would begin at"], unchanged),
        ],
        check,
    )
    assert send(f"{path}/purge", before="3", partition="1").status == 303
    assert begins() == [0, 3]
    assert send(f"{path}/partitions", count="3").status == 303
    assert begins() == [0, 3, 0]
    assert send(f"{path}/purge", before="0", partition="9").status == 400
    assert send(f"{path}/partitions", confirmed="", count="1").status == 400


def test_preview_of_reset_shows_each_partition(writer, send, client):
    topic = group_members.TOPIC
    group_members.join(client, "share", "share-previewed")
    group_members.leave(client, "share", "share-previewed")
    page = send("/groups/share-previewed", to="-2", confirmed="")
    assert page.status == 200
    assert "2 offsets of share-previewed would change" in page.body
    assert page.body.count(f"<td>{topic}</td>") == 2
    assert page.body.count('<td class="num">3</td>') == 2
    assert committed_in(writer, "share-previewed") == {0: None, 1: None}


def test_address_of_form_redirects_to_page(writer):
    went = writer.get("/topics/a.b/config?sort=leader")
    assert (went.status, went.headers["location"]) == (303, "/topics/a.b?sort=leader")
