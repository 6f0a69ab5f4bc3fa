"""Java keystores, written by a naive twin of the reader, with any content, and damaged in one place each."""

import hashlib
import ssl
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks import check_each
from trimaran.wire.security.tls.jks import JksError, pem_of_jks

MAGIC = bytes.fromhex("feedfeed")
KEY, CERTIFICATE = 1, 2


def u16(text):
    return len(text).to_bytes(2, "big") + text


def u32(data):
    return len(data).to_bytes(4, "big") + data


def der(tag, content):
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 128 + len(digits)]) + digits + content


def secret(password):
    return password.encode("utf-16-be")


def sealed(plain, password, salt=b"0123456789abcdefghij"):
    """Encrypts a private key as `KeyProtector` does."""
    hidden, block = bytearray(), salt
    for place in count(0, 20):
        if place >= len(plain):
            break
        block = hashlib.sha1(secret(password) + block).digest()
        hidden += bytes(a ^ b for a, b in zip(plain[place : place + 20], block, strict=False))
    return salt + hidden + hashlib.sha1(secret(password) + plain).digest()


def protected(octets):
    return der(0x30, der(0x30, b"\6\1\1\5\0") + der(0x04, octets))


def certificate(data, version=2, kind=b"X.509"):
    return (u16(kind) if version == 2 else b"") + u32(data)


def entry(tag, content):
    return tag.to_bytes(4, "big") + u16(b"alias") + bytes(8) + content


def key_entry(key, chain, version=2):
    certificates = b"".join(certificate(link, version) for link in chain)
    return entry(KEY, u32(key) + len(chain).to_bytes(4, "big") + certificates)


def store(entries, password="store", version=2):
    numbers = version.to_bytes(4, "big") + len(entries).to_bytes(4, "big")
    data = MAGIC + numbers + b"".join(entries)
    return data + hashlib.sha1(secret(password) + b"Mighty Aphrodite" + data).digest()


def pem(data):
    return ssl.DER_cert_to_PEM_cert(data)


def key_pem(data):
    return pem(data).replace("CERTIFICATE", "PRIVATE KEY")


PASSWORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DER = st.binary(min_size=1, max_size=60) | st.sampled_from(
    [b"k" * size for size in (127, 128, 255, 256, 70_000)]
)
KEYS = st.tuples(DER, st.lists(DER, max_size=3))


@given(st.sampled_from([1, 2]), st.lists(KEYS | DER, max_size=4), PASSWORDS, PASSWORDS)
def test_store_yields_first_key_chain_and_authorities(version, held, password, own):
    key_password = own or None
    opens = own or password
    entries = [
        entry(CERTIFICATE, certificate(item, version))
        if isinstance(item, bytes)
        else key_entry(protected(sealed(item[0], opens)), item[1], version)
        for item in held
    ]
    keys = [entry for entry in held if isinstance(entry, tuple)][:1]
    expected = [text for key, chain in keys for text in (key_pem(key), *map(pem, chain))]
    trusted = [pem(entry) for entry in held if isinstance(entry, bytes)]
    data = store(entries, password, version)
    assert pem_of_jks(data, password, key_password) == "".join(expected + trusted)
    if key_password is None:
        assert pem_of_jks(data, None) == "".join(trusted)


SOUND = [
    entry(CERTIFICATE, certificate(b"trusted")),
    key_entry(protected(sealed(b"key" * 30, "own")), [b"leaf", b"issuer"]),
]


def test_truncated_store_is_refused_at_each_byte():
    data = store(SOUND)
    pem_of_jks(data, "store", "own")

    def is_refused(end):
        with pytest.raises(JksError):
            pem_of_jks(data[:end], None, "own")

    check_each(range(len(data)), is_refused)


def test_changed_store_is_refused_at_each_byte():
    data = store(SOUND)

    def is_refused(place):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(JksError):
            pem_of_jks(changed, "store", "own")

    check_each(range(len(data)), is_refused)


def with_key(octets):
    return store([key_entry(protected(octets), [b"leaf"])])


GOOD = sealed(b"key", "store")
DAMAGED = [
    ("its version is not known", store(SOUND, version=0)),
    ("its version is not known", store(SOUND, version=3)),
    ("none of X.509", store([entry(CERTIFICATE, certificate(b"c", kind=b"X.50"))])),
    (
        "none of X.509",
        store([key_entry(protected(GOOD), []), SOUND[0].replace(b"X.509", b"x.509")]),
    ),
    ("kind that is not known", store([entry(0, b"")])),
    ("kind that is not known", store([entry(3, b"")])),
    ("a private key ends too early", with_key(sealed(b"", "store"))),
    ("a private key ends too early", with_key(GOOD[:20])),
    ("the password of the private key is wrong", with_key(GOOD[:-1] + b"x")),
    ("the password of the private key is wrong", with_key(b"x" + GOOD[1:])),
    ("the password of the private key is wrong", with_key(sealed(b"key", "Store"))),
    ("not written as it should be", store([key_entry(der(0x31, b""), [])])),
    ("not written as it should be", store([key_entry(der(0x30, der(0x31, b"")), [])])),
    (
        "not written as it should be",
        store([key_entry(der(0x30, der(0x30, b"") + der(3, b"")), [])]),
    ),
    ("it ends too early", store([key_entry(protected(GOOD)[:-1], [])])),
    ("it ends too early", store([key_entry(b"\x30", [])])),
]


def test_fault_of_store_is_named():
    def is_said(case):
        why, data = case
        with pytest.raises(JksError, match=why):
            pem_of_jks(data, "store")

    check_each(DAMAGED, is_said)
