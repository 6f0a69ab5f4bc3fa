"""A controller and two brokers that use mutual TLS; real clients use TLS and SASL/PLAIN."""

import asyncio  # noqa: TID251 - aiokafka is made for it
import contextlib
import os
import ssl
import subprocess
import sys

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import KafkaException

from tests.certificates import Certificates
from tests.clients.kafka_python import KafkaConsumer, KafkaProducer
from tests.cluster.processes import ROOT, trimaran, until
from tests.librdkafka import Consumer, Producer
from trimaran.errors.user_error import Exit
from trimaran.local.layout import FreePorts

STOP_SECONDS_MAX = 20
ANSWER_SECONDS = 20
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
COMMON = """
node.id={id}
process.roles={role}
controller.quorum.voters=1@localhost:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CONTROLLER:SSL,INTERNAL:SSL,CLIENTS:SASL_SSL
listeners={listeners}
log.dirs={dir}/data-{id}
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
ssl.keystore.type=PEM
ssl.keystore.location={dir}/node.pem
ssl.truststore.type=PEM
ssl.truststore.location={dir}/ca.pem
ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN
listener.name.clients.plain.sasl.jaas.config={module} required user_alice="secret";
"""


class SecureCluster:
    """A controller and two brokers in processes; `bootstrap` has the addresses of the client listener."""

    def __init__(self, directory, ports):
        self.dir = directory
        self.certificates = certificates = Certificates()
        (directory / "node.pem").write_text("".join(certificates.server))
        (directory / "ca.pem").write_text(certificates.ca)
        self.controller = next(ports)
        self._nodes = {1: ("controller", f"CONTROLLER://localhost:{self.controller}")}
        self.clients = {}
        for number in (2, 3):
            self.clients[number] = next(ports)
            internal = f"INTERNAL://localhost:{next(ports)}"
            listeners = f"{internal},CLIENTS://localhost:{self.clients[number]}"
            self._nodes[number] = ("broker", listeners)
        self.bootstrap = ",".join(f"localhost:{port}" for port in self.clients.values())

    @contextlib.contextmanager
    def running(self):
        cluster_id = trimaran("storage", "random-uuid").stdout.strip()
        with contextlib.ExitStack() as stack:
            for number, (role, listeners) in self._nodes.items():
                file = self.dir / f"{number}.properties"
                text = COMMON.format(
                    id=number,
                    role=role,
                    listeners=listeners,
                    controller=self.controller,
                    dir=self.dir,
                    module=MODULE,
                )
                file.write_text(text)
                trimaran("storage", "format", "-t", cluster_id, "-c", file)
                stack.enter_context(_started(file, number))
            yield self

    def client_file(self, password="secret", **changes):
        values = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{self.dir}/ca.pem",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{MODULE} required username="alice" password="{password}";',
            **{key.replace("_", "."): value for key, value in changes.items()},
        }
        file = self.dir / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return file


@contextlib.contextmanager
def _started(file, number):
    """Runs `server start` until the block ends."""
    err = file.with_suffix(".err")
    with err.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "trimaran", "server", "start", "-c", str(file)],
            cwd=ROOT,
            env=os.environ,
            stderr=stderr,
        )
    try:
        line = f"[KafkaServer id={number}] started"
        until(lambda: line in err.read_text() or process.poll() is not None, line)
        assert process.poll() is None, err.read_text()
        yield
    finally:
        process.terminate()
        process.wait(STOP_SECONDS_MAX)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with FreePorts() as ports:
        with SecureCluster(tmp_path_factory.mktemp("secure"), ports).running() as cluster:
            cli(cluster, "topics", "create", "t", "-p", "2", "-r", "2")
            yield cluster


def cli(cluster, *words, file=None, **options):
    file = file or cluster.client_file()
    return trimaran(*words, "-b", cluster.bootstrap, "--command-config", file, **options)


VALUES = [b"%d" % number * 100 for number in range(200)]


def confluent(cluster):
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": f"{cluster.dir}/ca.pem",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "secret",
    }


def test_confluent_kafka_produces_to_all_replicas_and_consumes(cluster):
    producer = Producer({**confluent(cluster), "acks": "all"})
    failures = []
    for value in VALUES:
        producer.produce(
            "t", value, b"confluent", on_delivery=lambda e, _: e and failures.append(e)
        )
    assert producer.flush(ANSWER_SECONDS) == 0
    assert not failures
    settings = {"group.id": "confluent", "auto.offset.reset": "earliest"}
    consumer = Consumer({**confluent(cluster), **settings})
    consumer.subscribe(["t"])
    found = []

    def all_there():
        found.extend(m for m in consumer.consume(500, 0.1) if not m.error())
        return sum(m.key() == b"confluent" for m in found) == len(VALUES)

    until(all_there, "all records")
    consumer.close()
    assert [m.value() for m in found if m.key() == b"confluent"] == VALUES


def test_kafka_python_produces_and_consumes(cluster):
    common = {
        "bootstrap_servers": cluster.bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": f"{cluster.dir}/ca.pem",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
    }
    producer = KafkaProducer(**common, acks="all")
    for value in VALUES:
        producer.send("t", value, b"kafka-python")
    producer.flush(ANSWER_SECONDS)
    producer.close()
    consumer = KafkaConsumer("t", **common, group_id="kafka-python", auto_offset_reset="earliest")
    found = []

    def all_there():
        # One poll for the whole join: kafka-python 3.0.12 forgets an assignment that arrives between two.
        for records in consumer.poll(timeout_ms=ANSWER_SECONDS * 1000).values():
            found.extend(r.value for r in records if r.key == b"kafka-python")
        return len(found) == len(VALUES)

    until(all_there, "all records")
    consumer.close(autocommit=False)
    assert found == VALUES


def test_aiokafka_produces_and_consumes(cluster):
    common = {
        "bootstrap_servers": cluster.bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=f"{cluster.dir}/ca.pem"),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
    }

    async def run():
        async with AIOKafkaProducer(**common, acks="all") as producer:
            for sent in [await producer.send("t", value, b"aiokafka") for value in VALUES]:
                await sent
        found = []
        options = {"group_id": "aiokafka", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("t", **common, **options) as consumer:
            while len(found) < len(VALUES):
                record = await consumer.getone()
                if record.key == b"aiokafka":
                    found.append(record.value)
        return found

    assert asyncio.run(asyncio.wait_for(run(), 2 * ANSWER_SECONDS)) == VALUES


def test_commands_use_the_protocol_of_their_file(cluster):
    assert "t" in cli(cluster, "topics", "list").stdout
    cli(cluster, "topics", "create", "commands", "-p", "1", "-r", "2")
    cli(cluster, "produce", "commands", stdin="by command\n")
    assert "by command" in cli(cluster, "consume", "commands", "-n", "1").stdout


def test_wrong_passwords_and_authorities_are_reported(cluster):
    done = cli(cluster, "topics", "list", file=cluster.client_file("wrong"), check=False)
    assert done.returncode == Exit.REFUSED
    assert "invalid credentials" in done.stderr
    (cluster.dir / "other.pem").write_text(Certificates().ca)
    file = cluster.client_file(ssl_truststore_location=f"{cluster.dir}/other.pem")
    done = cli(cluster, "topics", "list", file=file, check=False)
    assert done.returncode == Exit.REFUSED
    assert "CERTIFICATE_VERIFY_FAILED" in done.stderr
    producer = Producer({**confluent(cluster), "sasl.password": "wrong"})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=1)


def test_store_of_another_type_is_reported(cluster):
    done = trimaran(
        "server", "start", "-c", cluster.dir / "2.properties", "--override", "ssl.keystore.type=JKS",
        check=False,
    )  # fmt: skip
    assert done.returncode == Exit.USAGE
    assert "is no JKS store" in done.stderr
    assert "ssl.keystore.type" in done.stderr
