"""TLS contexts from settings, valid and invalid."""

import contextlib
import ssl
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificates
from hypothesis import given
from hypothesis import strategies as st

from tests.certificates import Certificates
from trimaran.wire.security.tls.contexts import (
    TlsError,
    TlsSettings,
    client_context,
    openssl_name,
    server_context,
)
from trimaran.wire.security.tls.jks import JksError, pem_of_jks

STORES = Path(__file__).parent / "testdata"


@pytest.fixture(scope="module")
def certificates():
    return Certificates()


def test_pem_parts_may_share_one_file(certificates, tmp_path):
    key, chain = certificates.server
    (tmp_path / "server.pem").write_text(key + chain)
    (tmp_path / "ca.pem").write_text(certificates.ca)
    context = server_context(
        TlsSettings(
            keystore_type="PEM",
            keystore_location=str(tmp_path / "server.pem"),
            truststore_type="PEM",
            truststore_location=str(tmp_path / "ca.pem"),
            client_auth="required",
        )
    )
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1


def test_keys_may_be_encrypted(certificates):
    key = serialization.load_pem_private_key(certificates.server[0].encode(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    ).decode()
    settings = certificates.server_settings((encrypted, certificates.server[1]))
    server_context(replace(settings, key_password="secret"))
    with pytest.raises(TlsError, match=r"ssl\.key\.password"):
        server_context(settings)
    with pytest.raises(TlsError, match="no usable private key"):
        server_context(replace(settings, key_password="wrong"))


def test_pkcs12_is_read(certificates, tmp_path):
    key, chain = certificates.server
    certificate, *others = load_pem_x509_certificates(chain.encode())
    store = tmp_path / "server.p12"
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"server",
            serialization.load_pem_private_key(key.encode(), None),
            certificate,
            others or None,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    settings = TlsSettings(
        keystore_type="PKCS12",
        keystore_location=str(store),
        keystore_password="secret",
        key_password="secret",
    )
    server_context(settings)
    with pytest.raises(TlsError, match=r"ssl\.keystore\.password"):
        server_context(replace(settings, keystore_password="wrong"))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"keystore_key": None, "keystore_chain": None}, "ssl.keystore.location"),
        ({"keystore_key": None}, "ssl.keystore.key"),
        ({"keystore_type": "JKS"}, "ssl.keystore.type"),
        ({"keystore_chain": "no certificate"}, "ssl.keystore.key"),
        ({"keystore_chain": None, "keystore_location": "/none"}, "ssl.keystore.location"),
        ({"truststore_type": "JKS", "client_auth": "required"}, "ssl.truststore.type"),
        (
            {"truststore_certificates": "x", "client_auth": "required"},
            "ssl.truststore.certificates",
        ),
        ({"cipher_suites": ["NONE"]}, "ssl.cipher.suites"),
        (
            {"cipher_suites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], "protocols": ["TLSv1.3"]},
            "ssl.enabled.protocols",
        ),
    ],
)
def test_wrong_setting_is_named(certificates, changes, key):
    with pytest.raises(TlsError) as raised:
        server_context(replace(certificates.server_settings(), **changes))
    assert raised.value.key == key
    assert raised.value.fix


JKS = TlsSettings(
    keystore_location=str(STORES / "node.jks"),
    keystore_password="store-secret",
    key_password="key-secret",
    truststore_location=str(STORES / "trust.jks"),
    truststore_password="trust-secret",
    client_auth="required",
)


def test_keystores_made_by_keytool_are_read():
    context = server_context(JKS)
    client = client_context(replace(JKS, truststore_password=None))  # not checked, as in Java
    assert context.cert_store_stats()["x509"] == client.cert_store_stats()["x509"] == 1


def test_store_named_jks_may_be_pkcs12():
    """Java reads either format under both names."""
    settings = replace(JKS, truststore_location=str(STORES / "trust.p12"))
    assert server_context(settings).cert_store_stats()["x509"] == 1


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"keystore_password": "wrong"}, "ssl.keystore.password"),
        ({"key_password": "wrong"}, "ssl.keystore.password"),
        ({"key_password": None}, "ssl.keystore.password"),
        ({"truststore_password": "wrong"}, "ssl.truststore.password"),
        ({"keystore_type": "PEM"}, "ssl.keystore.type"),
        ({"keystore_location": str(STORES / "node.crt")}, "ssl.keystore.type"),
    ],
)
def test_unusable_stores_name_their_key(changes, key):
    with pytest.raises(TlsError) as raised:
        server_context(replace(JKS, **changes))
    assert raised.value.key == key


@given(st.integers(0, 600), st.integers(1, 255))
def test_damaged_store_raises_only_its_error(place, change):
    data = (STORES / "node.jks").read_bytes()
    place %= len(data)
    damaged = data[:place] + bytes([data[place] ^ change]) + data[place + 1 :]
    with pytest.raises(JksError):
        pem_of_jks(damaged, "store-secret", "key-secret")
    for part in (damaged, data[:place]):
        with contextlib.suppress(JksError):
            pem_of_jks(part, None)


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
    ],
)
def test_suites_are_known_by_their_names_in_rfcs(certificates, suite, name):
    assert openssl_name(suite) == openssl_name(name) == name
    context = certificates.server_context(cipher_suites=[suite], protocols=["TLSv1.2"])
    assert name in {cipher["name"] for cipher in context.get_ciphers()}
    assert context.maximum_version == ssl.TLSVersion.TLSv1_2


def test_server_names_are_verified_unless_disabled(certificates):
    assert certificates.client_context().check_hostname
    assert not certificates.client_context(check_hostname=False).check_hostname


def test_store_named_pkcs12_may_be_jks():
    """Java also distinguishes the two by content."""
    settings = replace(JKS, keystore_type="PKCS12", truststore_type="PKCS12")
    assert server_context(settings).cert_store_stats()["x509"] == 1


def shaken(server, client):
    """Returns the server's side after a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(4):
        for side in (theirs, ours):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return ours


def test_client_with_keystore_sends_its_certificate(certificates):
    server = certificates.server_context(client_auth="requested")
    assert shaken(server, certificates.client_context()).getpeercert() is None
    assert shaken(server, certificates.client_context(certificates.client)).getpeercert()


@pytest.mark.parametrize(
    ("protocols", "versions"),
    [
        (("TLSv1.2",), ("TLSv1_2", "TLSv1_2")),
        (("TLSv1.3", "TLSv1.2"), ("TLSv1_2", "TLSv1_3")),
        (("TLSv1.3",), ("TLSv1_3", "TLSv1_3")),
    ],
)
def test_tls_versions_span_oldest_to_newest_named(certificates, protocols, versions):
    context = server_context(replace(certificates.server_settings(), protocols=protocols))
    assert (context.minimum_version.name, context.maximum_version.name) == versions


def test_listener_without_certificate_is_refused():
    with pytest.raises(TlsError, match=r"ssl\.keystore\.location.*needs a certificate"):
        server_context(TlsSettings())


def test_key_reaches_openssl_without_memory_files(certificates, monkeypatch):
    monkeypatch.delattr("os.memfd_create")
    context = certificates.server_context()
    assert context.cert_store_stats()["x509"] == 0
    assert shaken(context, certificates.client_context()).version() == "TLSv1.3"


def test_pkcs12_without_package_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "trimaran.wire.security.tls.pkcs12", None)
    with pytest.raises(TlsError, match=r"needs the package cryptography; pip install") as raised:
        client_context(TlsSettings(truststore_location=str(STORES / "trust.p12")))
    assert raised.value.key == "ssl.truststore.type"


@pytest.mark.parametrize("make", [server_context, client_context])
def test_system_authorities_are_trusted_without_truststore(
    certificates, make, monkeypatch, tmp_path
):
    (tmp_path / "ca.pem").write_text(certificates.ca)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    settings = certificates.server_settings(client_auth="required")
    context = make(replace(settings, truststore_certificates=None))
    assert context.cert_store_stats()["x509"] == 1


def test_both_sides_use_configured_versions_and_suites(certificates):
    settings = replace(
        certificates.server_settings(),
        protocols=["TLSv1.2"],
        cipher_suites=["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
    )
    for make in (server_context, client_context):
        context = make(settings)
        assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_2
        older = {
            cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.2"
        }
        assert older == {"ECDHE-RSA-AES128-GCM-SHA256"}
        assert context.options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no list",
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n",
    ],
)
def test_file_without_revocation_lists_is_refused(certificates, tmp_path, text):
    """The error names the setting."""
    (tmp_path / "crl.pem").write_text(text)
    settings = certificates.server_settings(
        client_auth="required", crl_location=str(tmp_path / "crl.pem")
    )
    for make in (server_context, client_context):
        with pytest.raises(TlsError, match="no usable revocation lists") as raised:
            make(settings)
        assert raised.value.key == "trimaran.ssl.crl.location"


@pytest.mark.parametrize("name", ["trust.p12", "trust.jks"])
def test_store_named_pem_is_read_only_as_pem(name):
    settings = TlsSettings(truststore_type="PEM", truststore_location=str(STORES / name))
    with pytest.raises(TlsError, match="is no PEM file") as raised:
        client_context(settings)
    assert raised.value.key == "ssl.truststore.type"


def test_keystore_without_password_is_refused():
    client_context(JKS)
    with pytest.raises(TlsError) as raised:
        client_context(replace(JKS, keystore_password="wrong"))
    assert raised.value.key == "ssl.keystore.password"


@pytest.mark.parametrize("trusts_the_machine", [False, True])
def test_revocation_lists_apply_to_all_authorities(certificates, tmp_path, trusts_the_machine):
    (tmp_path / "crl.pem").write_text(certificates.revocation_list(certificates.client))
    settings = certificates.server_settings(
        client_auth="required", crl_location=str(tmp_path / "crl.pem")
    )
    if trusts_the_machine:
        settings = replace(settings, truststore_certificates=None)
    for make in (server_context, client_context):
        context = make(settings)
        assert context.verify_flags & ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
        assert context.cert_store_stats()["crl"] == 1
