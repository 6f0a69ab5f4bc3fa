"""The first programs of docs/first_programs.md in Java, Go and JavaScript, each on a broker of its own."""

import shutil

import pytest

from tests.interop import apache_kafka, franz_go
from tests.interop.manual import write_programs
from tests.interop.suites import javascript
from tests.interop.suites.building import command
from tests.processes.test_start_pages import PROGRAMS, READ, WRITTEN
from trimaran.testing import EmbeddedKafka

NODE_CLIENT = "@platformatic/kafka@1.35.0"


def check_both(kind, folder, producer, consumer):
    """Runs a language's producer, then its consumer, and checks what they print."""
    with EmbeddedKafka() as kafka:
        write_programs(PROGRAMS, kind, folder, kafka.bootstrap)
        kafka.create_topic("orders")
        assert command(*producer, folder=folder) == WRITTEN
        assert command(*consumer, folder=folder) == READ


def test_first_programs_in_java_write_and_read(tmp_path):
    java = ("java", "-cp", apache_kafka.class_path())
    check_both("java", tmp_path, (*java, "FirstProducer.java"), (*java, "FirstConsumer.java"))


@pytest.mark.skipif(franz_go.why_not() is not None, reason="needs go on the PATH")
def test_first_programs_in_go_write_and_read(tmp_path):
    franz_go.copy_module(tmp_path)
    check_both("go", tmp_path, ("go", "run", "producer.go"), ("go", "run", "consumer.go"))


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs node and npm on the PATH")
def test_first_programs_in_javascript_write_and_read(tmp_path):
    javascript.link_modules("first-programs", NODE_CLIENT, tmp_path)
    check_both("javascript", tmp_path, ("node", "producer.mjs"), ("node", "consumer.mjs"))
