"""`wire/records/config_names.py` lists the configs that are not secret, as in the key tables.

`REWRITE_TRANSCRIPTS=1` rewrites it.
"""

import textwrap
from pathlib import Path

import pytest

from tests import datadriven
from tests.node.config import kafka_dynamic
from tests.node.config.described import BROKER, GROUP, LOGGER, METRICS, TOPIC, table
from trimaran.node.config.client_metrics_keys import CLIENT_METRICS_CONFIGS
from trimaran.node.config.dynamic_keys import declared_key
from trimaran.node.config.group_keys import GROUP_CONFIGS
from trimaran.node.config.server_keys import DYNAMIC_ONLY, SERVER_CONFIGS
from trimaran.node.config.topic_keys import TOPIC_CONFIGS
from trimaran.wire.records import config_names
from trimaran.wire.records.sensitive import is_sensitive

FILE = Path(config_names.__file__)
TABLES = {
    "TOPIC_CONFIGS": (TOPIC_CONFIGS,),
    "GROUP_CONFIGS": (GROUP_CONFIGS,),
    "CLIENT_METRICS_CONFIGS": (CLIENT_METRICS_CONFIGS,),
    "BROKER_CONFIGS": (SERVER_CONFIGS, DYNAMIC_ONLY),
}
HEAD = '''"""Names of the configs that are not secret, by resource type: any other config may be secret.

Generated from the tables of `node/config` by `REWRITE_TRANSCRIPTS=1 pytest tests/node/config/test_config_names.py`.
"""

from __future__ import annotations
'''


def public_names(tables):
    keys = [key for table in tables for key in table.values()]
    return sorted({key.name for key in keys if not key.sensitive})


def text():
    parts = [HEAD]
    for name, tables in TABLES.items():
        lines = textwrap.fill(
            " ".join(public_names(tables)),
            width=116,
            initial_indent="    ",
            subsequent_indent="    ",
            break_on_hyphens=False,
        )
        parts.append(f'{name} = frozenset(\n    """\n{lines}\n    """.split()\n)\n')
    return "\n".join(parts[:1]) + "\n" + "".join(parts[1:])


def test_file_matches_the_tables():
    if datadriven.REWRITE:
        FILE.write_text(text())
    assert FILE.read_text() == text()


def test_config_sensitivity_matches_kafka():
    kinds = {"broker": BROKER, "topic": TOPIC, "group": GROUP, "client-metrics": METRICS}
    for line in table():
        word, name, kind, *_ = line.split(" | ")
        assert is_sensitive(name, kinds[word]) is (kind == "password"), line


@pytest.mark.parametrize("name", kafka_dynamic.ALL)
def test_listener_config_is_as_sensitive_as_nodes(name):
    key = declared_key(name)
    assert is_sensitive(f"listener.name.a.{name}", BROKER) is key.sensitive
    assert is_sensitive(name, BROKER) is key.sensitive


@pytest.mark.parametrize(
    ("kind", "name", "sensitive"),
    [
        (BROKER, "my.reporter.interval.ms", True),
        (BROKER, "super.users", True),
        (BROKER, "cleanup.policy", True),  # a config of topics
        (BROKER, "listener.name.a.my.own", True),
        (BROKER, "listener.name.a.plain.sasl.jaas.config", True),
        (BROKER, "listener.name.a.plain.connections.max.reauth.ms", False),
        (BROKER, "listener.name.a.my.password.of.mine", True),
        (BROKER, "leader.replication.throttled.rate", False),
        (TOPIC, "cleanup.policy", False),
        (TOPIC, "log.cleanup.policy", True),
        (TOPIC, "my.own", True),
        (GROUP, "consumer.session.timeout.ms", False),
        (GROUP, "my.own", True),
        (METRICS, "my.own", False),
        (LOGGER, "my.own", False),
        (77, "cleanup.policy", True),
        (None, "cleanup.policy", False),
        (None, "log.cleanup.policy", False),
        (None, "my.own", True),
        (None, "ssl.keystore.password", True),
    ],
)
def test_undeclared_config_is_secret(kind, name, sensitive):
    assert is_sensitive(name, kind) is sensitive
