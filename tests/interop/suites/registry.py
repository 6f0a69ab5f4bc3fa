"""The third-party suites, in the order of docs/compatibility.md. A suite is a module or an object with: - `NAME`,
`VERSION`, and `NEEDS`: the programs that it needs on the PATH. - `run(bootstrap, work, only)`: returns the states of
its tests by name, `passed`, `failed` or `skipped`. `bootstrap` names brokers, `work` is an empty folder for its output,
`only` chooses tests by their names.
- `STARTS_NODES`, if that is true: its `run(kind, work, only)` starts the nodes itself, "ours" or "kafka".
- `SOURCES`, if no package index carries its tests: a folder below the one that `--sources` names.
"""

from tests.interop.suites import (
    aiokafka,
    applications,
    commands,
    confluent_kafka_go,
    confluent_kafka_python,
    franz_go,
    kafka_go,
    kafka_javascript,
    kafka_python,
    kafkajs,
    librdkafka,
    monitors,
    platformatic_kafka,
    rskafka,
    rust_rdkafka,
    sarama,
)

SUITES = (
    librdkafka,
    franz_go,
    kafka_python,
    sarama,
    kafka_go,
    applications,
    rskafka,
    *commands.PROGRAMS,
    *monitors.PROGRAMS,
    confluent_kafka_python,
    kafkajs,
    kafka_javascript,
    confluent_kafka_go,
    aiokafka,
    platformatic_kafka,
    rust_rdkafka,
)
