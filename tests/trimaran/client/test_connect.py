"""How commands detect what they are connected to: nodes that respond over sockets, and errors otherwise."""

import contextlib
import re
import socket
import ssl
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.certificates import Certificates
from tests.datadriven import check_transcript
from tests.trimaran.client.listeners import (
    CLOSE,
    SILENCE,
    Node,
    listening,
    nobody,
    over_tls,
    saying,
)
from trimaran.client import connect
from trimaran.client.connect import connected
from trimaran.errors import connecting
from trimaran.errors.user_error import Exit, UserError
from trimaran.settings.properties import PropertySetting
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.errors import (
    AuthenticationRefused,
    ConnectionLost,
    ConnectRefused,
    RequestTimedOut,
    VersionMismatch,
)
from trimaran.wire.errors import ErrorCode, KafkaError, LocalProtocolError, RemoteProtocolError
from trimaran.wire.identity import Address
from trimaran.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from trimaran.wire.security.listener import ClientSecurity

HASTY_SECONDS, PATIENT_SECONDS = 0.05, 60.0
PRODUCT_SECONDS = (connect.HELLO_SECONDS, connecting.PROBE_SECONDS)
# The addresses of listeners that accept no connection.
SILENT: set[tuple[str, int]] = set()
ZOOKEEPER = saying(b"Zookeeper version: 3.9\n", to=b"srvr")
ENV_PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
REFUSED, OTHER = ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.UNSUPPORTED_VERSION


def metadata(code=0):
    return MetadataResponse(error_code=code, brokers=[], cluster_id="c", controller_id=1, topics=[])


def cluster(code=0):
    return DescribeClusterResponse(
        error_code=code, endpoint_type=2, cluster_id="c", controller_id=1, brokers=[]
    )


def broker(answer=None, **more):
    return Node({MetadataRequest: answer or metadata(), **_handshake(**more)})


def controller(answer=None, **more):
    return Node({DescribeClusterRequest: answer or cluster(), **_handshake(**more)})


def _handshake(mechanisms=None, code=ErrorCode.UNSUPPORTED_SASL_MECHANISM):
    if mechanisms is None:
        return {}
    answer = SaslHandshakeResponse(error_code=code, mechanisms=mechanisms)
    return {SaslHandshakeRequest: answer}


@contextmanager
def at(*served):
    """Yields an address for each of `served`: of a server that listens, or one that refuses connections."""
    with contextlib.ExitStack() as stack:
        addresses = [
            Address(*stack.enter_context(nobody() if server is nobody else listening(server)))
            for server in served
        ]
        SILENT.update(
            address for address, server in zip(addresses, served, strict=True) if server is None
        )
        yield addresses
        SILENT.difference_update(addresses)


def text_of(*addresses):
    return ",".join(f"{host}:{port}" for host, port in addresses)


def error_text(error, *addresses):
    """Returns all three lines and the exit code; addresses are FIRST, SECOND, …"""
    text = f"{error}\n  exit code: {error.exit_code.name}"
    for address, name in zip(addresses, ("FIRST", "SECOND", "THIRD"), strict=False):
        text = text.replace(text_of(address), name)
    text = re.sub(r"\[SSL.*", "[SSL …]", text)  # OpenSSL's text varies by version
    return re.sub(r"\[Errno 104\].*|the node closed it", "it broke off", text)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Waits long for all nodes but the silent ones: the others answer or close the connection, sooner or later."""
    monkeypatch.setattr(connect, "HELLO_SECONDS", PATIENT_SECONDS)
    monkeypatch.setattr(connecting, "PROBE_SECONDS", PATIENT_SECONDS)
    connect_to = BlockingClient.connection_to

    def connection_to(client, address, **options):
        if address in SILENT:
            options["timeout"] = HASTY_SECONDS
        return connect_to(client, address, **options)

    monkeypatch.setattr(BlockingClient, "connection_to", connection_to)


# --- detected peers


@pytest.mark.parametrize("of_controllers", [False, True])
def test_right_node_is_probed_once_for_login(of_controllers):
    node = controller() if of_controllers else broker()
    names = []

    @contextmanager
    def waiting(name):
        names.append(name)
        yield

    with at(node) as addresses:
        options = {"of_controllers": of_controllers, "timeout": 7.0, "waiting": waiting}
        with connected(text_of(*addresses), **options) as client:
            assert client.routing.bootstrap.current == addresses[0]
            assert client._timeout == 7.0
            assert (node.asked, names) == (
                [
                    DescribeClusterRequest(
                        include_cluster_authorized_operations=False, endpoint_type=2
                    )
                    if of_controllers
                    else MetadataRequest(topics=[], allow_auto_topic_creation=False)
                ],
                [],
            )
            assert client.routing.of_controllers is of_controllers
            client.refresh()
            assert names == ["refresh"]
        with connected(text_of(*addresses), of_controllers=of_controllers) as client:
            assert client._timeout == 20.0


def test_open_node_is_not_asked_for_mechanisms():
    node = broker(mechanisms=["PLAIN"])
    with at(node) as addresses, connected(text_of(*addresses)):
        assert [type(request) for request in node.asked] == [MetadataRequest]


@pytest.mark.parametrize("silent", [None, nobody, saying(b"")])
def test_first_answering_node_is_used(silent):
    node = broker()
    with at(silent, node, silent) as addresses, connected(text_of(*addresses)) as client:
        assert client.routing.bootstrap.current == addresses[1]
        client.refresh()
        assert len(node.asked) == 2


def test_node_silent_for_a_second_is_skipped(monkeypatch):
    waited = []
    create = socket.create_connection

    def noting(address, timeout, **options):
        waited.append(timeout)
        return create(address, PATIENT_SECONDS, **options)

    monkeypatch.setattr(connect, "HELLO_SECONDS", PRODUCT_SECONDS[0])
    monkeypatch.setattr(connecting, "PROBE_SECONDS", PRODUCT_SECONDS[1])
    monkeypatch.setattr(socket, "create_connection", noting)
    with at(saying(b"")) as addresses:
        with pytest.raises(UserError, match="does not speak Kafka"), connected(text_of(*addresses)):
            pass
    assert waited[0] == 1.0
    assert set(waited) == {1.0}
    assert len(waited) == 4  # waits of: the connection, the probe of the port, of TLS, of ZooKeeper


SASL = [
    ("a broker refuses", lambda: broker(metadata(REFUSED), mechanisms=["PLAIN", "X"])),
    ("a broker breaks off", lambda: broker(CLOSE, mechanisms=["PLAIN"])),
    ("a controller refuses", lambda: controller(cluster(REFUSED), mechanisms=["PLAIN"])),
    ("a broker is silent", lambda: broker(SILENCE, mechanisms=["PLAIN"])),
]
NO_SASL = [
    ("it breaks off, and offers no mechanisms", lambda: broker(CLOSE, mechanisms=[])),
    ("it breaks off, and knows no handshake", lambda: broker(CLOSE)),
    ("it breaks off, and takes any mechanism", lambda: broker(CLOSE, mechanisms=["P"], code=0)),
    (
        "it breaks off, and refuses the handshake otherwise",
        lambda: broker(CLOSE, mechanisms=["P"], code=ErrorCode.ILLEGAL_SASL_STATE),
    ),
    ("it answers with another error", lambda: broker(metadata(OTHER), mechanisms=["PLAIN"])),
]


@pytest.mark.parametrize(("name", "make"), SASL, ids=[name for name, _ in SASL])
def test_listener_requiring_login_names_mechanisms(monkeypatch, name, make):
    if "silent" in name:
        monkeypatch.setattr(connect, "HELLO_SECONDS", HASTY_SECONDS)
        connect_to = BlockingClient.connection_to
        monkeypatch.setattr(
            BlockingClient,
            "connection_to",
            lambda client, address, **_: connect_to(client, address, timeout=PATIENT_SECONDS),
        )
    with at(make()) as addresses, pytest.raises(UserError, match="requires a login") as refused:
        with connected(text_of(*addresses), of_controllers="controller" in name):
            pass
    assert "PLAIN" in refused.value.why


@pytest.mark.parametrize(("name", "make"), NO_SASL, ids=[name for name, _ in NO_SASL])
def test_listener_without_mechanisms_needs_no_login(name, make):
    node = make()
    with at(node) as addresses, connected(text_of(*addresses)) as client:
        assert client.routing.bootstrap.current == addresses[0]
        assert "breaks off" not in name or client._connections == {}


def test_client_with_login_skips_the_login_check(monkeypatch):
    asked = []

    def note(client, address, security, **_):
        asked.append(security)

    monkeypatch.setattr(connect, "_ensure_no_login_is_wanted", note)
    monkeypatch.setattr("trimaran.wire.blocking.BlockingConnection._log_in", lambda *_: None)
    plain = ClientSecurity()
    for security in (ClientSecurity(sasl=object()), plain, None):
        monkeypatch.setattr(connect, "_security", lambda *_, given=security: given)
        with at(broker()) as addresses, connected(text_of(*addresses)):
            pass
    assert asked == [plain, None]


def test_only_one_of_two_answering_nodes_is_asked():
    first, second = broker(), broker()
    with at(first, second) as addresses, connected(text_of(*addresses)):
        assert (len(first.asked), len(second.asked)) == (1, 0)


# --- errors


def _raising(error):
    def fail(client):
        raise error

    return fail


def _caused(error, cause):
    error.__cause__ = cause
    return error


# The served responses, for a command that calls brokers or controllers, and the command's body.
CASES = {
    "a-controller-for-a-broker": ([controller()], False, None),
    "a-broker-for-a-controller": ([broker()], True, None),
    "nothing-at-all": ([nobody], False, None),
    "nothing-at-two": ([nobody, nobody], False, None),
    "nothing-and-a-zookeeper": ([nobody, ZOOKEEPER], False, None),
    "zookeeper": ([ZOOKEEPER], False, None),
    "another-protocol": ([saying(b"SSH-2.0-OpenSSH_9.6\r\n")], False, None),
    "breaks-off": ([saying(b"")], False, None),
    "login": ([broker(metadata(REFUSED), mechanisms=["PLAIN", "X"])], False, None),
    "refused": (
        [broker()],
        False,
        _raising(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic t")),
    ),
    "refused-without-words": (
        [broker()],
        False,
        _raising(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
    ),
    "malformed": ([broker()], False, _raising(RemoteProtocolError("too long"))),
    "not-served": ([broker()], False, _raising(VersionMismatch("no such request"))),
    "not-authenticated": ([broker()], False, _raising(AuthenticationRefused("who are you"))),
    "lost-and-there": ([broker()], False, _raising(ConnectionLost("it broke"))),
    "late-and-there": ([broker(), nobody], False, _raising(RequestTimedOut("late"))),
    "late-and-silent": ([broker()], False, ConnectionLost("silent")),
    "late-and-gone": ([broker()], False, ConnectRefused("connection refused")),
    "late-and-controllers-there": ([controller()], True, _raising(RequestTimedOut("late"))),
    "late-and-one-controller-gone": (
        [controller(), nobody, nobody],
        True,
        _raising(RequestTimedOut("late")),
    ),
}


def test_failures_match_their_texts(monkeypatch):
    seen = []

    def told(addresses, of_controllers, body):
        try:
            with monkeypatch.context() as patch:
                with connected(text_of(*addresses), of_controllers=of_controllers) as client:
                    if not callable(body):
                        patch.setattr(connecting, "_speaks_kafka", lambda *_: False)
                        raise _caused(RequestTimedOut("late"), body)
                    body(client)
        except UserError as error:
            return error_text(error, *addresses)

    def run(step):
        seen.append(step.command)
        served, of_controllers, body = CASES[step.command]
        with at(*served) as addresses:
            return told(addresses, of_controllers, body)

    check_transcript(Path(__file__).parent / "testdata/connect.txt", run)
    assert sorted(seen) == sorted(CASES)


def test_connecting_to_only_silent_nodes_succeeds():
    """Retrying may help after a timeout: the command retries, and waits for its own time."""
    with at(None, None) as addresses, connected(text_of(*addresses)) as client:
        assert client.routing.bootstrap.current == addresses[0]


@pytest.fixture(scope="module")
def certificates():
    return Certificates()


TLS = {
    "tls-for-plain": ("tls", "plain"),
    "tls-that-wants-a-certificate-for-plain": ("strict", "plain"),
    "plain-for-tls": ("node", "tls"),
    "another-protocol-for-tls": ("other", "tls"),
    "tls-that-wants-a-certificate": ("strict", "tls"),
    "tls-that-nobody-trusts": ("tls", "without trust"),
    "tls-that-closes": ("closing", "tls"),
    "old-tls-that-wants-a-certificate-for-plain": ("old", "plain"),
    "tls-that-wants-a-login": ("login", "tls"),
    "tls-that-is-late": ("tls", "tls"),
}


def test_tls_failures_match_their_texts(monkeypatch, certificates):
    context = certificates.server_context()
    strict = certificates.server_context(client_auth="required")
    old = certificates.server_context(client_auth="required")
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    stranger = Certificates()
    served = {
        "old": over_tls(old, broker()),
        "login": over_tls(context, broker(metadata(REFUSED), mechanisms=["PLAIN"])),
        "tls": over_tls(context, broker()),
        "strict": over_tls(strict, broker()),
        "closing": over_tls(context, saying(b"")),
        "node": broker(),
        "other": saying(b"SSH-2.0\r\n"),
    }
    security = {
        "plain": None,
        "tls": ClientSecurity(tls=certificates.client_context()),
        "without trust": ClientSecurity(tls=stranger.client_context()),
    }
    seen = []

    def run(step):
        seen.append(step.command)
        name, by = TLS[step.command]
        monkeypatch.setattr(connect, "_security", lambda *_: security[by])
        with at(served[name]) as addresses, pytest.raises(UserError) as caught:
            with connected(text_of(*addresses)):
                raise RequestTimedOut("late")
        return error_text(caught.value, *addresses)

    check_transcript(Path(__file__).parent / "testdata/connect_tls.txt", run)
    assert sorted(seen) == sorted(TLS)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("TLS with h failed: WRONG_VERSION_NUMBER", "does not speak TLS"),
        ("TLS with h failed: CERTIFICATE_VERIFY_FAILED", "TLS verification failed"),
    ],
)
def test_plaintext_listener_differs_from_untrusted_one(text, told):
    with at(broker()) as addresses:
        found = connecting.not_authenticated(text_of(*addresses), AuthenticationRefused(text))
    assert told in found.what
    assert found.why == text


ADDRESSES = ["", "x", "127.0.0.1", "127.0.0.1:99999", "a:b"]


@pytest.mark.parametrize("of_controllers", [False, True])
@pytest.mark.parametrize("text", ADDRESSES)
def test_invalid_address_is_reported_with_its_option(text, of_controllers):
    with pytest.raises(UserError, match="is not a list of addresses") as refused:
        with connected(text, of_controllers=of_controllers):
            pass
    option = "-B" if of_controllers else "-b"
    assert refused.value.fix == f"addresses are written {option} HOST:PORT,…"
    assert refused.value.exit_code.name == "USAGE"
    assert refused.value.why


def test_unknown_host_is_named(monkeypatch):
    unknown = socket.gaierror(-2, "Name or service not known")
    lost = _caused(ConnectionLost("cannot connect"), unknown)
    assert error_text(connecting.no_conversation(Address("nowhere", 1), lost, None)) == (
        "error: the host name nowhere is not known\n"
        "  why: Name or service not known\n"
        "  fix: check the spelling of the address\n"
        "  exit code: CANNOT_CONNECT"
    )
    lost = _caused(ConnectionLost("cannot connect"), socket.gaierror())
    assert connecting.no_conversation(Address("nowhere", 1), lost, None).why == "cannot connect"


@pytest.mark.parametrize("served", [broker(), None])
def test_recovered_host_without_kafka_is_reported(monkeypatch, served):
    if served is None:
        monkeypatch.setattr(connecting, "PROBE_SECONDS", HASTY_SECONDS)
    lost = _caused(ConnectionLost("reset"), OSError("reset"))
    with at(served) as (address,):
        assert "does not speak Kafka" in str(connecting.no_conversation(address, lost, None))
    with at(nobody) as (address,):
        found = connecting.no_conversation(address, lost, None)
        assert error_text(found, address) == (
            "error: cannot connect to FIRST\n"
            "  why: reset\n"
            "  fix: check the address, firewalls and the network in between\n"
            "  exit code: CANNOT_CONNECT"
        )


def test_each_error_code_has_a_remedy():
    fixes = {code.name: connect.refused(KafkaError(code, "m")).fix for code in ErrorCode}
    path = Path(__file__).parent / "testdata/fixes.txt"

    def run(step):
        wanted = step.command.replace("-", " ")
        return "\n".join(sorted(name for name, fix in fixes.items() if _begins(fix) == wanted))

    check_transcript(path, run)
    listed = path.read_text().split()
    assert set(fixes) <= set(listed)


def _begins(fix):
    """Returns the first words of a remedy, in the form of the names in the file."""
    return " ".join(re.findall(r"\w+", fix)[:4]).replace("-", " ")


# --- settings of the connection


def security_of(command_config, settings):
    with listening(broker()) as (host, port):
        with connected(
            f"{host}:{port}", command_config=command_config, settings=settings
        ) as client:
            return client._security


@pytest.mark.parametrize("nothing", [None, Path()])
def test_missing_security_settings_mean_plaintext(nothing):
    assert security_of(nothing, {}) is None


def test_settings_count_more_than_the_file(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\n")
    plain = {"security.protocol": PropertySetting("PLAINTEXT", "-X")}
    security = security_of(file, plain)
    assert (security.tls, security.sasl) == (None, None)
    tls = {"security.protocol": PropertySetting("SSL", "-X")}
    for config, settings in [(file, {}), (None, tls), (Path(), tls)]:
        with pytest.raises(UserError, match="does not speak TLS"):
            security_of(config, settings)
    wrong = {"security.protocol": PropertySetting("X", "-X")}
    with pytest.raises(UserError, match=r"security\.protocol=X \(-X\)"):
        security_of(file, wrong)


@pytest.mark.parametrize(
    ("of_file", "options", "expected"),
    [
        ("", {}, "trimaran"),
        ("client.id=shop", {}, "shop"),
        ("client.id=shop", {"client.id": PropertySetting("mine", "-X")}, "mine"),
        ("client.id=shop", {"client.id": PropertySetting("", "-X")}, "trimaran"),
        ("client.id=${env:USER}", {}, "alice"),
    ],
)
def test_client_id_is_sent_with_requests(tmp_path, monkeypatch, of_file, options, expected):
    monkeypatch.setenv("USER", "alice")
    file = tmp_path / "client.properties"
    file.write_text(f"config.providers=env\nconfig.providers.env.class={ENV_PROVIDER}\n{of_file}\n")
    node = broker()
    with listening(node) as (host, port):
        with connected(f"{host}:{port}", command_config=file, settings=options) as client:
            client.refresh()
    assert node.client_ids == {expected}


@pytest.mark.parametrize("name", ["\udcff", "a" * 32_768])
def test_unsendable_client_id_is_wrong_usage(name):
    settings = {"client.id": PropertySetting(name, "-X")}
    with (
        listening(broker()) as (host, port),
        pytest.raises(UserError, match="cannot be sent") as refused,
    ):
        with connected(f"{host}:{port}", settings=settings):
            pass
    assert refused.value.exit_code is Exit.USAGE


@pytest.mark.parametrize("topic", ["\udcff", "a" * 32_768])
def test_unsendable_topic_is_wrong_usage(topic):
    with listening(broker()) as (host, port), pytest.raises(UserError, match="cannot be sent"):
        with connected(f"{host}:{port}") as client:
            client.call(None, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), version=8)


def test_field_of_wrong_type_is_an_internal_error():
    with listening(broker()) as (host, port), pytest.raises(LocalProtocolError):
        with connected(f"{host}:{port}") as client:
            client.call(None, MetadataRequest(topics=[MetadataRequestTopic(name=5)]))
