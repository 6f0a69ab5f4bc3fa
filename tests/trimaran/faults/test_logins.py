"""How rules identify clients: users who log in through a proxy, versions, requests with bytes after them."""

import pytest
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.librdkafka import AdminClient
from trimaran.faults.connection_faults import ConnectionFaults
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.logins import SeenLogin
from trimaran.faults.observations import FaultPeer
from trimaran.faults.proxy import ProxySettings
from trimaran.faults.verdicts import SendFrame
from trimaran.testing import EmbeddedKafka
from trimaran.testing.faults import KafkaFaults
from trimaran.testing.proxied import ProxyThread
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from trimaran.wire.messages.header import encode_request
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest

SECONDS = 60
SETTINGS = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="admin" password="secret" user_admin="secret";'
    ),
}


def admin_of(bootstrap, user, mechanism):
    return AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": mechanism,
            "sasl.username": user,
            "sasl.password": "secret",
        }
    )


@pytest.mark.slow
def test_rules_of_proxy_know_users_of_logins():
    with EmbeddedKafka(SETTINGS) as kafka:
        rules = FaultSet()
        proxy = ProxyThread(ProxySettings(parse_bootstrap(kafka.bootstrap)), rules)
        faults = KafkaFaults(rules)
        by_plain = faults.add(principal="User:admin", api="AlterUserScramCredentials")
        by_scram = faults.add(principal="User:alice", api="Metadata")
        admin = admin_of(proxy.bootstrap, "admin", "PLAIN")
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        wanted = UserScramCredentialUpsertion("alice", info, b"secret")
        admin.alter_user_scram_credentials([wanted])["alice"].result(SECONDS)
        assert by_plain.matched == 1
        assert by_scram.matched == 0
        alice = admin_of(proxy.bootstrap, "alice", "SCRAM-SHA-256")
        assert alice.list_topics(timeout=SECONDS).brokers
        assert by_scram.wait(1)[0].peer.principal == "User:alice"
        proxy.stop()


def seen_after(mechanism, *tokens):
    login = SeenLogin()
    login.see_request(SaslHandshakeRequest(mechanism=mechanism))
    for token in tokens:
        login.see_request(SaslAuthenticateRequest(auth_bytes=token))
    return login.principal


@pytest.mark.parametrize(
    ("mechanism", "tokens", "principal"),
    [
        ("PLAIN", [b"\0alice\0secret"], "User:alice"),
        ("PLAIN", [b"other\0alice\0secret"], "User:alice"),
        ("PLAIN", [b"alice"], ""),
        ("SCRAM-SHA-512", [b"n,,n=a=2Cb=3Dc,r=nonce", b"c=biws,r=nonce,p=x"], "User:a,b=c"),
        ("SCRAM-SHA-256", [b"n,a=other,n=alice,r=nonce"], "User:alice"),
        ("SCRAM-SHA-256", [b"\xff" * 20_000], ""),
        ("GSSAPI", [b"\x60\x82"], ""),
    ],
)
def test_user_is_the_one_the_token_names(mechanism, tokens, principal):
    assert seen_after(mechanism, *tokens) == principal


def test_later_login_replaces_the_user():
    login = SeenLogin()
    login.see_request(SaslHandshakeRequest(mechanism="PLAIN"))
    login.see_token(b"\0alice\0secret")
    assert login.principal == "User:alice"
    login.see_request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
    login.see_request(SaslAuthenticateRequest(auth_bytes=b"n,,n=bob,r=nonce"))
    assert login.principal == "User:bob"


def test_rule_matches_request_with_bytes_after_it():
    faults = FaultSet()
    rule = faults.add(api="Heartbeat")
    engine = ConnectionFaults(faults, lambda: FaultPeer(0, "PLAINTEXT", 1))
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    frame = bytes(encode_request(request, 4, 1, "c")) + b"\0"
    assert engine.on_request(frame).to_broker == (SendFrame(frame),)
    assert faults.counters(rule.name).matched == 1


def test_refused_version_is_answered_in_version_zero():
    faults = FaultSet()
    faults.add(api="ApiVersions", version="1+", error="UNSUPPORTED_VERSION")
    engine = ConnectionFaults(faults, lambda: FaultPeer(0, "PLAINTEXT", 1))
    (answer,) = engine.on_request(bytes(encode_request(ApiVersionsRequest(), 3, 9, "c"))).to_client
    response = ApiVersionsResponse.decode(answer.frame[4:], 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
