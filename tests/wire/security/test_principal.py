"""Names of certificates as Java writes them."""

import pytest

from wire.security.principal import ANONYMOUS, distinguished_name, principal_of_certificate


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (((("countryName", "AT"),), (("commonName", "alice"),)), "CN=alice,C=AT"),
        (((("commonName", "a, b+c"),),), r"CN=a\, b\+c"),
        (((("commonName", " #x "),),), "CN=\\ #x\\ "),
        (((("commonName", "#x"),),), r"CN=\#x"),
        (((("organizationName", "o"), ("commonName", "x")),), "O=o+CN=x"),
        (((("emailAddress", "a@b"),),), "1.2.840.113549.1.9.1=#1603614062"),
        ((), ""),
    ],
)
def test_names_are_written_as_rfc_2253_says(subject, name):
    assert distinguished_name(subject) == name


def test_a_principal_is_typed_and_nobody_is_anonymous():
    assert str(principal_of_certificate({"subject": ((("commonName", "x"),),)})) == "User:CN=x"
    assert principal_of_certificate({}) == principal_of_certificate(None) == ANONYMOUS
