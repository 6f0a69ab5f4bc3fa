"""The programs of docs/spark_recipes.md, in their order, in one Spark session, on a cluster whose leader is killed
between two halves of the records. Then each stream repeats its last micro-batch, as after a crash of the driver.
"""

from __future__ import annotations

import io
import json
import os
import re
import struct
import subprocess
from decimal import Decimal

import fastavro
import pytest

from tests.cluster.processes import LocalCluster
from tests.interop.environments import environment
from tests.librdkafka import Producer
from tests.programs.named import ROOT
from tests.wire.values.naive_registry import naive_registry

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.cluster, pytest.mark.slow]

PAGE = ROOT / "docs" / "spark_recipes.md"
NOTEBOOK = ROOT / "docs" / "kafka_log.ipynb"
PACKAGES = (
    "deltalake==1.6.6",
    "pyiceberg[sql-sqlite]==0.12.0",
    "nbconvert==7.17.2",
    "ipykernel==7.4.0",
)
HALF, KEYS = 5, 3
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "buyer", "type": ["null", "string"]},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
    ],
}
# Not on the page: a driver dies after the write of a micro-batch, and before its commit.
REPEATED = """
from pathlib import Path

for name, run in (("parquet", to_parquet), ("delta", to_delta), ("iceberg", to_iceberg)):
    commits = Path(LAKE, "checkpoints", name, "commits")
    max((file for file in commits.iterdir() if file.name.isdigit()), key=lambda file: int(file.name)).unlink()
    for check in commits.glob(".*"):
        check.unlink()
    repeated = run()
    repeated.awaitTermination()
    assert repeated.lastProgress is None or repeated.lastProgress["batchId"] >= 0

import json

tables = {
    "parquet": spark.read.parquet(f"{LAKE}/parquet").toArrow(),
    "delta_batch": DeltaTable(f"{LAKE}/delta_batch").to_pyarrow_table(),
    "delta": DeltaTable(f"{LAKE}/delta").to_pyarrow_table(),
    "iceberg_batch": catalog.load_table("shop.orders_batch").scan().to_arrow(),
    "iceberg": catalog.load_table("shop.orders").scan().to_arrow(),
}
found = {
    name: sorted([row["id"], row["buyer"], str(row["price"]), row["offset"]] for row in table.to_pylist())
    for name, table in tables.items()
}
found["latest"] = sorted((int(row.key), row.changed_at) for row in latest.collect())
found["led"] = [row.leader for row in led.collect()]
Path(LAKE, "found.json").write_text(json.dumps(found))
spark.stop()
"""


def written(number):
    stream = io.BytesIO()
    stream.write(struct.pack(">bI", 0, 1))
    order = {"id": number, "buyer": None if number % 3 else f"b{number}", "price": Decimal(number)}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(ORDER), order)
    return stream.getvalue()


def produce(bootstrap, numbers):
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in numbers:
        producer.produce("orders", written(number), str(number % KEYS))
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def programs():
    return environment("spark-recipes-1", PACKAGES)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    data = tmp_path_factory.mktemp("recipes")
    with LocalCluster(data, "--controllers", "1", "--brokers", "2") as cluster:
        cluster.run("topics", "create", "orders", "--partitions", "1", "--replication-factor", "2")
        cluster.wait_for_topic("orders")
        produce(cluster.bootstrap, range(HALF))
        cluster.leaders = [cluster.partitions("orders")[0]["leader"]]
        cluster.kill(cluster.leaders[0])
        produce(cluster.bootstrap, range(HALF, 2 * HALF))
        cluster.leaders.append(cluster.partitions("orders")[0]["leader"])
        yield cluster


def run(command, folder, **environ):
    """Runs a program whose Spark workers have its own Python."""
    own = {**os.environ, "PYSPARK_PYTHON": str(command[0]), **environ}
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]


def test_each_record_is_in_each_table_once(cluster, programs, tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    program = "".join(blocks) + REPEATED
    with naive_registry() as registry:
        registry.register("orders-value", ORDER)
        for placeholder, real in (
            ("localhost:9092", cluster.bootstrap),
            ("/var/lib/kafka", str(cluster.data)),
            ("http://registry:8081", registry.url),
            ('"/lake"', f'"{tmp_path}"'),
        ):
            assert placeholder in program
            program = program.replace(placeholder, real)
        (tmp_path / "recipes.py").write_text(program)
        run([programs / "python", "recipes.py"], tmp_path)
    found = json.loads((tmp_path / "found.json").read_text())
    expected = [
        [number, None if number % 3 else f"b{number}", f"{number}.00", number]
        for number in range(2 * HALF)
    ]
    led, latest = found.pop("led"), found.pop("latest")
    newest = {number % KEYS: number for number in range(2 * HALF)}
    assert latest == [[key, newest[key]] for key in range(KEYS)]
    assert {name: rows for name, rows in found.items() if rows != expected} == {}
    assert led == [leader for leader in cluster.leaders for _ in range(HALF)]
    assert len({*led}) == 2


def test_notebook_runs_without_a_person(cluster, programs, tmp_path):
    command = [programs / "python", "-m", "nbconvert", "--to", "notebook", "--execute"]
    command += ["--output-dir", tmp_path, NOTEBOOK]
    run(command, tmp_path, DATA=str(cluster.data))
    executed = json.loads((tmp_path / NOTEBOOK.name).read_text())
    outputs = json.dumps([cell.get("outputs") for cell in executed["cells"]])
    assert re.search(rf"orders +{2 * HALF}\b", outputs)
