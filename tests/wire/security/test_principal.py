"""Names of certificates as Java writes them."""

import pytest

from trimaran.wire.security.principal import ANONYMOUS, distinguished_name, principal_of_certificate


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (((("countryName", "AT"),), (("commonName", "alice"),)), "CN=alice,C=AT"),
        (((("commonName", "a, b+c"),),), r"CN=a\, b\+c"),
        (((("commonName", r'q"\<>;'),),), r"CN=q\"\\\<\>\;"),
        (((("organizationName", "o"), ("commonName", "x")),), "O=o+CN=x"),
        (((("emailAddress", "a@b"),),), "1.2.840.113549.1.9.1=#1603614062"),
        (((("emailAddress", "a" * 127),),), "1.2.840.113549.1.9.1=#167f" + "61" * 127),
        (((("emailAddress", "a" * 128),),), "1.2.840.113549.1.9.1=#168180" + "61" * 128),
        (((("emailAddress", "a" * 300),),), "1.2.840.113549.1.9.1=#1682012c" + "61" * 300),
        ((), ""),
    ],
)
def test_names_are_written_as_rfc_2253_says(subject, name):
    assert distinguished_name(subject) == name


def test_principal_has_type_and_default_is_anonymous():
    assert str(principal_of_certificate({"subject": ((("commonName", "x"),),)})) == "User:CN=x"
    assert principal_of_certificate({}) == principal_of_certificate(None) == ANONYMOUS


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (" ", r"\ "),
        ("  ", r"\ \ "),
        ("x", "x"),
        ("  x", r"\ \ x"),
        ("x  ", r"x\ \ "),
        ("\r x", "\\\r\\ x"),
        ("x y", "x y"),
        ("#x", r"\#x"),
        ("x#y", r"x\#y"),
        (" #x ", r"\ \#x\ "),
        ("a=b", r"a\=b"),
        ("é ", r"é\ "),
    ],
)
def test_value_is_escaped_like_in_java(value, written):
    """Printed by `X500Principal.getName()` of OpenJDK 17, and used for the principal in ACLs."""
    assert distinguished_name(((("commonName", value),),)) == f"CN={written}"
