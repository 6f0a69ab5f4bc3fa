"""Logins by Kerberos, with a real key distribution center: the Java client of Kafka 4.4, librdkafka in Debian's kcat,
and our own client write a record and read it back; our client does the same on a real Kafka.
"""

import json
import shutil
import subprocess
import uuid

import pytest

from tests.cluster.processes import trimaran, until
from tests.interop import apache_kafka, kerberos_realm
from tests.interop.kerberos_nodes import KerberosNodes, jaas
from tests.interop.kerberos_realm import REALM, Realm
from trimaran.local.layout import FreePorts
from trimaran.node.security.kerberos import KERBEROS_MODULE
from trimaran.node.security.kerberos_contexts import KerberosCredentials, acceptor
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest
from trimaran.wire.security.sasl.gssapi import ContextFailed

pytestmark = pytest.mark.skipif(
    kerberos_realm.why_not() is not None, reason=kerberos_realm.why_not() or ""
)
REFUSED = "Authentication failed: invalid credentials with SASL mechanism GSSAPI"
USERS = ("admin", "alice", "job/batch", "a/b/c")


@pytest.fixture(scope="module")
def ports():
    with FreePorts() as ports:
        yield ports


@pytest.fixture(scope="module")
def realm(tmp_path_factory, ports):
    realm = Realm(tmp_path_factory.mktemp("realm"), next(ports))
    with pytest.MonkeyPatch.context() as patch, realm.running():
        for name in ("KRB5_CONFIG", "KRB5RCACHEDIR"):
            patch.setenv(name, realm.environ[name])
        yield realm


@pytest.fixture(scope="module")
def keytabs(realm):
    return {name: realm.keytab(name) for name in USERS}


@pytest.fixture(scope="module")
def nodes(realm, keytabs, ports):
    with KerberosNodes("ours", realm, ports, 2).running() as nodes:
        trimaran("acls", "add", "User:alice", "all", "topic/*", *at(nodes, keytabs, "admin"))
        trimaran("acls", "add", "User:alice", "all", "group/*", *at(nodes, keytabs, "admin"))
        yield nodes


def at(nodes, keytabs, user):
    file = nodes.client_file(jaas(keytabs[user], user), user.replace("/", "-"))
    return ("-b", nodes.bootstrap, "--command-config", file)


def topic_of(nodes, keytabs, copies=1):
    name = f"t-{uuid.uuid4().hex[:8]}"
    trimaran("topics", "create", name, "-p", "1", "-r", str(copies), *at(nodes, keytabs, "admin"))
    return name


def there_and_back(topic, *words):
    trimaran("produce", topic, *words, stdin="hello\n")
    return trimaran("consume", topic, "-n", "1", *words).stdout.strip()


def test_our_own_commands_log_in_by_keytab(nodes, keytabs):
    assert there_and_back(topic_of(nodes, keytabs), *at(nodes, keytabs, "alice")) == "hello"


def test_brokers_log_in_to_each_other(nodes, keytabs):
    """The topic has a replica on each broker: an acknowledged record was fetched by a follower."""
    topic = topic_of(nodes, keytabs, copies=2)
    assert there_and_back(topic, *at(nodes, keytabs, "alice")) == "hello"
    words = ("topics", "describe", topic, "-o", "json", *at(nodes, keytabs, "admin"))
    (partition,) = json.loads(trimaran(*words).stdout)["partitions"]
    assert sorted(partition["isr"]) == [1, 2]


def test_our_own_commands_log_in_by_ticket_cache(realm, nodes, keytabs):
    cache = realm.ticket("alice", keytabs["alice"])
    login = f'{KERBEROS_MODULE} required useTicketCache=true ticketCache="{cache}";'
    file = nodes.client_file(login, "cache")
    topic = topic_of(nodes, keytabs)
    assert there_and_back(topic, "-b", nodes.bootstrap, "--command-config", file) == "hello"


def test_rules_make_the_name_for_acls(nodes, keytabs):
    topic, words = topic_of(nodes, keytabs), at(nodes, keytabs, "job/batch")
    admin = at(nodes, keytabs, "admin")
    assert trimaran("produce", topic, *words, stdin="hello\n", check=False).returncode != 0
    trimaran("acls", "add", "User:JOB_BATCH", "all", f"topic/{topic}", *admin)
    trimaran("acls", "add", "User:JOB_BATCH", "all", "group/*", *admin)
    assert there_and_back(topic, *words) == "hello"


def run_java(realm, main, *words, stdin=None):
    jvm = (f"-Djava.security.krb5.conf={realm.conf}", *apache_kafka.SHORT_LIVED)
    done = subprocess.run(
        apache_kafka.java(apache_kafka.TOOLS[main], *words, jvm=jvm),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.client("Java", "logins", version=apache_kafka.VERSION)
def test_java_logs_in(realm, nodes, keytabs):
    topic = topic_of(nodes, keytabs)
    file = nodes.client_file(jaas(keytabs["alice"], "alice"), "alice")
    common = ("--bootstrap-server", nodes.bootstrap, "--topic", topic)
    config = ("--command-config", str(file))
    run_java(realm, "console-producer", *common, *config, stdin="hello\n")
    bound = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "60000")
    assert run_java(realm, "console-consumer", *common, *config, *bound).strip() == "hello"


def test_java_and_brokers_log_in_again(realm, nodes, keytabs):
    """Sessions last four seconds, and the producer sends for seven (KIP-368); a follower must acknowledge."""
    topic = topic_of(nodes, keytabs, copies=2)
    file = nodes.client_file(jaas(keytabs["alice"], "alice"), "alice")
    words = ("--bootstrap-server", nodes.bootstrap, "--topic", topic, "--max-messages", "70")
    config = ("--throughput", "10", "--command-config", str(file), "--acks", "-1")
    out = run_java(realm, "verifiable-producer", *words, *config)
    assert out.count("producer_send_success") == 70
    assert "producer_send_error" not in out


@pytest.mark.client("librdkafka", "logins")
@pytest.mark.skipif(shutil.which("kcat") is None, reason="needs kcat: apt-get install kcat")
def test_librdkafka_logs_in(realm, nodes, keytabs):
    """The wheels of confluent-kafka are built without GSSAPI; Debian's librdkafka supports it through Cyrus SASL."""
    topic = topic_of(nodes, keytabs)
    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": f"alice@{REALM}",
        "sasl.kerberos.keytab": str(keytabs["alice"]),
    }
    words = [w for key, value in options.items() for w in ("-X", f"{key}={value}")]
    cache = {**realm.environ, "KRB5CCNAME": f"FILE:{realm.dir}/kcat.cache"}
    common = ["kcat", "-b", nodes.bootstrap, "-t", topic, *words]
    bounds = {"env": cache, "capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run([*common, "-P"], input="hello\n", check=False, **bounds)
    assert done.returncode == 0, done.stderr
    consume = [*common, "-C", "-o", "beginning", "-c", "1", "-q"]
    done = subprocess.run(consume, check=False, **bounds)
    assert (done.returncode, done.stdout.strip()) == (0, "hello"), done.stderr


class Peer:
    """A connection that logs in token by token."""

    def __init__(self, port):
        self.connection = BlockingConnection(("localhost", port))

    def __enter__(self):
        answer = self.connection.call(SaslHandshakeRequest(mechanism="GSSAPI"))
        assert (answer.error_code, answer.mechanisms) == (0, ["GSSAPI"])
        return self

    def __exit__(self, *_):
        self.connection.close()

    def token(self, token):
        """Returns the node's token."""
        answer = self.connection.call(SaslAuthenticateRequest(auth_bytes=token))
        assert answer.error_code == 0, answer
        return bytes(answer.auth_bytes)

    def is_refused(self, token):
        answer = self.connection.call(SaslAuthenticateRequest(auth_bytes=token))
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return (answer.error_code, answer.error_message, answer.auth_bytes) == (code, REFUSED, b"")


@pytest.fixture
def peer(nodes):
    with Peer(nodes.clients[1]) as peer:
        yield peer


def exchange(keytabs, user="alice", service="kafka"):
    return KerberosCredentials(service, f"{user}@{REALM}", str(keytabs[user])).exchange("localhost")


def test_malformed_tokens_are_refused(nodes, keytabs):
    valid = next(exchange(keytabs))
    middle = len(valid) // 2
    changed = valid[:middle] + bytes([valid[middle] ^ 1]) + valid[middle + 1 :]
    for token in (b"", b"x", valid[:-1], changed, bytes(20_000)):
        with Peer(nodes.clients[1]) as peer:
            assert peer.is_refused(token)


def test_token_as_large_as_any_ticket_is_answered(peer):
    assert peer.is_refused(bytes(65_535))


def test_recorded_token_is_refused(nodes, keytabs, peer):
    token = next(exchange(keytabs))
    assert peer.token(token)
    with Peer(nodes.clients[1]) as another:
        assert another.is_refused(token)


def test_message_without_checksum_is_refused(peer, keytabs):
    tokens = exchange(keytabs)
    offer = peer.token(tokens.send(peer.token(next(tokens))))
    choice = tokens.send(offer)
    assert peer.is_refused(choice[:-1] + bytes([choice[-1] ^ 1]))


def test_principal_without_local_name_is_refused(peer, keytabs):
    tokens = exchange(keytabs, "a/b/c")
    offer = peer.token(tokens.send(peer.token(next(tokens))))
    assert peer.is_refused(tokens.send(offer))


def test_ticket_for_another_service_is_refused(realm, peer, keytabs):
    realm.keytab("other/localhost")
    assert peer.is_refused(next(exchange(keytabs, service="other")))


def test_unknown_service_has_no_ticket(nodes, keytabs):
    with pytest.raises(AuthenticationRefused, match=r"Server unknown/localhost@.* not found"):
        exchange(keytabs, service="unknown")


def test_node_with_old_keytab_refuses(realm, nodes, keytabs):
    with Peer(nodes.stale) as before:
        assert before.token(next(exchange(keytabs, service="stale")))
    realm.kadmin("cpw -randkey stale/localhost")
    with Peer(nodes.stale) as after:
        assert after.is_refused(next(exchange(keytabs, service="stale")))


def test_client_refuses_node_without_the_key(realm, keytabs):
    begin = acceptor(f"alice@{REALM}", str(keytabs["alice"]))
    tokens = exchange(keytabs)
    with pytest.raises(ContextFailed):
        begin().step(next(tokens))
    with pytest.raises(AuthenticationRefused, match="does not prove its identity"):
        tokens.send(b"not its proof")


def test_expired_ticket_is_refused(realm, keytabs):
    cache = realm.ticket("alice", keytabs["alice"], "-l", "1s")
    expired = KerberosCredentials("kafka", None, cache=str(cache))

    def refusal():
        try:
            next(expired.exchange("localhost"))
        except AuthenticationRefused as error:
            return str(error)
        return None

    assert "expired" in until(refusal, "the ticket expires").lower()


def test_wrong_keytab_is_reported_before_a_login(nodes, keytabs):
    file = nodes.client_file(jaas(keytabs["alice"], "bob"), "bob")
    words = ("topics", "list", "-b", nodes.bootstrap, "--command-config", file)
    done = trimaran(*words, check=False)
    assert done.returncode != 0
    assert "no usable key of bob" in done.stderr


def test_our_own_commands_log_in_to_kafka(realm, keytabs, ports):
    with KerberosNodes("kafka", realm, ports, 1).running() as kafka:
        topic = topic_of(kafka, keytabs)
        assert there_and_back(topic, *at(kafka, keytabs, "admin")) == "hello"
