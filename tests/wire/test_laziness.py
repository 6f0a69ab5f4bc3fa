"""The cost of imports: no other message is imported, and no code is generated before a message is first encoded or
decoded.
"""

import subprocess
import sys
import tracemalloc

import pytest

from tests.undisturbed import undisturbed
from trimaran.wire.codec import build, reader, writer
from trimaran.wire.messages.fetch import FetchRequest
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def modules_after(source: str) -> set[str]:
    code = f"import sys; before = set(sys.modules); {source}; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name for name in run.stdout.split() if name.startswith("trimaran.wire")}


def test_import_of_wire_loads_one_module():
    assert modules_after("import trimaran.wire") == {"trimaran.wire"}


def messages_after(source: str) -> set[str]:
    return {name for name in modules_after(source) if name.startswith("trimaran.wire.messages.")}


def test_message_imports_no_other_message():
    found = messages_after("import trimaran.wire.messages.fetch")
    assert found == {"trimaran.wire.messages.fetch"}


def test_message_imports_neither_transport_nor_security():
    found = modules_after("import trimaran.wire.messages.fetch")
    assert {name.split(".")[2] for name in found if name.count(".") > 1} == {
        "buffers",
        "codec",
        "errors",
        "identity",
        "later",
        "messages",
        "schema",
    }


def test_message_table_imports_no_message():
    found = messages_after("import trimaran.wire.messages.header")
    assert found == {"trimaran.wire.messages.header", "trimaran.wire.messages.registry"}


@pytest.mark.parametrize("module", [reader, writer], ids=["reader", "writer"])
def test_code_is_generated_only_for_used_messages(monkeypatch, module):
    built = []
    name = "ReaderGenerator" if module is reader else "WriterGenerator"
    original = getattr(module, name).build
    monkeypatch.setattr(
        getattr(module, name), "build", lambda self, cls: built.append(cls) or original(self, cls)
    )
    monkeypatch.setattr(FetchRequest, "readers", {})
    monkeypatch.setattr(FetchRequest, "writers", {})
    monkeypatch.setattr(build, "build_decoder", None)  # if no module is compiled
    monkeypatch.setattr(build, "generated_reader", build.generated_reader.__wrapped__)
    message = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    for _ in range(2):
        FetchRequest.decode(message.encode(12), 12)
    assert built == [FetchRequest]


@pytest.mark.skipif(build.build_decoder is None, reason="not compiled here")
def test_compiled_decoder_generates_no_code_for_valid_bytes(monkeypatch):
    monkeypatch.setattr(build, "generated_reader", None)
    monkeypatch.setattr(FetchRequest, "readers", {})
    message = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    assert FetchRequest.decode(message.encode(12), 12) == message


def test_records_are_views_of_the_frame():
    """A large Produce creates only objects for its partitions; its batches stay in the receive buffer."""
    data = [PartitionProduceData(index=0, records=bytes(1 << 20))]
    request = ProduceRequest(
        acks=1, timeout_ms=1, topic_data=[TopicProduceData(partition_data=data)]
    )
    frame = bytearray(request.encode(13))
    ProduceRequest.decode(memoryview(frame), 13)
    with undisturbed():
        tracemalloc.start()
        decoded = ProduceRequest.decode(memoryview(frame), 13)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert peak < 10_000
