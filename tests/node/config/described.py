"""The description by Apache Kafka 4.4 of every config that it declares, from `testdata/kafka_configs.txt`.

A row has the kind of resource, name, type, whether a broker can be given another value, the default, and the synonyms
of the default. `tests/interop/test_described_configs.py` compares the table with Apache Kafka's response, and rewrites
it with `REWRITE_TRANSCRIPTS=1`.
"""

from pathlib import Path

from trimaran.node.config.config_def import ConfigTypeId
from trimaran.node.config.config_source import ConfigSource

TABLE = Path(__file__).parent / "testdata" / "kafka_configs.txt"
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
WORDS = {BROKER: "broker", TOPIC: "topic", GROUP: "group", METRICS: "client-metrics"}


def rows(kind, configs):
    """Returns the rows of a response about a resource without its own settings."""
    return [row(WORDS[kind], config) for config in sorted(configs, key=lambda one: one.name)]


def row(word, config):
    defaults = [synonym for synonym in config.synonyms if synonym.source == ConfigSource.DEFAULT]
    own = [default.value for default in defaults if default.name == config.name]
    is_default = config.config_source == ConfigSource.DEFAULT or word != "broker"
    default = own[0] if own else config.value if is_default else None
    return " | ".join(
        (
            word,
            config.name,
            ConfigTypeId(config.config_type).name.lower(),
            "read-only" if config.read_only else "dynamic",
            "null" if default is None else default,
            ",".join(default.name for default in defaults),
        )
    ).rstrip()


def table():
    return TABLE.read_text().splitlines()
