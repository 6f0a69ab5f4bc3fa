import subprocess
import sys

import pytest

from tests.wire.declared import MESSAGES
from trimaran.wire.records.producer_snapshot import ProducerSnapshot
from trimaran.wire.records.quorum_state_data import QuorumStateData
from trimaran.wire.records.registry import (
    COORDINATOR_RECORDS,
    METADATA_RECORDS,
    REMOTE_LOG_METADATA_RECORDS,
)
from trimaran.wire.records.streams_groups import StreamsGroupTopologyValue

TABLES = [
    METADATA_RECORDS,
    REMOTE_LOG_METADATA_RECORDS,
    *(table for topic in COORDINATOR_RECORDS.values() for table in topic),
]


def test_record_is_found_by_type():
    assert COORDINATOR_RECORDS["__consumer_offsets"].values[23] is StreamsGroupTopologyValue
    assert METADATA_RECORDS.get(6) is None
    with pytest.raises(KeyError):
        METADATA_RECORDS[30]


@pytest.mark.parametrize("table", TABLES)
def test_class_is_registered_under_its_type(table):
    assert all(key == cls.KEY for key, cls in table.items())


def test_every_declared_record_is_registered():
    records = {cls for cls in MESSAGES if cls.__module__.startswith("trimaran.wire.records.")}
    files = {ProducerSnapshot, QuorumStateData}
    assert records - files == {cls for table in TABLES for cls in table.values()}


def test_records_are_imported_on_first_use():
    program = """
import sys
from trimaran.wire.records.registry import COORDINATOR_RECORDS
before = {m for m in sys.modules if m.startswith("trimaran.wire.records.")}
COORDINATOR_RECORDS["__share_group_state"].keys[0]
after = {m for m in sys.modules if m.startswith("trimaran.wire.records.")}
assert before == {"trimaran.wire.records.registry"}, before
assert after - before == {"trimaran.wire.records.share_group_state"}, after
assert "trimaran.wire.codec.build" not in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
