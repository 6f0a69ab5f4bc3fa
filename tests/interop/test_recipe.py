"""The recipe of docs/testing.md for a service on the JVM."""

import os

from tests.interop import apache_kafka
from tests.trimaran.testing.test_recipes import JVM, recipes, run


def test_the_recipe_for_a_jvm_works(tmp_path):
    environ = {**os.environ, "KAFKA_JARS": apache_kafka.class_path()}
    assert "1 passed" in run(tmp_path, {JVM: recipes()[JVM]}, env=environ)
