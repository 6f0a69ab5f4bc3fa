"""Principal names that are derived from certificates, as in Apache Kafka."""

import pytest

from trimaran.wire.security.principal import (
    NoMatchingRule,
    Principal,
    PrincipalMapping,
    principal_of_certificate,
)

KAFKAS = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U"
)


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        ("DEFAULT", "CN=x,O=y", "CN=x,O=y"),
        (KAFKAS, "CN=kafka,OU=ServiceUsers,O=Unknown,C=X", "kafka"),
        (KAFKAS, "CN=Duke,OU=JavaSoft,O=Sun Microsystems,L=A,ST=B,C=US", "duke@javasoft"),
        (KAFKAS, "OU=JavaSoft,CN=duke.1", "DUKE.1"),
        ("RULE:^CN=a$/b/,DEFAULT", "CN=c", "CN=c"),
        (" RULE:^CN=(a)$/$1/ ,  DEFAULT", "CN=a", "a"),
        ("RULE:(.*)/p-$1/", "x", "p-xp-"),  # Java's replaceAll, twice
        (r"RULE:(a)(b)/$1@$4\$1$12/", "ab", "a@$4$1a2"),
        (r"RULE:^CN=(.*?),O=a\/b$/$1/", "CN=x,O=a/b", "x"),
        (r"RULE:^CN=(.*)$/\x\/$1\\/", "CN=a", "x/a\\"),
        ("RULE:^CN=(.*)$/$1/", "CN=*", "*"),
        ("RULE:^CN=(.*)$/$1/", r"CN=a\,O=root", r"a\,O=root"),
    ],
)
def test_first_matching_rule_applies(rules, name, mapped):
    assert PrincipalMapping(rules).name_of(name) == mapped


@pytest.mark.parametrize("rules", ["RULE:^CN=a$/b/", "", "RULE:CN=a/b/"])
def test_name_without_matching_rule_is_refused(rules):
    with pytest.raises(NoMatchingRule):
        PrincipalMapping(rules).name_of("CN=a,O=b")


@pytest.mark.parametrize(
    "rules",
    [
        "RULE",
        "RULE:a",
        "RULE:a/b",
        "RULE:a/b/X",
        "DEFAULT DEFAULT",
        "default",
        "RULE:(/x/",
        "RULE:(?=a)a/x/",
    ],
)
def test_malformed_rule_is_refused(rules):
    with pytest.raises(ValueError, match=r"rules are written|cannot be used"):
        PrincipalMapping(rules)


def test_pattern_matching_takes_linear_time():
    """With backtracking it would practically never end."""
    with pytest.raises(NoMatchingRule):
        PrincipalMapping("RULE:(a+)+b/x/").name_of("a" * 50_000)


def certificate(name):
    return {"subject": ((("commonName", name),),)}


def test_principals_of_certificates_are_mapped():
    mapping = PrincipalMapping("RULE:^CN=(.*)$/$1/")
    assert principal_of_certificate(certificate("alice"), mapping) == Principal("alice")


def test_name_with_nul_is_unknown():
    with pytest.raises(NoMatchingRule):
        principal_of_certificate(certificate("alice\0.evil.example"))
