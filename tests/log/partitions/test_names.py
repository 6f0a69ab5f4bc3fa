"""Names of partition directories, compared with one expression for all legal names."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trimaran.log.partitions.names import (
    DELETE_SUFFIX,
    FILE_NAME_BYTES_MAX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    aside_name,
    aside_topic,
    future_name,
    is_deleted_directory,
    is_partition_directory,
    parse_directory_name,
    partition_of,
    put_aside_from,
)
from trimaran.wire.identity import TopicPartition

LEGAL = re.compile(r"([a-zA-Z0-9._-]{1,249})-([0-9]{1,10})\Z")

letters = st.text("aZ.-_0 /é\n", max_size=6)
digits = st.text("09٣²-+_", max_size=12)


@given(st.one_of(st.text(max_size=20), st.builds("{}-{}".format, letters, digits)))
@example("orders-3")
@example("a-b-07")
@example("-1-2")
@example(".-0")
@example("..-0")
@example("...-0")
@example("orders-12345678901")
@example("x" * 249 + "-0")
@example("x" * 250 + "-0")
@example("orders-3.0f9a-delete")
@example("orders-٣")
@example("orders-3\n")
def test_directory_name_is_topic_and_partition_or_none(name: str) -> None:
    found = LEGAL.match(name)
    wanted = None if found is None or found[1] in (".", "..") else (found[1], int(found[2]))
    assert partition_of(name) == wanted
    assert is_partition_directory(name) == (wanted is not None)


@pytest.mark.parametrize("suffix", [DELETE_SUFFIX, STRAY_SUFFIX])
@pytest.mark.parametrize("topic", ["t", "a-1.b", "x" * 249])
def test_aside_directory_name_gives_its_partition(suffix, topic):
    """The name contains as much of the topic as it has room for."""
    name = aside_name(TopicPartition(topic, 7), suffix)
    assert len(name) <= FILE_NAME_BYTES_MAX
    assert put_aside_from(name) == (aside_topic(TopicPartition(topic, 7), suffix), 7)
    assert topic.startswith(aside_topic(TopicPartition(topic, 7), suffix))


@pytest.mark.parametrize(
    "name", ["t-0", "t-0-delete", f"t-0.{'0' * 32}{FUTURE_SUFFIX}", "t-delete"]
)
def test_other_directories_were_not_put_aside(name):
    assert put_aside_from(name) is None


UNIQUE = "0" * 32


@pytest.mark.parametrize(
    ("name", "deleted", "parsed"),
    [
        ("t-0", True, ("t", 0)),
        (f"t-0.{UNIQUE}{DELETE_SUFFIX}", True, None),
        (f"t-0.{UNIQUE}{STRAY_SUFFIX}", False, None),
        (f"t-0.{UNIQUE}{FUTURE_SUFFIX}", False, ("t", 0)),
        (f"t-0.{UNIQUE[1:]}{DELETE_SUFFIX}", False, None),
        (f"t-0{DELETE_SUFFIX}", False, None),
        (f"t.{UNIQUE}{DELETE_SUFFIX}", False, None),
        (f"orders-3.{UNIQUE.replace('0', 'f')}{FUTURE_SUFFIX}", False, ("orders", 3)),
    ],
)
def test_directory_name_shows_its_purpose(name, deleted, parsed):
    if name.endswith(DELETE_SUFFIX):
        assert is_deleted_directory(name) is deleted
    if parsed is None:
        with pytest.raises(ValueError, match="is not TOPIC-PARTITION"):
            parse_directory_name(name)
    else:
        assert parse_directory_name(name) == parsed


def test_future_directory_name_fits_or_is_refused():
    room = FILE_NAME_BYTES_MAX - len(f"-7.{UNIQUE}{FUTURE_SUFFIX}")
    assert parse_directory_name(future_name(TopicPartition("x" * room, 7))) == ("x" * room, 7)
    assert future_name(TopicPartition("t", 7)) != future_name(TopicPartition("t", 7))
    with pytest.raises(ValueError, match="longer than a file name"):
        future_name(TopicPartition("x" * (room + 1), 7))
