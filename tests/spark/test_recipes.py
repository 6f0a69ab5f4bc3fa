"""The join of docs/spark_recipes.md between records and the history of leaders; `./dev interop` runs the whole page."""

import re

import pytest

from tests.programs.named import ROOT

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PAGE = ROOT / "docs" / "spark_recipes.md"
JOINED = "partition_history"  # only the block of the join reads it


def test_each_record_has_leader_of_its_epoch(spark, small_cluster):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    [program] = (block for block in blocks if JOINED in block)
    for found in ("broker-", "controller-"):
        assert f"{{DATA}}/{found}*" in program
        program = program.replace(f"{{DATA}}/{found}*", "{DATA}")
    names = {"spark": spark, "DATA": str(small_cluster)}
    exec(program, names)
    rows = [(row.partition, row.offset, row.leader) for row in names["led"].collect()]
    # The second leader keeps its epoch while replicas come and go, so the history names it several times.
    assert rows == [(0, offset, 11 if offset < 50 else 12) for offset in range(100)]
