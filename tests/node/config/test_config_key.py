"""The parsed value of a text for a key of each type, at its bounds; and checks of values that clients can set."""

import math
import re

import pytest

from tests.checks import check_each
from trimaran.node.config.client_metrics_keys import check_client_metrics_configs
from trimaran.node.config.config_def import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigTypeId,
    all_of,
    at_least,
    between,
    between_or_default,
    java_double,
    one_of,
)
from trimaran.node.config.group_keys import check_group_configs
from trimaran.node.config.loggers import ROOT, _check
from trimaran.node.config.node_keys import override
from trimaran.node.config.providers import command_line_providers, resolve_text
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.incremental_alter_configs import AlterableConfig

PARSED = [
    ("boolean", " TRUE ", True),
    ("boolean", "false", False),
    ("boolean", "yes", None),
    ("boolean", "", None),
    ("short", "32767", 32767),
    ("short", "32768", None),
    ("short", "-32768", -32768),
    ("short", "-32769", None),
    ("int", "2147483647", 2147483647),
    ("int", "2147483648", None),
    ("int", "-2147483648", -2147483648),
    ("int", "-2147483649", None),
    ("long", "9223372036854775807", (1 << 63) - 1),
    ("long", "9223372036854775808", None),
    ("int", "1_000", None),
    ("int", "1.0", None),
    ("int", "", None),
    ("double", "1e3", 1000.0),
    ("double", "1_0.5", None),
    ("double", "x", None),
    ("list", " a, b ,c ", ["a", "b", "c"]),
    ("list", " a, b ,,c ", None),
    ("list", "", []),
    ("string", " a b ", "a b"),
    ("password", "x", "x"),
    ("class", "a.B", "a.B"),
]


def test_stored_list_is_read_without_empty_elements():
    one = key("list", check=all_of("a", "b"))
    assert one.parse_stored(" a,, b,") == ["a", "b"]
    with pytest.raises(ConfigError):
        one.parse_stored("a,,c")
    assert key("int").parse_stored(" 5 ") == 5


def key(kind, default=None, check=None, **options):
    return ConfigKey("a.key", kind, default, "A key.", check, **options)


def test_text_matches_type_or_is_refused():
    def is_so(row):
        kind, text, expected = row
        if expected is None:
            with pytest.raises(ConfigError) as refused:
                key(kind, 1).parse(text, origin="a.properties:3")
            assert (refused.value.key, refused.value.origin) == ("a.key", "a.properties:3")
            assert "a.properties:3" in str(refused.value)
        else:
            assert key(kind).parse(text) == expected, row

    check_each(PARSED, is_so)


def checks():
    """Returns checks, created within the test because their constructors are tested too."""
    return [
        (at_least(3), [3, 4], [2]),
        (between(3, 5), [3, 5], [2, 6]),
        (between_or_default(3, 5), [-1, 3, 5], [-2, 0, 2, 6]),
        (one_of("a", "b"), ["a", "b"], ["c", ""]),
        (all_of("a", "b"), [[], ["a"], ["b", "a"]], [["c"], ["a", "c"]]),
    ]


def test_bounds_apply_to_accepted_values():
    def is_so(row):
        check, right, wrong = row
        assert all(check(value) is None for value in right), row
        assert all(check(value) for value in wrong), row

    check_each(checks(), is_so)


@pytest.mark.parametrize(
    ("one", "text", "answer"),
    [
        (key("int", check=at_least(3)), "2", "Invalid value 2 for configuration a.key: Value must"),
        (key("list", check=all_of("a", "b")), "a,c,d", "Invalid value c for configuration a.key"),
        (key("boolean", check=one_of("x")), "true", "Invalid value true for"),
        (key("double", check=at_least(1e9)), "1e7", "Invalid value 1.0E7 for"),
    ],
)
def test_value_out_of_bounds_answers_like_kafka(one, text, answer):
    with pytest.raises(ConfigError) as refused:
        one.parse(text)
    assert refused.value.answer.startswith(answer)
    assert refused.value.fix == "write a value that is allowed; by default it is not set"


def test_key_accepting_only_default_gives_the_reason():
    one = key("int", 5, only_default="it is fixed")
    assert one.parse("5") == 5
    with pytest.raises(ConfigError, match="it is fixed") as refused:
        one.parse("6")
    assert refused.value.fix == "leave it out; the default is 5"
    assert "Only the default is accepted: it is fixed." in one.documentation
    assert "It has no effect here: so." in key("int", no_effect="so").documentation
    assert "before a restart: so." in key("int", no_effect_while_running="so").documentation
    assert key("int").documentation == "A key."


def refused():
    """Returns refused values, created within the test because their constructors are tested too."""
    return [
        (
            key("int", 5, at_least(1)),
            "0",
            (
                "Value must be at least 1",
                "write a value that is allowed; the default is 5",
                "Invalid value 0 for configuration a.key: ",
            ),
        ),
        (
            key("double", 0.5, between(0, 1)),
            "1.5",
            (
                "Value must be no more than 1",
                "write a value that is allowed; the default is 0.5",
                "Invalid value 1.5 for configuration a.key: ",
            ),
        ),
        (
            key("list", ["a"], all_of("a", "b")),
            "a,c,d",
            (
                "String must be one of: a, b",
                "write a value that is allowed; the default is a",
                "Invalid value c for configuration a.key: ",
            ),
        ),
        (
            key("list", [], lambda value: None if len(value) < 2 else "too many"),
            "a,b",
            (
                "too many",
                "write a value that is allowed; by default it is empty",
                "Invalid value a,b for configuration a.key: ",
            ),
        ),
        (
            key("string", None, one_of("a", "b"), required=True),
            "c",
            (
                "String must be one of: a, b",
                "write a value that is allowed; a.key is: A key.",
                "Invalid value c for configuration a.key: ",
            ),
        ),
        (
            key("boolean", True),
            "maybe",
            (
                "Expected value to be either true or false",
                "write true or false; the default is true",
                "Invalid value maybe for configuration a.key: ",
            ),
        ),
        (
            key("int", -1, between_or_default(1, 9)),
            "0",
            (
                "Value must be between 1 and 9 or equal to -1",
                "write a value that is allowed; the default is -1",
                "Invalid value 0 for configuration a.key: ",
            ),
        ),
        *(
            (
                key(kind, 1),
                text,
                (
                    f"Not a number of type {kind.upper()}",
                    f"write a whole number{bounds}; the default is 1",
                    f"Invalid value {text} for configuration a.key: ",
                ),
            )
            for kind, text, bounds in (
                ("short", "x", ""),
                ("int", "1_0", ""),
                ("long", str(1 << 63), f" from {-(1 << 63)} to {(1 << 63) - 1}"),
            )
        ),
        (
            key("double", 1.0),
            "x",
            (
                "Not a number of type DOUBLE",
                "write a number; the default is 1.0",
                "Invalid value x for configuration a.key: ",
            ),
        ),
    ]


def test_refusal_names_key_text_place_and_fix():
    def is_so(row):
        one, text, (why, fix, answer) = row
        with pytest.raises(ConfigError) as refused:
            one.parse(text, origin="f:3")
        error = refused.value
        assert (error.key, error.value, error.origin) == ("a.key", text, "f:3")
        assert (error.why, error.fix, error.answer) == (why, fix, answer + why)
        assert str(error) == f"a.key={text} (f:3): {why}"
        with pytest.raises(ConfigError, match=re.escape(f"a.key={text}: {why}")):
            one.parse(text)

    check_each(refused(), is_so)


def test_empty_list_element_needs_a_permitting_key():
    with pytest.raises(ConfigError) as refused:
        key("list").parse("a,,b", origin="f:3")
    error = refused.value
    assert (error.key, error.value, error.origin) == ("a.key", "a,,b", "f:3")
    assert (error.why, error.fix) == ("one of its values is empty", "remove the extra comma")
    assert error.answer == "Configuration 'a.key' values must not be empty."
    assert key("list", gaps=True).parse("a,,b,") == ["a", "b"]
    assert key("list", type_for_clients="string").parse("a,,b") == ["a", "b"]
    assert key("list").parse("  ") == []


def test_stored_list_may_have_gaps():
    assert key("list").parse_stored("a,,b") == ["a", "b"]
    assert key("int").parse_stored("5") == 5
    with pytest.raises(ConfigError) as refused:
        key("list", check=all_of("a")).parse_stored("b,", origin="f:3")
    assert refused.value.origin == "f:3"


def test_values_are_written_as_kafka_writes_them():
    one = key("string")
    written = [one.text_of(value) for value in (True, False, ["a", "b"], [], 0.5, 7, "x")]
    assert written == ["true", "false", "a,b", "", "0.5", "7", "x"]
    assert key("int").default_text == "none"
    assert key("boolean", False).default_text == "false"


def test_documentation_names_missing_effects():
    assert key("int", no_effect="so").documentation == "A key. It has no effect here: so."
    assert key("int", only_default="so").documentation == (
        "A key. Only the default is accepted: so."
    )
    assert key("int", no_effect_while_running="so").documentation == (
        "A key. An alteration has no effect before a restart: so."
    )


def test_fixed_key_is_refused_with_default():
    with pytest.raises(ConfigError) as refused:
        key("int", 5, only_default="it is fixed").parse("6", origin="f:3")
    error = refused.value
    assert (error.key, error.value, error.origin) == ("a.key", "6", "f:3")
    assert (error.why, error.fix) == ("it is fixed", "leave it out; the default is 5")


def test_table_of_keys_preserves_order():
    table = ConfigDef([key("int"), ConfigKey("b", "int", 1, "B.")])
    assert list(table) == ["a.key", "b"]
    assert len(table) == 2
    assert table["b"].default == 1


def test_key_sensitivity_follows_type_and_declaration():
    assert key("int").type_id is ConfigTypeId.INT
    assert key("string", type_for_clients="list").type_id is ConfigTypeId.LIST
    assert key("string", undeclared=True).type_id is ConfigTypeId.UNKNOWN
    assert [key(kind).sensitive for kind in ("password", "string")] == [True, False]
    assert key("string", undeclared=True).sensitive


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (0.5, "0.5"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-1.25e10, "-1.25E10"),
        (1e-4, "1.0E-4"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_double_is_written_as_in_java(value, text):
    assert java_double(value) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1:5", ("10.0.0.1", 5)),
        ("[::1]:0", ("::1", 0)),
        ("h:9999999999", ("h", 9_999_999_999)),
        ("h:99999999999", None),
        (":5", None),
        ("h", None),
        ("h:x", None),
        ("h:-1", None),
        ("h:", None),
    ],
)
def test_override_consists_of_host_and_count(text, expected):
    if expected is None:
        with pytest.raises(ConfigError, match="HOST:COUNT"):
            override(text)
        with pytest.raises(ConfigError) as refused:
            override(text)
        assert (refused.value.key, refused.value.value) == (
            "max.connections.per.ip.overrides",
            text,
        )
        assert refused.value.fix == "use an address or a host name, and a number"
    else:
        assert override(text) == expected


METRICS = [
    ({"interval.ms": "100"}, None),
    ({"interval.ms": "3600000", "metrics": "a,b"}, None),
    ({"match": "client_id=a.*,client_source_port=[0-9]+"}, None),
    ({"interval.ms": "99"}, "interval must be between"),
    ({"interval.ms": "3600001"}, "interval must be between"),
    ({"other": "1"}, "Unknown client metrics configuration: other"),
    ({"interval.ms": "x"}, "Not a number"),
    ({"match": "client_id"}, "Illegal client matching pattern: client_id"),
    ({"match": "client_id="}, "Illegal client matching pattern"),
    ({"match": "client_id=a=b"}, "Illegal client matching pattern"),
    ({"match": "other=a"}, "Illegal client matching pattern"),
    ({"match": "client_id=["}, "Illegal client matching pattern"),
    ({"match": "client_id=(?=a)b"}, "Illegal client matching pattern"),
    ({"match": r"client_id=(a)\1"}, "Illegal client matching pattern"),
    ({"match": r"client_id=(?:\pL?){999}"}, "Illegal client matching pattern"),
    ({"match": "other=a,client_id=a"}, "Illegal client matching pattern: other=a"),
]


def test_subscription_configs_follow_kafkas_wording():
    def is_so(row):
        configs, told = row
        if told is None:
            check_client_metrics_configs(configs)
            return
        with pytest.raises((KafkaError, ConfigError)) as refused:
            check_client_metrics_configs(configs)
        answer = getattr(refused.value, "answer", None) or str(refused.value)
        assert re.search(re.escape(told), answer), (row, answer)

    check_each(METRICS, is_so)


def test_unknown_group_config_answers_like_kafka():
    check_group_configs({})
    with pytest.raises(ConfigError) as refused:
        check_group_configs({"other": "1"})
    assert refused.value.answer == "Unknown group config name: other"


SET, DELETE, APPEND, SUBTRACT = range(4)
KNOWN = {ROOT: "INFO", "a.logger": "INFO"}
LEVELS = [
    ("a.logger", SET, "DEBUG", None),
    ("a.logger", DELETE, None, None),
    ("a.logger", DELETE, "NONSENSE", None),
    (ROOT, SET, "WARN", None),
    ("a.logger", SET, "NONSENSE", ErrorCode.INVALID_CONFIG),
    ("a.logger", SET, None, ErrorCode.INVALID_CONFIG),
    ("other", SET, "DEBUG", ErrorCode.INVALID_CONFIG),
    ("other", DELETE, None, ErrorCode.INVALID_CONFIG),
    (ROOT, DELETE, None, ErrorCode.INVALID_REQUEST),
    ("a.logger", APPEND, "DEBUG", ErrorCode.INVALID_REQUEST),
    ("a.logger", SUBTRACT, "DEBUG", ErrorCode.INVALID_REQUEST),
    ("a.logger", 9, "DEBUG", ErrorCode.INVALID_REQUEST),
]


def test_root_logger_level_cannot_be_removed():
    def is_so(row):
        name, operation, value, code = row
        change = AlterableConfig(name=name, config_operation=operation, value=value)
        if code is None:
            _check(change, KNOWN)
            return
        with pytest.raises(KafkaError) as refused:
            _check(change, KNOWN)
        assert refused.value.code is code, row

    check_each(LEVELS, is_so)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd"])
def test_directory_secret_is_a_file(tmp_path, name):
    (tmp_path / "secret").write_text("s")
    look_up = command_line_providers({})["dir"]
    assert look_up(str(tmp_path), "secret") == "s"
    with pytest.raises(ValueError, match="is not a file in"):
        look_up(str(tmp_path), name)


def test_variable_of_unknown_provider_stays():
    providers = command_line_providers({"A": "1"})
    assert resolve_text("${env:A}-${other:A}-${env:x:A}-$A", providers) == "1-${other:A}-1-$A"
    with pytest.raises(ValueError, match="no variable B"):
        resolve_text("${env:B}", providers)
