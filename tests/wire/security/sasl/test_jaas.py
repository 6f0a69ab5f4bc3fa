"""The grammar of `sasl.jaas.config`."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trimaran.node.security.plain import PLAIN_MODULE
from trimaran.wire.security.sasl.jaas import parse_jaas, parse_jaas_file


def test_module_with_options_is_parsed():
    found = parse_jaas(f'{PLAIN_MODULE} required username="a b" password=s user_x="q\\"; =";')
    assert found.name == PLAIN_MODULE
    assert found.options == {"username": "a b", "password": "s", "user_x": 'q"; ='}


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text()))
@example({"password": ";"})
@example({"password": "="})
def test_any_value_may_be_quoted(options):
    escaped = {k: v.replace("\\", "\\\\").replace('"', '\\"') for k, v in options.items()}
    text = " ".join(f'{k}="{v}"' for k, v in escaped.items())
    assert parse_jaas(f"M required {text};").options == options


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "CLASS required"),
        ("M", "CLASS required"),
        ("M maybe a=b;", "CLASS required"),
        ("M required a=b", "semicolon"),
        ("M required a=b; N required c=d;", "only one"),
        ("M required a;", "NAME=VALUE"),
        ("M required a=b c;", "NAME=VALUE"),
        ('M required a="b;', "never closed"),
    ],
)
def test_faults_are_named_without_secrets(text, why):
    with pytest.raises(ValueError, match=why):
        parse_jaas(text)


FILE = f"""// a comment with {{ braces }};
KafkaServer {{
    {PLAIN_MODULE} required  /* another; */
    username="admin"
    password="s;e/*c{{r}}et//" # and another
    user_alice="a";
    M optional a=b;
}};
other.KafkaServer {{ }};
"""


def test_file_has_login_modules_by_section():
    found = parse_jaas_file(FILE)
    assert list(found) == ["KafkaServer", "other.KafkaServer"]
    plain, other = found["KafkaServer"]
    assert plain.name == PLAIN_MODULE
    assert plain.options == {"username": "admin", "password": "s;e/*c{r}et//", "user_alice": "a"}
    assert (other.name, other.options) == ("M", {"a": "b"})
    assert found["other.KafkaServer"] == []
    assert parse_jaas_file("# nothing") == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("KafkaServer {", "a section is written"),
        ("M required a=b;", "a section is written"),
        ("K { M required a=b }", "section K does not end with a semicolon"),
        ("K { M required a=b; N required c=d };", "section K does not end with a semicolon"),
        ("K { M maybe; };", "section K: a login module is written"),
        ('K { M required a="b; };', "a section is written"),
    ],
)
def test_faults_of_files_are_named(text, why):
    with pytest.raises(ValueError, match=why):
        parse_jaas_file(text)
