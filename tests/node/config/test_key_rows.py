"""Keys written as rows of text, and keys of the tables with their own checks."""

import pytest

from tests.checks import check_each
from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.key_rows import rows
from trimaran.node.config.legacy_admin_keys import KINDS
from trimaran.node.config.security_keys import STANDARD_AUTHORIZER
from trimaran.node.config.server_keys import SERVER_CONFIGS

ROWS = """
    a.key | int 1..5 | 3 | high dynamic
        A doc.
    b.key | long ..7 | null | medium per-broker
        B doc.
    c.key | list | x,y | low
        C doc.
    d.key | double 0.. | 0.5 | internal
        D doc.
"""


def test_text_rows_are_keys_with_bounds():
    keys = rows(ROWS, no_effect="so")
    assert [
        (key.name, key.kind, key.default, key.doc, key.importance, key.scope, key.internal)
        for key in keys
    ] == [
        ("a.key", "int", 3, "A doc.", "high", "cluster-wide", False),
        ("b.key", "long", None, "B doc.", "medium", "per-broker", False),
        ("c.key", "list", ["x", "y"], "C doc.", "low", "read-only", False),
        ("d.key", "double", 0.5, "D doc.", "low", "read-only", True),
    ]
    assert {key.no_effect for key in keys} == {"so"}
    assert rows(ROWS)[0].no_effect == ""
    first, second, third, fourth = (key.check for key in keys)
    least, most = "Value must be at least 1", "Value must be no more than 5"
    assert [first(value) for value in (0, 1, 5, 6)] == [least, None, None, most]
    assert [second(value) for value in (-(10**30), 7, 8)] == [
        None,
        None,
        "Value must be no more than 7",
    ]
    assert third is None
    assert [fourth(value) for value in (-1, 0, 10**30)] == ["Value must be at least 0", None, None]


CHECKS_OF_KEYS = [
    ("group.consumer.assignors", "uniform,range", None),
    ("group.consumer.assignors", "org.apache.kafka.coordinator.group.assignor.RangeAssignor", None),
    (
        "group.consumer.assignors",
        "uniform,x,y",
        "assignors are uniform and range, and own ones cannot be loaded: x, y",
    ),
    (
        "group.consumer.assignors",
        "",
        "assignors are uniform and range, and own ones cannot be loaded: none is named",
    ),
    ("group.consumer.migration.policy", "Upgrade", None),
    (
        "group.consumer.migration.policy",
        "up",
        "String must be one of: disabled, upgrade, downgrade, bidirectional",
    ),
    ("group.coordinator.rebalance.protocols", "classic,share", None),
    ("group.coordinator.rebalance.protocols", "consumer", "classic cannot be left out"),
    (
        "group.coordinator.rebalance.protocols",
        "classic,x,y",
        "protocols of groups are classic, consumer, streams, share, not x, y",
    ),
    ("max.connections.per.ip.overrides", "a:1,[::1]:2", None),
    ("max.connections.per.ip.overrides", "a:1,b", "an override is written HOST:COUNT"),
    ("ssl.principal.mapping.rules", "DEFAULT", None),
    (
        "ssl.principal.mapping.rules",
        "RULE:x",
        "rules are written RULE:pattern/replacement/[LU] or DEFAULT",
    ),
    ("authorizer.class.name", "", None),
    ("authorizer.class.name", STANDARD_AUTHORIZER, None),
    ("authorizer.class.name", "x.Y", f"the one authorizer here is {STANDARD_AUTHORIZER}"),
    ("trimaran.zk.legacy.admin.kinds", ",".join(KINDS), None),
    ("trimaran.zk.legacy.admin.kinds", f"{KINDS[0]},x,y", f"x, y is none of {', '.join(KINDS)}"),
    ("log.retention.ms", "-1", None),
    ("log.retention.ms", "1", None),
    ("log.retention.ms", "0", "Value must be negative for never, or at least 1"),
]


def test_keys_with_own_checks_follow_them():
    def is_so(row):
        name, text, why = row
        if why is None:
            SERVER_CONFIGS[name].parse(text)
            return
        with pytest.raises(ConfigError) as refused:
            SERVER_CONFIGS[name].parse(text)
        assert refused.value.why == why

    check_each(CHECKS_OF_KEYS, is_so)
