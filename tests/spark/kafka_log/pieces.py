"""A range with given batches, in place of a file's or a broker's."""

from dataclasses import dataclass, field

from trimaran.log.batches.batch import iter_batches
from trimaran.log.old_formats.old_batches import opened
from trimaran.spark.origins.origin import Located
from trimaran.wire.identity import TopicPartition


@dataclass
class Piece:
    """`log_starts` are those of the batches, if they differ from the range's."""

    data: list[bytes]
    start_offset: int = 0
    end_offset: int = 1 << 40
    log_start: int = 0
    log_starts: list[int] = field(default_factory=list)
    node_id: int = 7
    log_dir: str | None = "/d"
    key: TopicPartition = field(default_factory=lambda: TopicPartition("t", 3))
    name: str = "file:/d/t-3/0.log"

    def located(self):
        found, position = [], 0
        for number, data in enumerate(self.data):
            (view,) = iter_batches(memoryview(bytearray(data)), allow_old=True)
            log_start = self.log_starts[number] if self.log_starts else 0
            found.append(Located(position, opened(view), log_start))
            position += len(data)
        return found

    def batches(self, reading):
        return iter(self.located())
