import pytest
from confluent_kafka import murmur2 as librdkafkas
from hypothesis import given
from hypothesis import strategies as st

from trimaran.client.partitioner import StickyPartitions, murmur2, partition_of_key


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_keys_go_where_librdkafkas_murmur2_partitioner_sends_them(key, count):
    assert partition_of_key(key, count) == librdkafkas(key, count)


@pytest.mark.parametrize(
    ("key", "hashed"),
    # Values of Apache Kafka's UtilsTest.testMurmur2, as unsigned numbers.
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_returns_hashes_of_kafkas_test(key, hashed):
    assert murmur2(key) == hashed % 2**32
    assert partition_of_key(key, 7) == (hashed % 2**31) % 7


def test_keyless_batches_rotate_over_led_partitions():
    sticky = StickyPartitions([1, -1, 2], first=6)
    assert [sticky.next() for _ in range(4)] == [2, 0, 2, 0]
    sticky = StickyPartitions([-1, -1], first=0)
    assert {sticky.next() for _ in range(2)} == {0, 1}


def test_keyless_batches_start_after_first_partition():
    sticky = StickyPartitions([0, 0, 5, -1, 0], first=0)
    assert [sticky.next() for _ in range(6)] == [1, 2, 4, 0, 1, 2]
