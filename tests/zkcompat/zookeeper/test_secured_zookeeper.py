"""A ZooKeeper that requires TLS, or a login with SASL DIGEST-MD5."""

import pytest
import trio
from cryptography.hazmat.primitives import serialization

from tests.certificates import Certificates
from tests.zkcompat import build
from tests.zkcompat.conftest import needs_zookeeper
from tests.zkcompat.rig import PATIENCE, Source, connected, differences, in_step, running, topics
from trimaran.node.runtime.ports import port_of, reserve
from trimaran.zkcompat.zookeeper.digest_md5 import DigestCredentials, DigestMd5, DigestRefusedError
from trimaran.zkcompat.zookeeper.errors import PathRefusedError
from trimaran.zkcompat.zookeeper.kazoo_client import Security
from trimaran.zkcompat.zookeeper.keeper import open_keeper
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper
from trimaran.zkcompat.zookeeper.session import KeeperConfig

JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_mirror="pass word"
  user_other="other";
};
"""
MIRROR = DigestCredentials("mirror", "pass word")
PROVIDER = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"


def _pkcs8(pem):
    """Returns the key in the only form that ZooKeeper reads."""
    key = serialization.load_pem_private_key(pem.encode(), None)
    form = serialization.PrivateFormat.PKCS8
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain).decode()


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """Starts a server with a port for TLS, and users for SASL; returns (plain address, TLS address, certificates)."""
    needs_zookeeper()
    folder = tmp_path_factory.mktemp("secured")
    certificates = Certificates()
    key, chain = certificates.server
    (folder / "server.pem").write_text(_pkcs8(key) + chain)
    (folder / "authority.pem").write_text(certificates.ca)
    (folder / "jaas.conf").write_text(JAAS)
    with reserve() as held:
        port = port_of(held)
        settings = {
            "secureClientPort": str(port),
            "secureClientPortAddress": "127.0.0.1",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "authProvider.1": PROVIDER,
            "ssl.keyStore.location": str(folder / "server.pem"),
            "ssl.trustStore.location": str(folder / "authority.pem"),
            "ssl.clientAuth": "none",
        }
        option = f"-Djava.security.auth.login.config={folder / 'jaas.conf'}"
        server = start_zookeeper(
            folder / "data", tick_ms=100, settings=settings, jvm_options=(option,)
        )
        yield server.connect, f"localhost:{port}", certificates
        server.stop()


@pytest.mark.zookeeper
@pytest.mark.slow
async def test_mirror_connects_over_tls(secured):
    plain, encrypted, certificates = secured
    source = Source(build.broker(1), *topics(2))
    security = Security(tls=certificates.client_context())
    async with (
        running(f"{encrypted}/tls", source, security=security) as mirror,
        connected(f"{plain}/tls") as person,
    ):
        await in_step(mirror, source)
        assert await differences(person, source) == ()


@pytest.mark.zookeeper
@pytest.mark.slow
@pytest.mark.parametrize("how", ["plaintext", "stranger"])
async def test_untrusted_server_is_refused(secured, how):
    _, encrypted, _ = secured
    tls = Certificates().client_context() if how == "stranger" else None
    async with open_keeper(KeeperConfig(encrypted, 2000, security=Security(tls=tls))) as keeper:
        assert not await keeper.wait_connected(1.0)


@pytest.mark.zookeeper
@pytest.mark.slow
async def test_znodes_of_sasl_user_belong_to_it(secured):
    plain, encrypted, certificates = secured
    source = Source(build.broker(1), build.scram("alice"), *topics(1))
    security = Security(tls=certificates.client_context(), sasl=MIRROR)
    other = Security(sasl=DigestCredentials("other", "other"))
    async with (
        running(
            f"{encrypted}/sasl", source, security=security, secured=True, secrets=True
        ) as mirror,
        connected(f"{plain}/sasl", security=other) as stranger,
        connected(f"{plain}/sasl", security=Security(sasl=MIRROR), secured=True) as owner,
    ):
        await in_step(mirror, source)
        assert await differences(owner, source, secrets=True) == ()
        assert await stranger.read("/brokers/topics/topic-1") is not None
        with pytest.raises(PathRefusedError, match="NoAuth"):
            await stranger.read("/config/users/alice")
        acl, _ = await owner._answer(owner._client.get_acls_async("/config/users/alice"))
        assert [(entry.id.scheme, entry.id.id) for entry in acl] == [("sasl", "mirror")]


@pytest.mark.zookeeper
@pytest.mark.slow
async def test_wrong_password_is_reported(secured):
    plain, _, _ = secured
    wrong = Security(sasl=DigestCredentials("mirror", "wrong"))
    async with open_keeper(KeeperConfig(plain, 2000, security=wrong)) as keeper:
        with trio.fail_after(PATIENCE):
            while not keeper.is_refused:
                await keeper.wait_connected(0.1)
            assert not await keeper.wait_connected(0.1)


# RFC 2831, section 4: its uri is replaced by ZooKeeper's, so the digests differ. The JDK's own server computed these
# digests, and accepted them.
CHALLENGE = (
    b'realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",qop="auth",charset=utf-8,algorithm=md5-sess'
)


def test_challenge_is_answered_without_the_password():
    answer = DigestMd5(MIRROR, cnonce="OA6MHXh6VqTrRk").respond(CHALLENGE).decode()
    assert answer.startswith('username="mirror",realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",')
    assert 'digest-uri="zookeeper/zk-sasl-md5"' in answer
    assert "pass word" not in answer


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"nonsense without end",
        b'nonce="x",algorithm=md5',
        b'nonce="x",algorithm=md5-sess,qop="auth-int"',
        b"x" * 3000,
        b'nonce="unterminated',
    ],
)
def test_malformed_challenge_is_refused(challenge):
    with pytest.raises(DigestRefusedError):
        DigestMd5(MIRROR).respond(challenge)


def test_server_must_prove_the_password_too():
    exchange = DigestMd5(MIRROR)
    exchange.respond(CHALLENGE)
    with pytest.raises(DigestRefusedError, match="does not know the password"):
        exchange.respond(b"rspauth=00112233445566778899aabbccddeeff")
