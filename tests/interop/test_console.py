"""The console in a real Chromium, in front of a cluster of ours and of Apache Kafka 4.4. Needs Debian's `chromium`."""

import json
import re
import shutil
import subprocess
from urllib.parse import urlencode

import pytest
from confluent_kafka.admin import NewTopic

from tests.checks import check_each
from tests.cluster.processes import until
from tests.librdkafka import AdminClient, Consumer, Producer
from tests.trimaran import group_members
from tests.trimaran.console.conftest import console_before
from trimaran.console.cluster import ConsoleCluster
from trimaran.wire.blocking import BlockingClient

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
PATHS = (
    "/",
    "/quorum",
    "/brokers",
    "/topics",
    "/topics/seen",
    "/topics/seen/0",
    "/topics/seen/messages?from=start&as=json",
    "/groups",
    "/groups/seers",
    "/groups/sharers",
    "/groups/streamers",
    "/events",
    "/metadata",
    "/metadata?offset=10",
    "/metadata/diff",
    "/configs",
    "/charts",
    "/access",
    "/analyses",
)


@pytest.fixture(scope="module", params=["ours", "kafka"])
def asked(request):
    """Starts the console for a cluster with a topic, a group of each kind, and hostile names in both."""
    cluster = request.getfixturevalue(request.param)
    controllers = cluster.controllers if request.param == "ours" else cluster.controller_bootstrap
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("seen", 2, 1)])["seen"].result()
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(20):
        value = json.dumps({"number": number, "text": HOSTILE})
        producer.produce("seen", value, key=HOSTILE, headers={"h": HOSTILE})
    assert producer.flush(20) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "seers",
            "client.id": HOSTILE,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["seen"])
    assert len(consumer.consume(20, timeout=60)) == 20
    consumer.commit(asynchronous=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(group_members, "TOPIC", "seen")
        with BlockingClient(cluster.bootstrap, client_id=HOSTILE) as client:
            group_members.join(client, "share", "sharers")
            group_members.join(client, "streams", "streamers")
    with console_before(ConsoleCluster(cluster.bootstrap, controllers)) as browser:
        yield browser
    consumer.close()


@pytest.fixture(scope="module", params=["ours", "kafka"])
def writer(request):
    """Starts a console that may change its cluster; yields its address and those of the cluster."""
    bootstrap = request.getfixturevalue(request.param).bootstrap
    with console_before(ConsoleCluster(bootstrap), allow_writes=True) as browser:
        yield browser, bootstrap


def test_allowed_changes_take_effect(writer):
    """The changes create a topic, set and unset a config, elect leaders, reset offsets, and delete the topic."""
    browser, bootstrap = writer
    token = re.search(r'name="token" value="([^"]+)"', browser.get("/topics").body)[1]

    def send(path, **fields):
        body = urlencode({"token": token, "confirmed": "yes", **fields})
        form = "application/x-www-form-urlencoded"
        answer = browser.get(path, method="POST", body=body, Content_Type=form)
        assert answer.status == 303, answer.body
        return answer.headers["location"]

    def retention():
        configs = {row["name"]: row for row in browser.json("/topics/written")["configs"]}
        return configs["retention.ms"]["value"]

    page = send("/topics", name="written", partitions="2", replication="2")
    until(lambda: len(browser.json(page)["rows"]) == 2, "the topic is there")
    before = retention()
    send("/topics/written/config", key="retention.ms", value="3600000")
    until(lambda: retention() == "3600000", "the config is set")
    send("/topics/written/config", key="retention.ms")
    until(lambda: retention() == before, "the config is taken back")
    send("/topics/written/elect")
    _consume_ten(bootstrap, "written")
    send("/groups/rewinders", to="start")
    assert {row["committed"] for row in browser.json("/groups/rewinders")["rows"]} == {0}
    send("/topics/written/delete", confirm="written")
    until(lambda: browser.get("/topics/written").status == 404, "the topic is gone")


def _consume_ten(bootstrap, topic):
    """Consumes ten records with a group; its member leaves afterwards."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce(topic, f"{number}", partition=number % 2)
    assert producer.flush(20) == 0
    settings = {"group.id": "rewinders", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    assert len(consumer.consume(10, timeout=60)) == 10
    consumer.commit(asynchronous=False)
    consumer.close()


def test_every_page_answers(asked):
    def check(path):
        assert asked.get(path).status == 200
        assert asked.json(path)

    check_each(PATHS, check)


def test_pages_are_shown_and_foreign_scripts_blocked(asked, tmp_path):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.fail("there is no chromium here: apt-get install chromium")

    def check(path):
        host, port = asked.base
        done = subprocess.run(
            [
                chromium,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                f"--user-data-dir={tmp_path}",
                "--enable-logging=stderr",
                "--timeout=2000",
                "--dump-dom",
                f"http://{host}:{port}{path}",
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        title = re.search(r"<title>(.*?)</title>", done.stdout)[1]
        assert title.endswith("– trimaran")
        assert "<main" in done.stdout
        # Our script has run, and no other script tried to run.
        assert (
            re.search(r'<button id="live"[^>]*hidden', done.stdout) is None
            or 'data-live="0"' in done.stdout
        )
        assert re.findall(r"CONSOLE.*", done.stderr) == []

    check_each(PATHS, check)
