"""Parsing of `--add-scram`, and refusals that never contain the password."""

import base64

import pytest

from trimaran.quorum.formatting.scram import scram_record
from trimaran.wire.security.sasl.scram import credential_of, salted_password

SALT = base64.b64encode(b"salty").decode()


def test_password_yields_keys_for_server():
    record = scram_record(f'SCRAM-SHA-512=[name="al=ice",password=p=w,salt={SALT},iterations=8192]')
    expected = credential_of("sha512", "p=w", b"salty", 8192)
    assert (record.name, record.mechanism, record.iterations) == ("al=ice", 2, 8192)
    assert (record.stored_key, record.server_key) == (expected.stored_key, expected.server_key)


def test_salted_password_is_accepted_too():
    salted = base64.b64encode(salted_password("sha256", "pw", b"salty", 4096)).decode()
    record = scram_record(f"SCRAM-SHA-256=[name=a,salt={SALT},saltedpassword={salted}]")
    assert record.stored_key == credential_of("sha256", "pw", b"salty", 4096).stored_key


def test_secret_may_be_a_variable():
    text = "SCRAM-SHA-256=[name=a,password=${x},salt=AAAA]"
    record = scram_record(text, lambda value: value.replace("${x}", "p,w]"))
    assert record.stored_key == credential_of("sha256", "p,w]", b"\0\0\0", 4096).stored_key


def test_salts_are_new_each_time():
    one, other = (scram_record("SCRAM-SHA-256=[name=a,password=b]") for _ in range(2))
    assert one.salt != other.salt
    assert one.iterations == 4096


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SCRAM-SHA-1=[name=a,password=topsecret]",
        "SCRAM-SHA-256=name=a,password=topsecret",
        "SCRAM-SHA-256=[password=topsecret]",
        "SCRAM-SHA-256=[name=a]",
        "SCRAM-SHA-256=[name=a,password=]",
        "SCRAM-SHA-256=[name=a,password=topsecret,password=topsecret]",
        "SCRAM-SHA-256=[name=a,passwort=topsecret]",
        "SCRAM-SHA-256=[name=a,password=topsecret,iterations=4095]",
        "SCRAM-SHA-256=[name=a,password=topsecret,iterations=1000000000]",
        "SCRAM-SHA-256=[name=a,password=topsecret,saltedpassword=AAAA]",
        "SCRAM-SHA-256=[name=a,saltedpassword=AAAA]",
        "SCRAM-SHA-256=[name=a,password=topsecret,salt=!]",
    ],
)
def test_invalid_scram_arguments_are_refused_without_secrets(text):
    with pytest.raises(ValueError, match=r"add-scram|password") as raised:
        scram_record(text)
    assert "topsecret" not in str(raised.value)
