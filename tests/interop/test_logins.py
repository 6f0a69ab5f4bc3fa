"""Each kind of login with each client, which reads the record that it sent. The Java clients are those of Kafka 4.4,
3.9 and 2.8; the Python clients are confluent-kafka, aiokafka and kafka-python; the Go client is franz-go.
"""

import asyncio  # noqa: TID251 - aiokafka is made for it
import ssl
import subprocess
import sys
from functools import partial
from importlib.metadata import version as version_of
from urllib.parse import parse_qsl

import jwt
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as TokenOfAiokafka
from confluent_kafka import KafkaException, libversion

from tests.clients.kafka_python import KafkaConsumer, KafkaProducer
from tests.cluster.login_node import LoginNode
from tests.cluster.processes import ROOT, trimaran, until
from tests.interop import apache_kafka, franz_go, old_clients
from tests.librdkafka import Consumer, Producer
from tests.node.oauth.provider import ec_key, granting, pem, provider, rsa_key
from trimaran.local.layout import FreePorts
from trimaran.node.security.scram import SCRAM_MODULE

SECONDS = 30
JAVA = (apache_kafka.VERSION, "3.9.1", "2.8.2")
PASSWORDS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
WAYS = [*PASSWORDS, "token", "OAUTHBEARER", "unsecured", "mTLS"]
# Kafka supports tokens of an identity provider, and from a file, since 3.1.
NOT_IN = {("2.8.2", "OAUTHBEARER")}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with FreePorts() as ports:
        with LoginNode(tmp_path_factory.mktemp("logins"), ports).running() as node:
            yield node


def topic_of(node, *words):
    name = "-".join(words)
    trimaran("topics", "create", name, "-p", "1", "-r", "1", "-b", node.at("INTERNAL"))
    return name


def run_java(node, version, main, *words, stdin=None, check=True, urls=(), files=()):
    """Runs a Java program of that version with the allowed token files and URLs."""
    old = version in old_clients.SCALA
    make = partial(old_clients.command, version) if old else apache_kafka.java
    java, *arguments = make(main, *words)
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    token = node.dir / "token.jwt"
    done = subprocess.run(
        [
            java,
            f"{allowed}.urls={','.join([f'file://{token}', *urls])}",
            f"{allowed}.files={','.join(map(str, [token, *files]))}",
            *arguments,
        ],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done


def console(version, kind):
    if version == apache_kafka.VERSION:
        return apache_kafka.TOOLS[f"console-{kind}"]
    if kind == "producer":
        return "kafka.tools.ConsoleProducer"
    tools = old_clients.number(version) >= (3,)
    return apache_kafka.TOOLS["console-consumer"] if tools else "kafka.tools.ConsoleConsumer"


def config_option(version, kind):
    return "--command-config" if version == apache_kafka.VERSION else f"--{kind}.config"


@pytest.mark.client("Java", "logins")
@pytest.mark.parametrize(
    ("version", "way"),
    [(version, way) for version in JAVA for way in WAYS if (version, way) not in NOT_IN],
)
def test_java(node, version, way):
    topic, bootstrap = topic_of(node, "java", version, way), node.bootstrap_of(way)
    file = str(node.file_of(way))
    common = ("--bootstrap-server", bootstrap, "--topic", topic)
    produce = (*common, config_option(version, "producer"), file)
    run_java(node, version, console(version, "producer"), *produce, stdin="hello\n")
    bound = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "30000")
    consume = (*common, config_option(version, "consumer"), file, *bound)
    assert run_java(node, version, console(version, "consumer"), *consume).stdout.strip() == "hello"


@pytest.mark.client("Java", "logins")
@pytest.mark.parametrize("way", PASSWORDS)
@pytest.mark.parametrize("version", JAVA)
def test_wrong_password_is_reported_to_java(node, version, way):
    words = ("--bootstrap-server", node.bootstrap_of(way), "--list", "--command-config")
    main = "kafka.admin.TopicCommand" if version == "2.8.2" else apache_kafka.TOOLS["topics"]
    done = run_java(node, version, main, *words, str(node.file_of(way, "wrong")), check=False)
    assert done.returncode != 0
    assert "invalid credentials with SASL mechanism" in done.stdout + done.stderr


@pytest.mark.client("Java", "logins", version=apache_kafka.VERSION)
@pytest.mark.parametrize("way", PASSWORDS)
def test_java_logs_in_again_while_it_produces(node, way, tmp_path):
    """Sessions last two seconds, and the producer sends for seven (KIP-368)."""
    topic = topic_of(node, "again", way)
    words = ("--bootstrap-server", node.at("SHORT"), "--topic", topic, "--max-messages", "70")
    config = ("--throughput", "10", "--command-config", str(node.file_of(way)))
    main = apache_kafka.TOOLS["verifiable-producer"]
    out = run_java(node, apache_kafka.VERSION, main, *words, *config, "--acks", "-1").stdout
    assert out.count("producer_send_success") == 70
    assert "producer_send_error" not in out


CLASSES = "org.apache.kafka.common.security.oauthbearer"
ASSERTED = {
    "aud": "{url}/token",
    "iss": "client-of-ours",
    "sub": "alice",
    "exp.seconds": "120",
    "nbf.seconds": "30",
    "jti.include": "true",
}


def assertions_sent(idp):
    """Returns the forms of all requests, and headers and claims of their assertions with times relative to `iat`."""
    for _, headers, body in idp.asked:
        form = dict(parse_qsl(body.decode()))
        name = "assertion" if "assertion" in form else "client_assertion"
        found = jwt.decode_complete(form.pop(name), options={"verify_signature": False})
        claims = found["payload"]
        begin = claims.pop("iat")
        claims |= {"exp": claims["exp"] - begin, "nbf": claims["nbf"] - begin}
        yield {
            "form": form,
            "content": headers["Content-Type"],
            "authorization": headers.get("Authorization"),
            "header": found["header"],
            "claims": claims | {"jti": len(claims["jti"])},
        }


@pytest.mark.client("Java", "logins", version=apache_kafka.VERSION)
@pytest.mark.parametrize(("algorithm", "key"), [("RS256", rsa_key), ("ES256", ec_key)])
@pytest.mark.parametrize("retriever", ["JwtBearerJwtRetriever", "DefaultJwtRetriever"])
def test_java_and_ours_send_equal_assertions(node, retriever, algorithm, key, tmp_path):
    """The provider verifies each of them, and the node accepts the token."""
    key_file, template = tmp_path / "key.pem", tmp_path / "template.json"
    key_file.write_text(pem(key()))
    template.write_text('{"header": {"kid": "k1"}, "payload": {"sub": "alice", "list": [1, "é"]}}')
    with provider() as idp:
        idp.judges["/token"] = granting(idp, key(), algorithm)
        settings = node.properties("OAUTHBEARER") | {
            "sasl.oauthbearer.token.endpoint.url": f"{idp.url}/token",
            "sasl.oauthbearer.jwt.retriever.class": f"{CLASSES}.{retriever}",
            "sasl.oauthbearer.scope": "read write",
            "sasl.oauthbearer.assertion.algorithm": algorithm,
            "sasl.oauthbearer.assertion.private.key.file": str(key_file),
            "sasl.oauthbearer.assertion.template.file": str(template),
        }
        for name, text in ASSERTED.items():
            settings[f"sasl.oauthbearer.assertion.claim.{name}"] = text.format(url=idp.url)
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
        words = ("--bootstrap-server", node.at("LOGINS"), "--list", "--command-config", str(file))
        allowed = {"urls": [f"{idp.url}/token"], "files": [key_file, template]}
        run_java(node, apache_kafka.VERSION, apache_kafka.TOOLS["topics"], *words, **allowed)
        trimaran("topics", "list", "-b", node.at("LOGINS"), "--command-config", file)
        java, ours = assertions_sent(idp)
    assert ours == java
    assert ours["claims"]["list"] == [1, "é"]


def confluent(node, way):
    values = {
        "bootstrap.servers": node.bootstrap_of(way),
        "ssl.ca.location": f"{node.dir}/ca.pem",
    }
    if way == "mTLS":
        own = {
            "ssl.certificate.location": f"{node.dir}/client.crt",
            "ssl.key.location": f"{node.dir}/client.key",
        }
        return {**values, **own, "security.protocol": "SSL"}
    if way == "OAUTHBEARER":
        bearer = (node.dir / "token.jwt").read_text()
        return {
            **values,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": way,
            "oauth_cb": lambda _config: (bearer, 2_000_000_000.0),
        }
    login = {"sasl.username": "alice", "sasl.password": "secret"}
    return {**values, **login, "security.protocol": "SASL_SSL", "sasl.mechanism": way}


PYTHON_WAYS = [*PASSWORDS, "OAUTHBEARER", "mTLS"]


@pytest.mark.client("librdkafka", "logins", version=libversion()[0])
@pytest.mark.parametrize("way", PYTHON_WAYS)
def test_confluent_kafka(node, way):
    topic = topic_of(node, "confluent", way)
    producer = Producer(confluent(node, way))
    producer.produce(topic, b"hello")
    assert producer.flush(SECONDS) == 0
    group = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**confluent(node, way), **group})
    consumer.subscribe([topic])
    assert consumer.poll(SECONDS).value() == b"hello"
    consumer.close()


@pytest.mark.client("librdkafka", "logins", version=libversion()[0])
@pytest.mark.parametrize("way", PASSWORDS)
def test_wrong_password_is_reported_to_confluent_kafka(node, way):
    producer = Producer({**confluent(node, way), "sasl.password": "wrong"})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=2)


class Token(TokenOfAiokafka):
    def __init__(self, bearer):
        self._bearer = bearer

    async def token(self):
        return self._bearer


def aio(node, way):
    keys = (f"{node.dir}/client.crt", f"{node.dir}/client.key") if way == "mTLS" else ()
    context = ssl.create_default_context(cafile=f"{node.dir}/ca.pem")
    if keys:
        context.load_cert_chain(*keys)
    common = {"bootstrap_servers": node.bootstrap_of(way), "ssl_context": context}
    if way == "mTLS":
        return {**common, "security_protocol": "SSL"}
    common |= {"security_protocol": "SASL_SSL", "sasl_mechanism": way}
    if way == "OAUTHBEARER":
        provider = Token((node.dir / "token.jwt").read_text())
        return {**common, "sasl_oauth_token_provider": provider}
    return {**common, "sasl_plain_username": "alice", "sasl_plain_password": "secret"}


@pytest.mark.client("aiokafka", "logins", version=version_of("aiokafka"))
@pytest.mark.parametrize("way", PYTHON_WAYS)
def test_aiokafka(node, way):
    topic = topic_of(node, "aiokafka", way)

    async def there_and_back():
        producer = AIOKafkaProducer(**aio(node, way))
        await producer.start()
        await producer.send_and_wait(topic, b"hello")
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, **aio(node, way), auto_offset_reset="earliest")
        await consumer.start()
        record = await asyncio.wait_for(consumer.getone(), SECONDS)
        await consumer.stop()
        return record.value

    assert asyncio.run(there_and_back()) == b"hello"


def kafka_python(node, way):
    values = {
        "bootstrap_servers": node.bootstrap_of(way),
        "ssl_cafile": f"{node.dir}/ca.pem",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": way,
    }
    if way == "mTLS":
        own = {
            "ssl_certfile": f"{node.dir}/client.crt",
            "ssl_keyfile": f"{node.dir}/client.key",
        }
        return {**values, **own, "security_protocol": "SSL", "sasl_mechanism": None}
    if way == "OAUTHBEARER":
        from kafka.net.sasl.oauth import AbstractTokenProvider

        class Provider(AbstractTokenProvider):
            def token(self):
                return (node.dir / "token.jwt").read_text()

        return {**values, "sasl_oauth_token_provider": Provider()}
    return {**values, "sasl_plain_username": "alice", "sasl_plain_password": "secret"}


@pytest.mark.client("kafka-python", "logins", version=version_of("kafka-python"))
@pytest.mark.parametrize("way", PYTHON_WAYS)
def test_kafka_python(node, way):
    topic = topic_of(node, "kafka-python", way)
    producer = KafkaProducer(**kafka_python(node, way))
    producer.send(topic, b"hello").get(SECONDS)
    producer.close()
    wait = {"auto_offset_reset": "earliest", "consumer_timeout_ms": SECONDS * 1000}
    consumer = KafkaConsumer(topic, **kafka_python(node, way), **wait)
    assert next(consumer).value == b"hello"
    consumer.close()


@pytest.mark.client("franz-go", "logins", version=franz_go.VERSION)
@pytest.mark.skipif(franz_go.why_not() is not None, reason="needs go on the PATH")
@pytest.mark.parametrize("way", [*PASSWORDS, "token", "OAUTHBEARER"])
def test_franz_go(node, way):
    topic, bearer = topic_of(node, "franz-go", way), (node.dir / "token.jwt").read_text()
    words = {"token": (node.token_id, node.token_hmac), "OAUTHBEARER": (bearer,)}
    login = words.get(way, ("alice", "secret"))
    arguments = (node.bootstrap_of(way), topic, way, f"{node.dir}/ca.pem", *login)
    assert franz_go.there_and_back(*arguments) == "hello"


@pytest.mark.parametrize("way", WAYS)
def test_our_own_commands_log_in(node, way):
    topic, file = topic_of(node, "ours", way), node.file_of(way)
    at = ("-b", node.bootstrap_of(way), "--command-config", file)
    trimaran("produce", topic, *at, stdin="hello\n")
    assert trimaran("consume", topic, "-n", "1", *at).stdout.strip() == "hello"


def admin(node, tool, *words, way="SCRAM-SHA-512", check=True):
    at = ("--bootstrap-server", node.bootstrap_of(way), "--command-config", str(node.file_of(way)))
    return apache_kafka.tool(tool, *at, *words, check=check)


def test_kafka_configs_adds_and_removes_users(node):
    user = ("--alter", "--entity-type", "users", "--entity-name", "carol")
    admin(node, "configs", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")
    described = admin(node, "configs", "--describe", "--entity-type", "users")
    assert "carol" in described.stdout
    file = node.dir / "carol.properties"
    file.write_text(node.file_of("SCRAM-SHA-256").read_text().replace("alice", "carol"))
    at = ("-b", node.at("LOGINS"), "--command-config", file)
    trimaran("topics", "list", *at)
    admin(node, "configs", *user, "--delete-config", "SCRAM-SHA-256")
    assert trimaran("topics", "list", *at, check=False).returncode != 0


def test_kafka_delegation_tokens_creates_renews_and_expires(node):
    made = admin(node, "delegation-tokens", "--create", "--max-life-time-period", "86400000")
    token_id, hmac = made.stdout.strip().splitlines()[-1].split()[:2]
    node.token_id, node.token_hmac = token_id, hmac
    of_alice = ("--describe", "--owner-principal", "User:alice")
    assert token_id in admin(node, "delegation-tokens", *of_alice).stdout
    admin(node, "delegation-tokens", "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    at = ("-b", node.at("LOGINS"), "--command-config", node.file_of("token"))
    trimaran("topics", "list", *at)
    by_token = admin(
        *(node, "delegation-tokens", "--create", "--max-life-time-period", "-1"),
        way="token",
        check=False,
    )
    assert "Delegation Token requests are not allowed" in by_token.stdout + by_token.stderr
    admin(node, "delegation-tokens", "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert trimaran("topics", "list", *at, check=False).returncode != 0


BOOTSTRAP = """
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@localhost:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT
listeners=CONTROLLER://localhost:{controller},PLAINTEXT://localhost:{plain},LOGINS://localhost:{logins}
log.dirs={dir}/data
offsets.topic.replication.factor=1
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.logins.scram-sha-512.sasl.jaas.config={module} required;
"""


@pytest.mark.parametrize("formatted_by", ["ours", "kafka"])
def test_first_users_are_equal_for_both_formatters(tmp_path, formatted_by):
    """Kafka serves directories that we formatted, and vice versa."""
    file = tmp_path / "server.properties"
    with FreePorts() as ports:
        numbers = {name: next(ports) for name in ("controller", "plain", "logins")}
        file.write_text(BOOTSTRAP.format(**numbers, dir=tmp_path, module=SCRAM_MODULE))
        cluster_id = trimaran("storage", "random-uuid").stdout.strip()
        words = ("format", "-t", cluster_id, "-c", str(file))
        user = ("--add-scram", "SCRAM-SHA-512=[name=alice,password=secret]")
        if formatted_by == "ours":
            trimaran("storage", *words, *user)
            command = apache_kafka.java("kafka.Kafka", str(file), level="info", heap="1g")
        else:
            apache_kafka.tool("storage", *words, *user)
            command = [sys.executable, "-m", "trimaran", "server", "start", "-c", str(file)]
        log = tmp_path / "node.log"
        with log.open("w") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT)
        try:
            started = ("id=1] started", "Kafka Server started")
            until(
                lambda: (
                    any(line in log.read_text() for line in started) or process.poll() is not None
                ),
                "started",
            )
            jaas = f'{SCRAM_MODULE} required username="alice" password="secret";'
            client = tmp_path / "client.properties"
            sasl = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
            client.write_text(f"{sasl}sasl.jaas.config={jaas}\n")
            at = ("-b", f"localhost:{numbers['logins']}", "--command-config", client)
            trimaran("topics", "list", *at)
        finally:
            process.terminate()
            process.wait(SECONDS)
