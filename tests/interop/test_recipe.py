"""The recipes of docs/testing.md for a service on the JVM, and for Spark."""

import os

from tests.interop import apache_kafka
from tests.trimaran.testing.test_recipes import JVM, SPARK, recipes, run


def test_recipe_for_jvm_works(tmp_path):
    environ = {**os.environ, "KAFKA_JARS": apache_kafka.class_path()}
    assert "1 passed" in run(tmp_path, {JVM: recipes()[JVM]}, env=environ)


def test_recipe_for_spark_works(tmp_path):
    assert "1 passed" in run(tmp_path, {SPARK: recipes()[SPARK]})
