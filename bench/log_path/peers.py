"""The two measured logs, behind the same commands: ours in this process, Apache Kafka's `UnifiedLog` in a JVM
(`LogPath.java`).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.interop import apache_kafka
from trimaran.log.config import LogConfig
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.validation.validate import ProduceRules, validate_produced

PROGRAM = Path(__file__).with_name("LogPath.java")
CONFIG = LogConfig(segment_bytes=1 << 30, message_timestamp_after_max_ms=1 << 60, retention_ms=-1)
READ_BYTES = 1 << 20
APPENDS_AT_ONCE = 16  # operations between two readings of the clock
READS_AT_ONCE = 64
STEP = 104_729  # a prime, so that reads cover the whole log


class Line(NamedTuple):
    """The CPU that a command used, and its work: bytes, or reads. CPU time is that of all threads."""

    seconds: float
    cpu_seconds: float
    done: float


class Compacted(NamedTuple):
    seconds: float
    cpu_seconds: float
    done: float
    memory_mib: float
    bytes_left: float


class Peer(Protocol):
    """A log implementation, with one log at a time between `begin` and `end`."""

    name: str

    def begin(self, directory: Path, batch: Path) -> None: ...
    def append(self, cpu_seconds: float, bytes_max: int) -> Line: ...
    def look_up(self, cpu_seconds: float) -> Line: ...
    def send(self, cpu_seconds: float, port: int) -> Line: ...
    def end(self) -> None: ...
    def recover(self, directory: Path) -> Line: ...
    def compact(self, directory: Path) -> Compacted: ...
    def close(self) -> None: ...


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Ours:
    name = "ours"

    def begin(self, directory: Path, batch: Path) -> None:
        directory.mkdir(parents=True)
        self._frame = memoryview(bytearray(batch.read_bytes()))
        self._log = self._open(directory, clean=True)

    def _open(self, directory: Path, *, clean: bool) -> PartitionLog:
        return PartitionLog.open(directory, CONFIG, LastRun(clean_shutdown=clean), now_ms=now_ms())

    def append(self, cpu_seconds: float, bytes_max: int) -> Line:
        log, frame = self._log, self._frame
        log.truncate_fully_and_start_at(0)
        log.purge()
        rules = ProduceRules.of(CONFIG)
        begin, cpu = time.perf_counter(), time.process_time()
        end, total = cpu + cpu_seconds, 0
        while time.process_time() < end and total < bytes_max:
            for _ in range(APPENDS_AT_ONCE):
                frame[0:8] = bytes(8)
                views = validate_produced(frame, rules, now_ms=now_ms())
                records = memoryview(views[0].buffer)
                log.append_as_leader(records, views, leader_epoch=0, now_ms=now_ms())
                total += len(frame)
        return Line(time.perf_counter() - begin, time.process_time() - cpu, total)

    def look_up(self, cpu_seconds: float) -> Line:
        log, at, count = self._log, 0, 0
        offsets = log.log_end_offset
        begin, cpu = time.perf_counter(), time.process_time()
        while time.process_time() < cpu + cpu_seconds:
            for _ in range(READS_AT_ONCE):
                log.read(at, READ_BYTES, upto_offset=offsets, min_one=True)
                at, count = (at + STEP) % offsets, count + 1
        return Line(time.perf_counter() - begin, time.process_time() - cpu, count)

    def send(self, cpu_seconds: float, port: int) -> Line:
        log, at, total = self._log, 0, 0
        end = log.log_end_offset
        with socket.create_connection(("127.0.0.1", port)) as connection:
            begin, cpu = time.perf_counter(), time.process_time()
            while time.process_time() < cpu + cpu_seconds:
                piece = log.read(at, READ_BYTES, upto_offset=end, min_one=True)
                assert piece is not None
                sent = 0
                while sent < piece.size:
                    sent += os.sendfile(
                        connection.fileno(),
                        piece.fileno(),
                        piece.position + sent,
                        piece.size - sent,
                    )
                total += piece.size
                at = piece.end_offset if piece.end_offset < end else 0
            return Line(time.perf_counter() - begin, time.process_time() - cpu, total)

    def end(self) -> None:
        self._log.close(clean=False)

    def recover(self, directory: Path) -> Line:
        begin, cpu = time.perf_counter(), time.process_time()
        log = self._open(directory, clean=False)
        line = Line(time.perf_counter() - begin, time.process_time() - cpu, log.size_bytes)
        log.close(clean=False)
        return line

    def compact(self, directory: Path) -> Compacted:
        """Compacts in a separate process, so that its memory can be measured."""
        command = [sys.executable, "-m", "bench.log_path.compaction", str(directory)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return Compacted(*map(float, done.stdout.split()))

    def close(self) -> None:
        pass


class Kafka:
    """The JVM, with commands on its standard input."""

    name = "kafka"

    def __init__(self) -> None:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        classes = apache_kafka.class_path()
        command = ["java", *apache_kafka.JVM, quiet, "-Xmx1g", "-cp", classes, str(PROGRAM)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _ask(self, *words: object) -> tuple[float, ...]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        while True:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError("the JVM has ended")
            if line.startswith("= "):  # other lines are from its log
                return tuple(map(float, line[2:].split()))

    def begin(self, directory: Path, batch: Path) -> None:
        self._directory = directory
        self._ask("begin", directory, batch)

    def append(self, cpu_seconds: float, bytes_max: int) -> Line:
        return Line(*self._ask("append", cpu_seconds, bytes_max))

    def look_up(self, cpu_seconds: float) -> Line:
        return Line(*self._ask("look_up", cpu_seconds, STEP))

    def send(self, cpu_seconds: float, port: int) -> Line:
        return Line(*self._ask("send", cpu_seconds, port))

    def end(self) -> None:
        self._ask("end")

    def recover(self, directory: Path) -> Line:
        return Line(*self._ask("recover", directory))

    def compact(self, directory: Path) -> Compacted:
        return Compacted(*self._ask("compact", directory))

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(30)


class Sink:
    """A process that reads connections, one after the other, and discards the data; its CPU is not counted."""

    PROGRAM = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        connection, _ = server.accept()
        with connection:
            room = bytearray(1 << 20)
            while connection.recv_into(room):
                pass
"""

    def __init__(self) -> None:
        command = [sys.executable, "-c", self.PROGRAM]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.port = int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.wait(30)


def removed(directory: Path) -> None:
    # Kafka's scheduler may still write into the directory.
    shutil.rmtree(directory, ignore_errors=True)
