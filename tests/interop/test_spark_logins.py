"""Spark reads and writes secured clusters, ours and Apache Kafka's, with each kind of login."""

import pytest
from cryptography.hazmat.primitives import serialization
from pyspark.errors import PySparkException

from tests.cluster.login_node import LoginNode
from tests.cluster.processes import trimaran
from tests.interop import apache_kafka
from tests.interop.test_logins import confluent
from tests.librdkafka import Producer
from trimaran.local.layout import FreePorts
from trimaran.spark.data_source.tracebacks import cause_of

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
    alone = {"transaction.state.log.replication.factor": "1"}
    with LoginNode(tmp_path_factory.mktemp("logins"), ports, alone).running() as node:
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
    frame = spark.read.format("kafka_log").options(**{"subscribe": "orders", **options})
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


def test_sink_writes_to_ours(spark, node):
    for way in WAYS:
        check_written(spark, node.bootstrap_of(way), way, options_of(node, way))


def test_sink_writes_to_apache_kafka(spark, node, kafka):
    for way in OF_KAFKA:
        place = kafka["TLS" if way == "mTLS" else "LOGINS"]
        check_written(spark, place, way, options_of(node, way))


def check_written(spark, bootstrap, way, options):
    topic = f"written-{way}"
    frame = spark.range(COUNT).selectExpr("CAST(id AS STRING) AS value")
    sink = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "createTopics.partitions": "1"}
    frame.write.format("kafka_log").mode("append").options(**sink, **options).save()
    assert sorted(values(spark, bootstrap, subscribe=topic, **options)) == sorted(WRITTEN), way


@pytest.mark.parametrize("which", ["ours", "theirs"])
def test_stream_with_login_is_written_exactly_once(spark, node, kafka, which, tmp_path):
    place = node.at("LOGINS") if which == "ours" else kafka["LOGINS"]
    options = options_of(node, "SCRAM-SHA-512")
    (tmp_path / "in").mkdir()
    for part in ("a", "b"):
        (tmp_path / "in" / part).write_text(f"{part}1\n{part}2\n")
        run_stream(spark, place, options, tmp_path)
    committed = {"subscribe": "once", "kafka.isolation.level": "read_committed", **options}
    assert sorted(values(spark, place, **committed)) == [b"a1", b"a2", b"b1", b"b2"]


def run_stream(spark, bootstrap, options, folder):
    """Writes the files of `in` that are new to `once`."""
    sink = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": "once",
        "createTopics.partitions": "1",
        "deliveryGuarantee": "exactly_once",
        "transactionalIdPrefix": "logins",
        "checkpointLocation": str(folder / "checkpoint"),
    }
    writer = spark.readStream.text(str(folder / "in")).writeStream.format("kafka_log")
    query = writer.options(**sink, **options).trigger(availableNow=True).start()
    query.awaitTermination()


# With these time limits a client that retried a refused login would wait longer than the test may take.
PATIENT = {"kafka.max.block.ms": "3600000", "kafka.delivery.timeout.ms": "3600000"}


@pytest.mark.parametrize("which", ["ours", "theirs"])
@pytest.mark.parametrize("wrong", ["password", "certificate"])
def test_refused_login_is_one_error(spark, node, kafka, which, wrong, tmp_path):
    place = node.at("LOGINS") if which == "ours" else kafka["LOGINS"]
    options = options_of(node, "SCRAM-SHA-256", "mistaken" if wrong == "password" else "secret")
    if wrong == "certificate":
        options["kafka.ssl.truststore.location"] = str(node.dir / "client.crt")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("a\n")
    frame = spark.range(1).selectExpr("'a' AS value")
    sink = {"kafka.bootstrap.servers": place, "topic": "refused", **options, **PATIENT}
    source = {"kafka.bootstrap.servers": place, "subscribe": "orders", **options}
    stream = spark.readStream.format("kafka_log").options(**source)
    attempts = {
        "batch": frame.write.format("kafka_log").mode("append").options(**sink).save,
        "stream": lambda: run_stream(spark, place, {**options, **PATIENT}, tmp_path),
        "source": lambda: values(spark, place, **options),
        "source of a stream": lambda: drained(stream, tmp_path / "rows"),
    }
    for name, attempt in attempts.items():
        with pytest.raises(PySparkException) as error:
            attempt()
        told = cause_of(error.value)
        assert "refused access" in told, name
        assert ("certificate" in told) is (wrong == "certificate"), name
        assert "mistaken" not in str(error.value), name
        assert "\n" not in told, name


@pytest.mark.parametrize("which", ["ours", "theirs"])
def test_client_without_login_is_pointed_to_the_protocol(spark, node, kafka, which):
    place = node.at("LOGINS") if which == "ours" else kafka["LOGINS"]
    options = {**options_of(node, "PLAIN"), "kafka.security.protocol": "SSL"}
    with pytest.raises(PySparkException) as error:
        values(spark, place, **options, **{"kafka.default.api.timeout.ms": "3000"})
    assert "check the option kafka.security.protocol" in cause_of(error.value)


def drained(stream, folder):
    writer = stream.load().writeStream.format("parquet").trigger(availableNow=True)
    options = {"checkpointLocation": f"{folder}/checkpoint"}
    writer.options(**options).start(f"{folder}/out").awaitTermination()
