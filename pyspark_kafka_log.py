"""So that Spark finds the format `kafka_log` without being told: it imports every module named `pyspark_…` and
takes its `DefaultSource`. Nothing that can fail is imported before the format is used, as a failure would take all
other formats with it.
"""

from importlib import import_module
from typing import Any

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """Stands for `trimaran.spark.kafka_log.source.KafkaLogSource`, and becomes one."""

    @classmethod
    def name(cls) -> str:
        return "kafka_log"

    def __new__(cls, options: Any) -> Any:
        return import_module("trimaran.spark.kafka_log.source").KafkaLogSource(options)
