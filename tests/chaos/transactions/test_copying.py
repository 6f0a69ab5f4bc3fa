"""A copier with a blocked client continues with a replacement."""

import threading

import confluent_kafka
import pytest

from tests.chaos.exactly_once import judge
from tests.chaos.transactions import copying
from tests.chaos.transactions.copying import PARTITIONS, SOURCE, TARGET, Run, Task
from tests.cluster.processes import until
from trimaran.testing import EmbeddedKafka


@pytest.fixture
def kafka():
    with EmbeddedKafka() as kafka:
        for topic in (SOURCE, TARGET):
            kafka.create_topic(topic, partitions=PARTITIONS)
        yield kafka


@pytest.fixture
def kept(monkeypatch):
    """Blocks calls of the first producer that sends offsets, until the test ends."""
    released, keeps = threading.Event(), []

    class Producer(confluent_kafka.Producer):
        def send_offsets_to_transaction(self, *arguments):
            if not keeps or keeps[0] is self:
                keeps.append(self)
                released.wait()
            super().send_offsets_to_transaction(*arguments)

    monkeypatch.setattr(copying, "Producer", Producer)
    monkeypatch.setattr(copying, "HANG_SECONDS", 1.0)
    yield keeps
    released.set()


def test_member_with_hanging_producer_call_is_replaced(kafka, kept):
    run = Run(kafka.bootstrap, seed=1)
    run.begin_at_zero()
    source, copier, reader = Task(run.fill), Task(lambda: run.copy(0)), Task(run.read_along)
    until(lambda: len(run.acked) > 100 and kept, "inputs, and a call that has no end", 30)
    run.stop_source.set()
    source.join()
    until(lambda: run.acked <= {value for _, value in list(run.along)}, "every input copied", 60)
    run.stop.set()
    copier.join()
    reader.join()
    output = run.read_all(lambda found: run.acked <= set(found.values()))
    assert judge(run.sent, run.acked, output, run.along).ok
    assert run.hangs == len(kept) == 1
