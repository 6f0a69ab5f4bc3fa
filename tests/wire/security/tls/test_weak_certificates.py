"""Certificates that Java accepts and OpenSSL does not: a node names the certificate and the reason."""

import datetime as dt
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from trimaran.wire.security.tls.certificate import der_values
from trimaran.wire.security.tls.contexts import TlsError, TlsSettings, server_context
from trimaran.wire.security.tls.weak_certificates import weaknesses

PEM = serialization.Encoding.PEM
NOW = dt.datetime.now(dt.UTC)
SHA_256, SHA_1, MD5 = (bytes.fromhex(f"2a864886f70d0101{end}") for end in ("0b", "05", "04"))


def key_of(bits=2048):
    return rsa.generate_private_key(65537, bits)


def named(text):
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example")
    return x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, text)])


def certificate(subject, key, issuer, issuer_key, algorithm=SHA_256):
    """Returns a certificate; since weak digests can no longer be used to sign, only the name of the algorithm is
    replaced.
    """
    builder = x509.CertificateBuilder(named(issuer), named(subject), key.public_key(), 7)
    builder = builder.not_valid_before(NOW - dt.timedelta(days=1))
    builder = builder.not_valid_after(NOW + dt.timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    der = builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    return ssl.DER_cert_to_PEM_cert(der.replace(SHA_256, algorithm))


def pem_of(key):
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(PEM, form, serialization.NoEncryption()).decode()


@pytest.fixture(scope="module")
def keys():
    return key_of(), key_of()


def refusal(key, *chain):
    settings = TlsSettings(
        keystore_type="PEM", keystore_key=pem_of(key), keystore_chain="".join(chain)
    )
    with pytest.raises(TlsError) as caught:
        server_context(settings)
    return caught.value


def test_leaf_signed_with_sha_1_is_named(keys):
    own, authority = keys
    error = refusal(own, certificate("node", own, "ca", authority, SHA_1))
    assert "CN=node,O=Example is signed with SHA-1" in error.why
    assert "issued again" in error.fix
    assert "SHA-256" in error.fix


def test_error_names_the_file(keys, tmp_path):
    own, authority = keys
    store = tmp_path / "node.pem"
    store.write_text(pem_of(own) + certificate("node", own, "ca", authority, SHA_1))
    with pytest.raises(TlsError, match=rf"{store}: the certificate of CN=node"):
        server_context(TlsSettings(keystore_type="PEM", keystore_location=str(store)))


def test_weak_certificate_of_chain_is_named(keys):
    own, authority = keys
    leaf = certificate("node", own, "middle", authority)
    error = refusal(own, leaf, certificate("middle", authority, "root", own, SHA_1))
    assert "CN=middle,O=Example is signed with SHA-1" in error.why
    assert "CN=node" not in error.why


def test_md5_is_named(keys):
    own, authority = keys
    error = refusal(own, certificate("node", own, "ca", authority, MD5))
    assert "CN=node,O=Example is signed with MD5" in error.why


def test_short_key_is_named_in_error(keys):
    short = key_of(1024)
    error = refusal(short, certificate("node", short, "ca", keys[1]))
    assert "CN=node,O=Example has an RSA key of 1024 bits" in error.why


def test_other_weakness_has_a_general_description(keys):
    short = ec.generate_private_key(ec.SECP192R1())
    error = refusal(short, certificate("node", short, "ca", keys[1]))
    assert "a certificate of the chain is too weak; Java takes that, OpenSSL does not" in error.why
    assert "(EE_KEY_TOO_SMALL)" in error.why


def test_each_weak_rsa_digest_has_its_name(keys):
    own, authority = keys
    names = {"02": "MD2", "04": "MD5", "05": "SHA-1"}
    for end, name in names.items():
        algorithm = SHA_256[:-1] + bytes.fromhex(end)
        (told,) = weaknesses(certificate("node", own, "ca", authority, algorithm))
        assert told.endswith(f"is signed with {name}")


def test_rsa_keys_below_2048_bits_are_weak(keys):
    _, authority = keys
    for bits, is_weak in ((2047, True), (2048, False), (2056, False)):
        found = weaknesses(certificate("node", key_of(bits), "ca", authority))
        assert (
            found
            == [f"the certificate of CN=node,O=Example has an RSA key of {bits} bits"] * is_weak
        )


def test_self_signature_is_not_checked(keys):
    own, _ = keys
    chain = certificate("node", own, "node", own, SHA_1)
    server_context(TlsSettings(keystore_type="PEM", keystore_key=pem_of(own), keystore_chain=chain))
    assert weaknesses(chain) == []


def test_strong_certificates_have_no_weakness(keys):
    own, authority = keys
    assert weaknesses(certificate("node", own, "ca", authority)) == []


@given(st.binary(max_size=300))
def test_any_bytes_are_no_certificate(data):
    assert weaknesses(ssl.DER_cert_to_PEM_cert(data)) == []
    assert weaknesses("-----BEGIN CERTIFICATE-----") == []


def test_truncated_certificate_yields_nothing_at_each_byte(keys):
    own, authority = keys
    der = ssl.PEM_cert_to_DER_cert(certificate("node", own, "ca", authority, SHA_1))
    assert len(weaknesses(ssl.DER_cert_to_PEM_cert(der))) == 1
    for end in range(len(der)):
        assert weaknesses(ssl.DER_cert_to_PEM_cert(der[:end])) == []


@pytest.mark.parametrize("size", [0, 1, 127, 128, 255, 256, 70_000])
def test_der_lengths_have_one_or_more_bytes(size):
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    length = bytes([size]) if size < 128 else bytes([128 + len(digits)]) + digits
    one = b"\x04" + length + b"v" * size
    assert list(der_values(one + b"\x05\x00" + one)) == [
        (4, b"v" * size),
        (5, b""),
        (4, b"v" * size),
    ]
    assert list(der_values(b"\x04\x80" + one)) == [
        (4, b""),
        (4, b"v" * size),
    ]  # a length field of no bytes
    for cut in (one[:-1], one + b"\x05", one + b"\x05\x01"):
        with pytest.raises(IndexError):
            list(der_values(cut))
