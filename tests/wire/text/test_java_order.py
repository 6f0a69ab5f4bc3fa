"""The order of a Java `HashMap`, as a JVM printed it for the same names."""

import pytest

from trimaran.wire.text.java_order import java_hash_order


def test_names_are_ordered_by_bucket_then_age():
    names = ["cleanup.policy", "compression.type", "flush.ms", "min.insync.replicas", "Aa", "BB"]
    assert " ".join(java_hash_order(names)) == (
        "compression.type Aa BB cleanup.policy flush.ms min.insync.replicas"
    )


def test_number_of_buckets_grows_with_keys():
    configs = ["cleanup.policy", "min.insync.replicas", "retention.ms"]
    among_33 = [*configs, *(f"other.{number}" for number in range(30))]
    found = [name for name in java_hash_order(among_33) if name in configs]
    assert found == ["min.insync.replicas", "cleanup.policy", "retention.ms"]


def twin(names):
    """Returns the order of a table of lists that is filled name by name, and doubled when more than three quarters are
    full.
    """
    table = [[] for _ in range(16)]
    for count, name in enumerate(names, 1):
        table[place(name, len(table))].append(name)
        if count > 0.75 * len(table):
            old, table = table, [[] for _ in range(2 * len(table))]
            for item in (name for bucket in old for name in bucket):
                table[place(item, len(table))].append(item)
    return [name for bucket in table for name in bucket]


def place(name, length):
    code = 0
    for letter in name:
        code = (31 * code + ord(letter)) % 2**32
    return (code ^ code >> 16) % length


@pytest.mark.parametrize("count", [*range(16), *range(20, 28), *range(46, 52), 95, 96, 97])
def test_order_equals_that_of_growing_table(count):
    names = [f"some.{number * 7919}.name" for number in range(count)]
    assert java_hash_order(names) == twin(names)
