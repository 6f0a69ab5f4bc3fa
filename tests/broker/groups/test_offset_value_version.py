"""`trimaran.offsets.value.version`: the format that readers of `__consumer_offsets` find."""

import struct

import pytest

from tests.cluster.data_side import config
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.registry import serde_of
from trimaran.node.config.config_def import ConfigError
from trimaran.wire.records.groups import OffsetCommitKey, OffsetCommitValue

KEY = OffsetCommitKey(group="g", topic="t", partition=0)
VALUE = OffsetCommitValue(
    offset=5, leader_epoch=7, metadata="m", commit_timestamp=1000, topic_id=b"i" * 16
)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_is_written_and_read(version):
    serde = serde_of(offset_version=version)
    written = serde.encode(GroupRecord(KEY, VALUE), 0)
    assert struct.unpack_from(">h", written.value)[0] == version
    read = serde.decode(written.key, written.value)
    assert (read.value.offset, read.value.metadata, read.value.commit_timestamp) == (5, "m", 1000)
    assert read.value.leader_epoch == (7 if version >= 3 else -1)
    assert read.value.topic_id == (b"i" * 16 if version >= 4 else bytes(16))


def test_own_expiry_needs_version_1():
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1, expire_timestamp=2)
    written = serde_of(offset_version=3).encode(GroupRecord(KEY, value), 0)
    assert struct.unpack_from(">h", written.value)[0] == 1


def test_option_sets_the_written_version():
    assert GroupLimits.of(config()).offset_value_version == 4
    chosen = config(trimaran_offsets_value_version="3")
    assert GroupLimits.of(chosen).offset_value_version == 3


@pytest.mark.parametrize("nonsense", ["0", "5", "-1", "three", ""])
def test_invalid_request_is_refused(nonsense):
    with pytest.raises(ConfigError, match=r"trimaran\.offsets\.value\.version"):
        config(trimaran_offsets_value_version=nonsense)
