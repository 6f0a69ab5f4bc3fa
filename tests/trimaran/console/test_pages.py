"""The pages of the console for a running cluster, as HTML and as JSON."""

import http.client
import itertools
import re
from contextlib import closing
from html.parser import HTMLParser

import pytest

from tests.checks import check_each
from tests.cluster.processes import until
from tests.librdkafka import Consumer, Producer
from tests.trimaran.console.conftest import console_before
from trimaran.console.cluster import ConsoleCluster
from trimaran.console.pages import brokers, zookeeper
from trimaran.console.pages.registry import PAGES
from trimaran.console.record_view import shown
from trimaran.testing import EmbeddedKafka
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def orders(kafka, cluster):
    """Creates a topic with records, and a group whose client, with a hostile name, has read some of them."""
    kafka.create_topic("orders", partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(10):
        producer.produce("orders", f"{HOSTILE}{number}", partition=number % 2)
    assert producer.flush(30) == 0
    settings = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": HOSTILE,
        "client.id": HOSTILE,
        "auto.offset.reset": "earliest",
    }
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe(["orders"])
        assert len(consumer.consume(10, timeout=30)) == 10
        consumer.commit(asynchronous=False)
        producer.produce("orders", b"not consumed", partition=0)
        assert producer.flush(30) == 0
        cluster.forget()  # a response may be a second old
        yield "orders"


PATHS = {
    "/topics/{topic}": "/topics/orders",
    "/topics/{topic}/{partition:int}": "/topics/orders/1",
    "/topics/{topic}/messages": "/topics/orders/messages",
    "/topics/{topic}/messages/{partition:int}/{offset:int}": "/topics/orders/messages/1/2",
    "/brokers/{broker:int}": "/brokers/1",
    "/groups/{group:path}": "/groups/%3Cscript%3Ealert%281%29%3C%2Fscript%3E",
}


class Elements(HTMLParser):
    """Names of the elements, and those that browsers would run."""

    def __init__(self):
        super().__init__()
        self.names, self.runs = [], []

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        if (tag == "script" and dict(attrs) != {"src": "/static/console.js", "defer": None}) or any(
            name.startswith("on") or name == "style" for name, _ in attrs
        ):
            self.runs.append((tag, attrs))


def test_pages_are_html_json_csv_and_safe(browser, orders):
    def check(page):
        path = PATHS.get(page.path, page.path)
        html = browser.get(path)
        assert (html.status, html.headers.get_content_type()) == (200, "text/html")
        elements = Elements()
        elements.feed(html.body)
        assert "main" in elements.names
        assert elements.runs == []
        assert isinstance(browser.json(path), dict)
        csv = browser.get(f"{path}?format=csv")
        assert (csv.status, csv.headers.get_content_type()) == (200, "text/csv")

    check_each([page for page in PAGES if page != zookeeper.PAGE], check)


def test_overview_has_a_verdict(browser, orders):
    found = browser.json("/")
    assert found["level"] == "good"
    assert re.fullmatch(
        r"Healthy: 1 voter caught up, 1 broker active, \d+ partitions fully replicated\.",
        found["verdict"],
    )
    assert {event["subject"] for event in found["events"]} >= {"orders"}


def test_quorum_has_its_epochs(browser):
    found = browser.json("/quorum")
    assert [(row["id"], row["role"]) for row in found["rows"]] == [(1, "leader")]
    assert found["epochs"][0]["leader_id"] == 1
    assert found["timeline"]["rows"]["controller 1"]


def test_topic_has_its_offsets_and_configs(browser, orders):
    rows = browser.json("/topics/orders")["rows"]
    assert [(row["partition"], row["begin"], row["end"]) for row in rows] == [(0, 0, 6), (1, 0, 5)]
    assert all(row["size"] > 0 for row in rows)


def test_partition_has_its_history(browser, orders):
    found = browser.json("/topics/orders/1")
    assert [row["leader"] for row in found["rows"]] == [1]
    assert list(found["in_sync"]["rows"]) == ["broker 1"]


def test_share_group_shows_members_and_epoch(browser, cluster, orders):
    request = ShareGroupHeartbeatRequest(
        group_id="sharers", member_id="m", member_epoch=0, subscribed_topic_names=[orders]
    )
    with cluster.client() as client:
        client.call(CoordinatorNode("sharers"), request)
    found = browser.json("/groups/sharers")
    assert (found["type"], found["assignor"], found["subtopologies"]) == ("share", "simple", [])
    assert [member["member"] for member in found["members"]] == ["m"]
    assert found["epoch"] > 0
    assert not found["has_metrics"]
    assert "Share partitions" in browser.get("/groups/sharers").body


def test_group_lag_is_in_records_and_seconds(browser, orders):
    (row,) = browser.json("/groups?filter=script")["rows"]
    assert ">1 group</span>" in browser.get("/groups?filter=script").body
    assert (row["group"], row["lag"], row["state"]) == (HOSTILE, 1, "Stable")
    found = browser.json(PATHS["/groups/{group:path}"])
    assert found["lag"] == 1
    assert 0 < found["lag_seconds"] < 600
    assert found["members"][0]["client"] == HOSTILE
    assert sorted(found["members"][0]["assignment"]) == ["orders-0", "orders-1"]


def test_tables_are_filtered_sorted_and_paged(browser, cluster, kafka, orders):
    for number in range(60):
        kafka.create_topic(f"many-{number:02}")
    cluster.forget()  # a response may be a second old
    first = browser.json("/topics?filter=many&sort=-topic")
    assert (first["total"], first["pages"], len(first["rows"])) == (60, 2, 50)
    assert first["rows"][0]["topic"] == "many-59"
    last = browser.json("/topics?filter=many&sort=-topic&page=2")
    assert last["rows"][-1]["topic"] == "many-00"
    assert 'href="?filter=many&amp;page=2"' in browser.get("/topics?filter=many").body


def test_missing_or_impossible_pages_are_explained(browser, orders):
    def check(case):
        path, status = case
        answer = browser.get(path, accept="application/json")
        assert answer.status == status
        assert set(answer.json["error"]) == {"what", "why", "fix"}
        html = browser.get(path)
        assert html.status == status
        assert 'role="alert"' in html.body

    check_each(
        [
            ("/topics/nobody", 404),
            ("/topics/orders/7", 404),
            ("/groups/nobody", 404),
            ("/brokers/99", 404),
            ("/topics?sort=password", 400),
            ("/topics?page=x", 400),
            ("/topics/orders/messages?partition=7", 404),
            ("/topics/orders/messages?from=yesterday", 400),
            ("/topics/orders/messages?partition=0&from=999", 400),
            ("/metadata?offset=999999999", 400),
            ("/metadata?path=/image/nothing", 404),
            ("/zookeeper", 404),
            ("/nowhere", 404),
        ],
        check,
    )


def test_unreachable_cluster_is_shown_as_page():
    with EmbeddedKafka() as gone:
        bootstrap, controllers = gone.bootstrap, gone.controller_bootstrap
    with console_before(ConsoleCluster(bootstrap, controllers)) as asking:
        answer = asking.get("/topics", accept="application/json")
        assert answer.status == 503
        assert bootstrap in answer.json["error"]["what"]
        assert asking.get("/").status == 503


def test_metadata_log_is_read_ahead(kafka):
    cluster = ConsoleCluster(kafka.bootstrap, kafka.controller_bootstrap)
    with console_before(cluster):
        until(lambda: cluster.log._last_change > 0, "it has been read", 30)


def test_messages_are_read_from_offset_time_or_end(browser, orders):
    last = browser.json("/topics/orders/messages?limit=2")["rows"]
    assert [row["value"] for row in last][-1] == "not consumed"
    path = "/topics/orders/messages?partition=1"
    some = browser.json(f"{path}&from=2&limit=2")
    assert [row["offset"] for row in some["rows"]] == [2, 3]
    assert (some["older"], some["newer"]) == ("1:2", "1:4")
    assert some["rows"][0]["value"] == f"{HOSTILE}5"
    assert browser.json(f"{path}&from=@-1d")["rows"][0]["offset"] == 0
    hexed = browser.json(f"{path}&from=0&limit=1&as=hex")["rows"][0]
    assert bytes.fromhex(hexed["value"]).decode() == f"{HOSTILE}1"


def test_aborted_messages_are_shown_only_on_request(browser, kafka):
    kafka.create_topic("transfers")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "console"})
    producer.init_transactions(30)
    for number, end in enumerate((producer.commit_transaction, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("transfers", f"{number}")
        assert producer.flush(30) == 0
        end(30)

    def values(isolation):
        path = f"/topics/transfers/messages?from=start&isolation={isolation}"
        return [row["value"] for row in browser.json(path)["rows"]]

    assert values("read_committed") == ["0"]
    assert values("read_uncommitted") == ["0", "1"]


def test_messages_are_shown_by_format():
    assert shown(b'{"b":1,"a":[]}', "json") == '{\n  "b": 1,\n  "a": []\n}'
    assert shown(b"{", "json") == "{"
    assert shown(b"[" * 3000, "json") == "[" * 3000
    assert shown(b"\xff\x00", "text") == "\\xff\x00"
    assert shown(None, "hex") is None
    assert shown(bytes(5000), "hex").endswith("… (904 more bytes)")
    assert shown(b"", "json") == ""
    assert shown(b"\x00A", "hex") == "00 41"
    assert shown(b"0123456789abcdef\xff", "hex", in_lines=True).splitlines() == [
        "000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef",
        "000010  ff                                               .",
    ]


def test_metadata_page_shows_states_and_changes(browser, kafka, cluster):
    cluster.forget()
    before = browser.json("/metadata")["last"]
    kafka.create_topic("afterwards")
    cluster.forget()
    now = browser.json("/metadata")
    assert (now["offset"], now["first"]) == (now["last"], 0)
    past = browser.json(f"/metadata?offset={before}")
    assert past["summary"]["topics"] == now["summary"]["topics"] - 1
    assert browser.json("/metadata?offset=0")["summary"]["topics"] == 0
    changes = browser.json(f"/metadata/diff?from={before}&filter=topics")["rows"]
    assert [(row["path"], row["change"]) for row in changes] == [("/topics/afterwards", "added")]
    tree = browser.json("/metadata?path=/image/topics/byName/afterwards")
    assert tree["names"] == ["0", "id", "name"]
    assert "leader=1" in browser.json("/metadata?path=/image/topics/byName/afterwards/0")["file"]


def test_events_of_all_kinds_share_one_feed(browser, orders):
    def kinds(query=""):
        return {row["kind"] for row in browser.json(f"/events{query}")["rows"]}

    assert kinds("?sort=offset") >= {"election", "broker", "feature"}
    assert kinds("?kind=election") == {"election"}
    (created,) = browser.json("/events?kind=topic&filter=orders")["rows"]
    assert created["text"] == "was created with 2 partitions"


def test_everything_is_allowed_without_authorizer(browser):
    assert browser.json("/access")["is_guarded"] is False


def test_metadata_change_is_pushed_at_once(browser, kafka):
    connection = http.client.HTTPConnection(*browser.base, timeout=30)
    try:
        connection.request("GET", "/stream")
        with connection.getresponse() as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            assert response.readline() == b"retry: 5000\n"
            kafka.create_topic("streamed")
            # Bounded, since the stream never ends: it sends a line at least every 15 s.
            lines = itertools.islice(iter(response.readline, b""), 6)
            assert b"event: changed\n" in lines
    finally:
        connection.close()


def test_sizes_of_too_many_replicas_are_omitted(browser, monkeypatch):
    assert "Sizes are not shown" not in browser.get("/brokers/1").body
    monkeypatch.setattr(brokers, "SIZED_REPLICAS_MAX", -1)
    assert "Sizes are not shown" in browser.get("/brokers/1").body
    assert [directory["bytes"] for directory in browser.json("/brokers/1")["directories"]] == [None]


def test_event_links_to_cluster_at_its_time(browser, orders):
    rows = browser.json(f"/events?filter={orders}")["rows"]
    event = next(row for row in rows if row["link"] == f"/topics/{orders}")
    page = browser.get(f"/events?filter={orders}").body
    then = f"/metadata?offset={event['offset']}"
    assert f'href="{then}"' in page
    assert browser.get(then).status == 200
