"""The names that `trimaran.spark.kafka_options` decides about are those of the connector and of Kafka's clients."""

import subprocess
from pathlib import Path

import pyspark

from tests.interop import apache_kafka, spark_connector
from tests.interop.java_programs import SOURCES

LISTED = Path(__file__).parents[1] / "spark/kafka_log/testdata/connector_options.txt"
SPARK = Path(pyspark.__file__).parent / "jars" / "*"


def printed(jars, *words):
    """Returns the lines of `ConnectorOptions.java` on these jars."""
    path = ":".join(map(str, jars))
    program = ("java", "-cp", path, SOURCES / "ConnectorOptions.java", *words)
    told = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    return set(told.splitlines())


def test_listed_options_are_those_of_the_jars():
    with_connector = printed([*spark_connector.jars(), SPARK], "connector")
    newest = printed([f"{apache_kafka.libraries()}/*"])
    listed = {line for line in LISTED.read_text().splitlines() if not line.startswith("#")}
    assert with_connector | newest == listed
