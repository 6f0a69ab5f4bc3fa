"""Renewed logins on an open connection: when, and with which mechanism, they may begin."""

from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.authenticator import Login, SaslAuthenticator, SaslSettings
from trimaran.wire.transport.connection.session import Session

LOGIN = Login(Principal("alice"), "PLAIN", 5000)


def request(key):
    return memoryview(int(key).to_bytes(2, "big") + b"rest")


def test_login_begins_a_second_after_the_last():
    session = Session(SaslSettings({}), LOGIN, ends_at=5.0)
    assert session.login_began is None
    for key in ApiKey:
        if key is not ApiKey.SASL_HANDSHAKE:
            assert not session.begins_login(request(key), 1.0)
    assert session.login_began is None
    handshake = request(ApiKey.SASL_HANDSHAKE)
    assert session.begins_login(handshake, 1.0)
    assert session.login_began == 1.0
    assert not session.begins_login(handshake, 1.999)
    assert session.login_began == 1.0
    assert session.begins_login(handshake, 2.0)
    assert session.login_began == 2.0


def test_next_login_keeps_principal_and_mechanism():
    settings = SaslSettings({})
    assert Session(settings, LOGIN, 5.0).authenticator() == SaslAuthenticator(settings, LOGIN)
