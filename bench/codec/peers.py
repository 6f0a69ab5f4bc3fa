"""A codec of a case as two callables; each peer first proves that it reads and writes the same bytes.

kio reads with a native (Rust) module since 0.6 and writes in Python; kafka-python generates code. Both lack metadata
records.
"""

from __future__ import annotations

import gc
import importlib
import io
import time
import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bench.codec.cases import Case
from trimaran.wire.buffers.outgoing import Outgoing


class Codec(NamedTuple):
    """`decode()` and `encode()` of one case, with bound arguments."""

    decode: Callable[[], object]
    encode: Callable[[], object]


def ours(case: Case, data: bytes) -> Codec:
    message = type(case.message).decode(data, case.version)

    def encode():
        out = Outgoing()
        message.encode_into(out, case.version)
        return out

    return Codec(lambda: type(message).decode(data, case.version), encode)


def kio(case: Case, data: bytes) -> Codec | None:
    from kio.index import load_entity_schema
    from kio.serial import entity_reader, entity_writer
    from kio.static.constants import EntityType

    if case.kind == "record":
        return None
    name = type(case.message).__name__.removesuffix(case.kind.capitalize()).lower()
    entity = load_entity_schema(name, case.version, EntityType[case.kind])
    read, write = entity_reader(entity), entity_writer(entity)
    message, _ = read(data, 0)

    def encode():
        out = io.BytesIO()
        write(out, message)
        return out.getvalue()

    return Codec(lambda: read(data, 0), encode)


KAFKA_PYTHON = {
    "Fetch": "kafka.protocol.consumer.fetch",
    "Produce": "kafka.protocol.producer.produce",
    "Metadata": "kafka.protocol.metadata.metadata",
}


def kafka_python(case: Case, data: bytes) -> Codec | None:
    if case.kind == "record":
        return None
    name = type(case.message).__name__
    with warnings.catch_warnings():  # it reads its JSON in a deprecated way
        warnings.simplefilter("ignore", DeprecationWarning)
        module = importlib.import_module(KAFKA_PYTHON[name.removesuffix(case.kind.capitalize())])
    cls = getattr(module, name)
    message = cls.decode(data, version=case.version)
    message._header = None  # its decoder does not set the attribute, but its encoder reads it
    return Codec(
        lambda: cls.decode(data, version=case.version),
        lambda: message.encode(version=case.version),
    )


PEERS = {"ours": ours, "kio 0.6": kio, "kafka-python": kafka_python}
ROUNDS = 7


def open_codec(peer: str, case: Case, data: bytes) -> Codec | None:
    """Returns the codec of a peer; None if it does not support the message."""
    codec = PEERS[peer](case, data)
    if codec is not None:
        codec.decode()
        assert bytes(codec.encode()) == data, f"{peer} writes {case.name} differently"
    return codec


def best_us(actions: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Returns the least mean CPU time of each over rounds in which they take turns, including garbage collection."""
    repeats = {}
    for name, action in actions.items():
        action()
        repeats[name] = max(1, int(seconds / ROUNDS / max(cpu_seconds(action, 1), 1e-7)))
    gc.collect()
    best = dict.fromkeys(actions, float("inf"))
    for _ in range(ROUNDS):
        for name, action in actions.items():
            spent = cpu_seconds(action, repeats[name]) / repeats[name]
            best[name] = min(best[name], spent * 1e6)
    return best


def cpu_seconds(action: Callable[[], object], repeats: int) -> float:
    """Returns the CPU time, which other processes of the machine do not change."""
    began = time.thread_time()
    for _ in range(repeats):
        action()
    return time.thread_time() - began
