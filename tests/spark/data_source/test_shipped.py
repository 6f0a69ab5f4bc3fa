"""Readers and writers reach executors of the same version only."""

import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle

import trimaran
from tests.spark.directories import checkpoint, data_batches, make_node, write_partition
from trimaran.spark.data_source import shipped
from trimaran.spark.kafka_log.source import KafkaLogSource
from trimaran.spark.kafka_metadata.source import KafkaMetadataSource
from trimaran.spark.options import OptionError
from trimaran.spark.sink.options import SinkOptions
from trimaran.spark.sink.writer import ExactlyOnceWriter, LogStreamWriter, LogWriter


@pytest.fixture
def path(tmp_path):
    broker = make_node(tmp_path, 11)
    write_partition(broker, "orders", 0, data_batches(4))
    checkpoint(broker, {("orders", 0): 40})
    return str(tmp_path)


def test_shipped_reader_reads(path):
    source = KafkaLogSource({"path": path})
    reader = source.reader(source.schema())
    [task] = reader.partitions()
    arrived = pickle.loads(cloudpickle.dumps(reader))
    assert type(arrived) is type(reader)
    assert sum(batch.num_rows for batch in arrived.read(task)) == 40


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("kind", [KafkaLogSource, KafkaMetadataSource])
def test_other_version_is_refused(kind, streaming, path, monkeypatch):
    source = kind({"path": path})
    make = source.streamReader if streaming else source.reader
    sent = cloudpickle.dumps(make(source.schema()))
    assert pickle.loads(sent)
    monkeypatch.setattr(shipped, "own_version", lambda: "0.0.1")
    with pytest.raises(
        OptionError, match=r"the driver has trimaran .*, this executor has 0\.0\.1: install"
    ):
        pickle.loads(sent)


@pytest.mark.parametrize(
    "make", [LogWriter, LogStreamWriter, lambda options: ExactlyOnceWriter(options, None)]
)
def test_writer_is_refused_by_another_version(make, monkeypatch):
    options = SinkOptions.parse(
        {"kafka.bootstrap.servers": "localhost:1", "topic": "t"}, streaming=False
    )
    sent = cloudpickle.dumps(make(options))
    arrived = pickle.loads(sent)
    assert type(arrived) is type(make(options))
    assert arrived._options == options
    monkeypatch.setattr(shipped, "own_version", lambda: "0.0.1")
    with pytest.raises(OptionError, match=r"this executor has 0\.0\.1: install the same version"):
        pickle.loads(sent)


def test_rule_is_read_from_a_zip_file(tmp_path):
    """Spark sends `--py-files` as such a file."""
    sent = tmp_path / "sent.zip"
    with zipfile.ZipFile(sent, "w") as archive:
        for name in (
            *("__init__.py", "spark/__init__.py", "spark/data_source/__init__.py"),
            *("spark/data_source/scan_rule.py", "spark/data_source/ScanRule.java"),
            *("wire/__init__.py", "wire/later.py"),
        ):
            archive.write(Path(trimaran.__file__).parent / name, f"trimaran/{name}")
    program = "from trimaran.spark.data_source.scan_rule import SOURCE; print(SOURCE.read_text())"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(sent)},
    )
    assert "public class ScanRule extends Rule {" in done.stdout
