"""`version`: the version of trimaran, and the version of Apache Kafka with the same protocol and formats."""

from __future__ import annotations

from importlib.metadata import version as installed_version

from trimaran.cli.output import Format, show_fields

KAFKA_VERSION = "4.4.0"


def own_version() -> str:
    """Returns the installed version of trimaran."""
    return installed_version("trimaran")


def version(*, output: Format = "table") -> None:
    """Prints the version of trimaran, and the version of Apache Kafka that it matches."""
    show_fields({"trimaran": own_version(), "kafka": KAFKA_VERSION}, output)
