"""Spark reads secured clusters, ours and Apache Kafka's, with each kind of login."""

import pytest
from cryptography.hazmat.primitives import serialization

from tests.cluster.login_node import LoginNode
from tests.cluster.processes import trimaran
from tests.interop import apache_kafka
from tests.interop.test_logins import confluent
from tests.librdkafka import Producer
from trimaran.local.layout import FreePorts

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

SECONDS = 30
COUNT = 500
WAYS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "token", "OAUTHBEARER", "mTLS"]
# Logins of Apache Kafka that need neither an identity provider nor delegation tokens.
OF_KAFKA = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "mTLS"]
MODULE = "org.apache.kafka.common.security"
JAAS = {
    "plain": f'{MODULE}.plain.PlainLoginModule required user_alice="secret";',
    "scram-sha-256": f"{MODULE}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{MODULE}.scram.ScramLoginModule required;",
}


@pytest.fixture(scope="module")
def ports():
    with FreePorts() as free:
        yield free


@pytest.fixture(scope="module")
def node(tmp_path_factory, ports):
    """Starts our node; yields its directory, which also has the clients' files."""
    with LoginNode(tmp_path_factory.mktemp("logins"), ports).running() as node:
        trimaran("topics", "create", "orders", "-p", "1", "-r", "1", "-b", node.at("INTERNAL"))
        produce(confluent(node, "PLAIN"))
        yield node


@pytest.fixture(scope="module")
def kafka(tmp_path_factory, ports, node):
    """Starts Apache Kafka with the same certificates and users."""
    places = {name: f"127.0.0.1:{next(ports)}" for name in ("LOGINS", "TLS")}
    cluster = apache_kafka.plan(tmp_path_factory.mktemp("kafka"))
    [broker], [controller] = cluster.brokers, cluster.controllers
    protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGINS:SASL_SSL,TLS:SSL"
    cluster.settings.update(
        {
            "listener.security.protocol.map": protocols,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(as_java_reads_it(node)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(node.dir / "ca.pem"),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.tls.ssl.client.auth": "required",
            **{f"listener.name.logins.{name}.sasl.jaas.config": v for name, v in JAAS.items()},
        }
    )
    cluster.format()
    file = cluster.file(broker)  # only brokers have these listeners
    listeners = ",".join(f"{name}://{place}" for name, place in places.items())
    file.write_text(
        file.read_text().replace("listeners=PLAINTEXT", f"listeners={listeners},PLAINTEXT")
    )
    cluster.start()
    try:
        cluster.wait_ready()
        for bits in (256, 512):
            config = ("--alter", "--add-config", f"SCRAM-SHA-{bits}=[password=secret]")
            user = ("--entity-type", "users", "--entity-name", "alice", *config)
            apache_kafka.tool("configs", "--bootstrap-server", broker.address, *user)
        produce({"bootstrap.servers": broker.address})
        yield {**places, "CONTROLLER": controller.address}
    finally:
        cluster.stop()


def as_java_reads_it(node):
    """Returns key and chain of the server; Java accepts private keys only in PKCS #8."""
    key, chain = node.certificates.server
    private = serialization.load_pem_private_key(key.encode(), None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    file = node.dir / "java.pem"
    file.write_text(private.private_bytes(*form, serialization.NoEncryption()).decode() + chain)
    return file


def produce(settings):
    producer = Producer(settings)
    for i in range(COUNT):
        producer.produce("orders", b"%d" % i)
    assert producer.flush(SECONDS) == 0


@pytest.fixture(scope="module")
def spark():
    from trimaran.spark.sessions.session import session

    made = session(app_name="logins")
    yield made
    made.stop()


def options_of(node, way, password="secret"):
    """Returns the options of Kafka's clients, without the class of a token callback handler."""
    properties = node.properties(way, password)
    properties.pop("sasl.login.callback.handler.class", None)
    return {f"kafka.{name}": value for name, value in properties.items()}


def values(spark, bootstrap, **options):
    frame = spark.read.format("kafka_log").options(subscribe="orders", **options)
    read = frame.option("kafka.bootstrap.servers", bootstrap).load()
    return [bytes(row.value) for row in read.orderBy("offset").select("value").collect()]


WRITTEN = [b"%d" % i for i in range(COUNT)]


@pytest.mark.parametrize("way", WAYS)
def test_ours(spark, node, way):
    assert values(spark, node.bootstrap_of(way), **options_of(node, way)) == WRITTEN


@pytest.mark.parametrize("way", OF_KAFKA)
def test_apache_kafka(spark, node, kafka, way):
    place = kafka["TLS" if way == "mTLS" else "LOGINS"]
    assert values(spark, place, **options_of(node, way)) == WRITTEN


@pytest.mark.parametrize("which", ["ours", "theirs"])
def test_wrong_password_and_foreign_certificate_are_reported(spark, node, kafka, which):
    place = node.at("LOGINS") if which == "ours" else kafka["LOGINS"]
    with pytest.raises(Exception, match="refused access") as error:
        values(spark, place, **options_of(node, "PLAIN", "wrong"))
    assert "wrong" not in str(error.value).split("refused access")[1]
    trusting_nobody = {
        **options_of(node, "PLAIN"),
        "kafka.ssl.truststore.location": str(node.dir / "client.crt"),
    }
    with pytest.raises(Exception, match="certificate"):
        values(spark, place, **trusting_nobody)
