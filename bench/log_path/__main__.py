"""The path of an append and of a read through a log, ours and Apache Kafka's in turn, without network: MB/s and CPU
seconds per GB.

Run: `./dev bench log-path [--seconds S] [--markdown] [WORD …]`; WORDs choose cases: a size, a codec, `batches of 1
MiB`, `recovery`, `compaction`. `append` appends one batch repeatedly, of about 16 KiB (Kafka's `batch.size`) or 1 MiB:
CRC and every record checked, offsets assigned, one write into the page cache, indexes. Kafka's part is its `UnifiedLog`
with its `LogValidator` in a warmed-up JVM (`LogPath.java`). `read` finds the slice of a read of 1 MiB somewhere in the
log; `read and send` does so from the log's start on and gives the slices to a socket that another process reads.
`recovery` reads, checks and indexes a log of 256 MB as after a crash. `compaction` is one round over all of a log.

CPU is that of the whole process, a JVM's compiler and collector included. A figure is the best of `ROUNDS` rounds, in
which the two take turns; for compaction it is the best of three, one log after the other. Rounds, and the earlier ones
that warm up the JVM, end by CPU time: a busy machine lengthens them without changing their work.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.log_path.compaction import write as write_for_compaction
from bench.log_path.peers import Kafka, Line, Ours, Peer, Sink, removed
from bench.results import Figure, print_markdown, print_table
from bench.sizes import sized
from tests.interop import apache_kafka
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression

VALUE_BYTES = {"100 B": 90, "1 KiB": 1010}
RECORD_BYTES = {"100 B": 100, "1 KiB": 1024}
BATCH_BYTES = {"16 KiB": 16 << 10, "1 MiB": 1 << 20}
ROUNDS = 5
# Bytes of a round of appends, without write-back while it runs.
LOG_BYTES_MAX = sized(256 << 20, 4 << 20)
RECOVERED_BYTES = sized(256 << 20, 4 << 20)
COMPACTED_BYTES = sized(200 << 20, 2 << 20)


def batch_of(size: str, codec: Compression, batch_bytes: int) -> bytes:
    """Returns a batch. Half of each value is random and half repeats, so that codecs can compress it to some extent.
    Large batches stay below 1,000,012 bytes.
    """
    half = VALUE_BYTES[size] // 2
    prng = random.Random(7)
    now_ms = time.time_ns() // 1_000_000
    count = min(batch_bytes, 1_000_000) // RECORD_BYTES[size]
    records = [NewRecord(None, prng.randbytes(half) + b"v" * half, now_ms) for _ in range(count)]
    return build_batch(records, compression=codec)


def best(lines: Sequence[Line]) -> tuple[float, float]:
    """Returns the highest rate per second, and the fewest CPU seconds per unit."""
    rate = max(line.done / line.seconds for line in lines)
    return rate, min(line.cpu_seconds / line.done for line in lines)


def moved(bench: str, case: str, peer: Peer, lines: Sequence[Line]) -> list[Figure]:
    rate, cpu = best(lines)
    return [
        Figure(bench, case, "MB/s", "higher", peer.name, rate / 1e6),
        Figure(bench, f"{case}: CPU", "s/GB", "lower", peer.name, cpu * 1e9),
    ]


class Bench:
    """The measurements, each with both logs in turn."""

    def __init__(self, folder: Path, seconds: float, peers: Sequence[Peer]) -> None:
        self._folder = folder
        self._round_seconds = seconds / ROUNDS
        self._peers = peers

    def _begin(self, batch: bytes) -> None:
        file = self._folder / "batch"
        file.write_bytes(batch)
        for peer in self._peers:
            peer.begin(self._folder / f"{peer.name}-0", file)
            for _ in range(ROUNDS):  # warms up: a JVM compiles
                peer.append(self._round_seconds, LOG_BYTES_MAX)

    def _end(self) -> None:
        for peer in self._peers:
            peer.end()
            removed(self._folder / f"{peer.name}-0")

    def _rounds(self, action: Callable[[Peer], Line]) -> list[tuple[Peer, list[Line]]]:
        lines: list[tuple[Peer, list[Line]]] = [(peer, []) for peer in self._peers]
        for _ in range(ROUNDS):
            for peer, mine in lines:
                mine.append(action(peer))
        return lines

    def append(self, size: str, codec: Compression, batch: str) -> list[Figure]:
        case = f"{size} {codec.name.lower()}, batches of {batch}"
        self._begin(batch_of(size, codec, BATCH_BYTES[batch]))
        lines = self._rounds(lambda peer: peer.append(self._round_seconds, LOG_BYTES_MAX))
        self._end()
        return [figure for peer, mine in lines for figure in moved("append", case, peer, mine)]

    def read(self, size: str, batch: str) -> list[Figure]:
        case = f"{size}, batches of {batch}"
        self._begin(batch_of(size, Compression.NONE, BATCH_BYTES[batch]))
        for peer in self._peers:
            peer.append(60, LOG_BYTES_MAX)
            peer.look_up(self._round_seconds)
        found = []
        for peer, lines in self._rounds(lambda peer: peer.look_up(self._round_seconds)):
            micros = best(lines)[1] * 1e6
            found.append(Figure("read", f"{case}: look-up", "CPU µs", "lower", peer.name, micros))
        sink = Sink()
        try:
            sent = self._rounds(lambda peer: peer.send(self._round_seconds, sink.port))
        finally:
            sink.close()
        self._end()
        for peer, lines in sent:
            found += moved("read and send", case, peer, lines)
        return found

    def recovery(self) -> list[Figure]:
        """Measures recovery: one log of ours for all; each system gets copies without indexes."""
        source = self._folder / "source-0"
        ours, file = Ours(), self._folder / "batch"
        file.write_bytes(batch_of("1 KiB", Compression.NONE, BATCH_BYTES["16 KiB"]))
        ours.begin(source, file)
        ours.append(600, RECOVERED_BYTES)
        ours.end()
        for path in [*source.glob("*.*index"), *source.glob("*.snapshot")]:
            path.unlink()
        lines = self._rounds(lambda peer: peer.recover(self._copy(source, peer)))
        return [f for peer, mine in lines for f in moved("recovery", "1 KiB", peer, mine)]

    def compaction(self, size: str, codec: Compression) -> list[Figure]:
        source, case = self._folder / "source-0", f"{size} {codec.name.lower()}"
        removed(source)
        write_for_compaction(source, COMPACTED_BYTES, VALUE_BYTES[size], codec)
        found = []
        for peer in self._peers:
            rounds = [peer.compact(self._copy(source, peer)) for _ in range(3)]
            found += moved("compaction", case, peer, [Line(*measured[:3]) for measured in rounds])
            memory = min(measured.memory_mib for measured in rounds)
            left = rounds[0].bytes_left / 1e6
            found += [
                Figure("compaction", f"{case}: memory", "MiB", "lower", peer.name, memory),
                Figure("compaction", f"{case}: left", "MB", "lower", peer.name, left),
            ]
        return found

    def _copy(self, source: Path, peer: Peer) -> Path:
        copy = self._folder / f"{peer.name}-0"
        removed(copy)
        shutil.copytree(source, copy)
        return copy


def cases(bench: Bench) -> dict[str, Callable[[], list[Figure]]]:
    found: dict[str, Callable[[], list[Figure]]] = {}
    for batch in BATCH_BYTES:
        for size in VALUE_BYTES:
            for codec in Compression:
                name = f"append {size} {codec.name.lower()} batches of {batch}"
                found[name] = lambda s=size, c=codec, b=batch: bench.append(s, c, b)  # type: ignore[misc]
            found[f"read {size} batches of {batch}"] = lambda s=size, b=batch: bench.read(s, b)  # type: ignore[misc]
    found["recovery"] = bench.recovery
    for size, codec in (
        ("100 B", Compression.NONE),
        ("1 KiB", Compression.NONE),
        ("100 B", Compression.ZSTD),
    ):
        name = f"compaction {size} {codec.name.lower()}"
        found[name] = lambda s=size, c=codec: bench.compaction(s, c)  # type: ignore[misc]
    return found


def measure(folder: Path, seconds: float, words: Sequence[str]) -> list[Figure]:
    peers: list[Peer] = [Ours()]
    if (reason := apache_kafka.why_not()) is None:
        peers.append(Kafka())
    else:
        print(f"bench: Apache Kafka is left out, {reason}", file=sys.stderr)
    found: list[Figure] = []
    for name, case in cases(Bench(folder, seconds, peers)).items():
        if all(word in name for word in words):
            print(f"bench: {name}", file=sys.stderr, flush=True)
            found += case()
    for peer in peers:
        peer.close()
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="./dev bench log-path", description=__doc__)
    parser.add_argument("words", nargs="*", help="choose cases: append, read, a size, a codec, …")
    parser.add_argument(
        "--seconds", type=float, default=sized(1.5, 0.05), help="CPU time of each measurement"
    )
    parser.add_argument("--markdown", action="store_true", help="the table in Markdown")
    given = parser.parse_args(arguments)
    base = Path(os.environ.get("TRIMARAN_BENCH_DIR", tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(dir=base, ignore_cleanup_errors=True) as folder:
        figures = measure(Path(folder), given.seconds, given.words)
    (print_markdown if given.markdown else print_table)(figures)


if __name__ == "__main__":
    main()
