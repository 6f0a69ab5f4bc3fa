"""Names of Kerberos principals, and the rules that shorten them, as in Kafka's `KerberosNameTest` and
`KerberosRuleTest`.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.wire.security.kerberos_names import LocalNames, NoLocalName

REALM = "REALM.COM"
APP = [
    r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g",
    r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g",
    "DEFAULT",
]
LOWER = [
    "RULE:[1:$1]/L",
    r"RULE:[2:$1](Test.*)s/ABC///L",
    r"RULE:[2:$1](ABC.*)s/ABC/XYZ/g/L",
    r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g/L",
    "RULE:[2:$1]/L",
    "DEFAULT",
]
UPPER = [rule.replace("/L", "/U") for rule in LOWER]


def local(rules, name, realm=REALM):
    return LocalNames(rules, realm).local_name(name)


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        (APP, "App.service-name/example.com@REALM.COM", "service-name"),
        (APP, "App.service-name@REALM.COM", "service-name"),
        (APP, "user/host@REALM.COM", "user"),
        (LOWER, "User@REALM.COM", "user"),
        (LOWER, "TestABC/host@FOO.COM", "test"),
        (LOWER, "ABC_User_ABC/host@FOO.COM", "xyz_user_xyz"),
        (LOWER, "App.SERVICE-name/example.com@REALM.COM", "service-name"),
        (LOWER, "User/root@REALM.COM", "user"),
        (UPPER, "User@REALM.COM", "USER"),
        (UPPER, "TestABC/host@FOO.COM", "TEST"),
        (UPPER, "ABC_User_ABC/host@FOO.COM", "XYZ_USER_XYZ"),
        (UPPER, "App.SERVICE-name/example.com@REALM.COM", "SERVICE-NAME"),
        (UPPER, "User/root@REALM.COM", "USER"),
    ],
)
def test_principals_get_names_as_in_kafka(rules, name, expected):
    assert local(rules, name) == expected


@pytest.mark.parametrize(
    ("rule", "name", "expected"),
    [
        ("RULE:[2:$1.$2.$0]", "a/b@C", "a.b.C"),
        ("RULE:[1:$0$1-x]", "a@C", "Ca-x"),
        ("RULE:[2:fixed]", "a/b@C", "fixed"),
        ("RULE:[01:$1]", "a@C", "a"),
        ("RULE:[1:$1]s/a/b/", "aaa@C", "baa"),
        ("RULE:[1:$1]s/a/b/g", "aaa@C", "bbb"),
        ("RULE:[1:$1]s/a*/-/g", "baac@C", "-b--c-"),
        ("RULE:[1:$1]s/a*/-/", "baac@C", "-baac"),
        ("RULE:[1:$1]s/x/y/", "a@C", "a"),
        (r"RULE:[1:$1]s/(.)(.)/$2$1$0/", "ab@C", "baab"),
        (r"RULE:[1:$1]s/(.)/$12/", "ab@C", "a2b"),
        ("RULE:[1:$1]s/" + "(.)" * 12 + ".*/$12$1/", "abcdefghijklm@C", "la"),
        ("RULE:[1:$1]s/" + "(.)" * 12 + ".*/$13/", "abcdefghijklm@C", "a3"),
        ("RULE:[1:$1]s/abcdefghijk(.)/$1/", "abcdefghijkl@C", "l"),
        (r"RULE:[1:$1]s/a/\$1\\/", "a@C", "$1\\"),
        (r"RULE:[1:$1]s/(x)?a/<$1>/", "a@C", "<>"),
        ("RULE:[1:$1](a)", "a@C", "a"),
        ("RULE:[1:$1](a)", "ab@C", None),
        ("RULE:[1:$1](a)", "ba@C", None),
        ("RULE:[1:$1]", "a/b@C", None),
        ("RULE:[2:$1]", "a@C", None),
        ("RULE:[0:x]", "a@C", None),
        ("RULE:[3:$1]", "a/b@C", None),
        ("RULE:[1:$1]L", "ÀB@C", "àb"),
        ("RULE:[1:$1]U", "àb@C", "ÀB"),
        ("DEFAULT", "a@REALM.COM", "a"),
        ("DEFAULT", "a@realm.com", None),
        ("DEFAULT", "a@REALM.COM.EVIL", None),
    ],
)
def test_rule_applies_or_leaves_name_to_next(rule, name, expected):
    if expected is None:
        with pytest.raises(NoLocalName, match=re.escape("no rule of sasl.kerberos.principal.to")):
            local([rule], name)
        assert local([rule, "RULE:[1:next]", "RULE:[2:next]"], name) == "next"
    else:
        assert local([rule], name) == expected


def test_first_rule_that_applies_decides():
    rules = ["RULE:[1:$1](a)s/a/first/", "RULE:[1:second]"]
    assert local(rules, "a@C") == "first"
    assert local(rules, "b@C") == "second"
    assert local(rules[::-1], "a@C") == "second"


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("RULE:[2:$1/$2]", "a/b@C"),
        ("RULE:[1:$1@$0]", "a@C"),
        ("RULE:[1:$1]s/a//", "a@C"),
        ("DEFAULT", "@REALM.COM"),
    ],
)
def test_result_that_is_no_simple_name_is_refused(rule, name):
    """The next rule is not tried, as in Kafka."""
    with pytest.raises(NoLocalName, match="no simple name"):
        local([rule, "RULE:[1:next]", "RULE:[2:next]"], name)


@pytest.mark.parametrize(
    "name",
    ["", "a", "a/b", "a/b/c@R", "a@b@R", "a@R/x", r"a\/b@R", r"admin\@R@S", r"a@R\@S", "a\0@R"],
)
def test_name_of_another_form_is_refused(name):
    """The library escapes a separator inside a component; no rule may take it for the end of the component."""
    with pytest.raises(NoLocalName, match="not written"):
        local(["RULE:[1:admin]", "RULE:[2:admin]"], name)


@pytest.mark.parametrize(
    "rule",
    [
        *("", "default", "DEFAULT/L", "DEFAULT ", "RULE:", "RULE:[]", "RULE:[x:$1]", "RULE:[:$1]"),
        *("RULE:[1:$1", "RULE:[1:$1](a", "RULE:[1:$1]s/a/b", "RULE:[1:$1]s/a/b/x"),
        *(
            "RULE:[1:$1]/l",
            "RULE:[1:$1]//L",
            "rule:[1:$1]",
            "RULE:[1234567890:$1]",
            "RULE:[1:$1]\n",
        ),
        *("RULE:[1:$2]", "RULE:[2:$3]", "RULE:[3:$3]", "RULE:[1:$]", "RULE:[1:$x]", "RULE:[1:$01]"),
        *("RULE:[1:$1](*)", "RULE:[1:$1]s/*/b/", "RULE:[1:$1](?!a)", r"RULE:[1:$1]s/(a)\1/b/"),
        *("RULE:[1:$1]s/a/$1/", "RULE:[1:$1]s/a/$/", "RULE:[1:$1]s/a/b\\/", "RULE:[1:$1]s/(a)/$2/"),
    ],
)
def test_invalid_rules_are_refused_at_the_start(rule):
    with pytest.raises(ValueError, match=r"rules|rule|pattern|replacement"):
        LocalNames(["DEFAULT", rule], REALM)


COMPONENT = st.text("abX.-", min_size=1, max_size=6)


@given(COMPONENT, st.none() | COMPONENT, st.sampled_from(["R", "REALM.COM"]))
def test_default_takes_first_component_of_own_realm(service, host, realm):
    name = service if host is None else f"{service}/{host}"
    names = LocalNames(["DEFAULT", "RULE:[1:other]", "RULE:[2:other]"], "R")
    assert names.local_name(f"{name}@{realm}") == (service if realm == "R" else "other")


def test_matching_takes_linear_time():
    rule = "RULE:[1:$1](" + "a*" * 30 + "b)"
    with pytest.raises(NoLocalName, match="no rule"):
        local([rule], "a" * 20_000 + "@C")
