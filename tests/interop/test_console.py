"""The console in a real Chromium, in front of a cluster of ours and of Apache Kafka 4.3. Needs Debian's `chromium`."""

import json
import re
import shutil
import subprocess

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.checks import check_each
from tests.trimaran.console.conftest import console_before
from trimaran.console.cluster import Cluster

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
    "/events",
    "/metadata",
    "/metadata?offset=10",
    "/metadata/diff",
    "/access",
    "/analyses",
)


@pytest.fixture(scope="module", params=["ours", "kafka"])
def asked(request):
    """The console in front of a cluster with a topic, a group, and hostile names in both."""
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
    with console_before(Cluster(cluster.bootstrap, controllers)) as browser:
        yield browser
    consumer.close()


def test_every_page_answers(asked):
    def check(path):
        assert asked.get(path).status == 200
        assert asked.json(path)

    check_each(PATHS, check)


def test_every_page_is_shown_and_nothing_of_others_runs(asked, tmp_path):
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
        # Our script has run, and no other tried to.
        assert (
            re.search(r'<button id="live"[^>]*hidden', done.stdout) is None
            or 'data-live="0"' in done.stdout
        )
        assert re.findall(r"CONSOLE.*", done.stderr) == []

    check_each(PATHS, check)
