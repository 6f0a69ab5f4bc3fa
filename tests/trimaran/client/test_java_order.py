"""The order of a Java `HashMap`, as a JVM printed it of the same names."""

from trimaran.client.java_order import java_hash_order


def test_by_bucket_and_in_it_by_age():
    names = ["cleanup.policy", "compression.type", "flush.ms", "min.insync.replicas", "Aa", "BB"]
    assert " ".join(java_hash_order(names)) == (
        "compression.type Aa BB cleanup.policy flush.ms min.insync.replicas"
    )


def test_the_number_of_buckets_follows_that_of_keys():
    configs = ["cleanup.policy", "min.insync.replicas", "retention.ms"]
    among_33 = [*configs, *(f"other.{number}" for number in range(30))]
    found = [name for name in java_hash_order(among_33) if name in configs]
    assert found == ["min.insync.replicas", "cleanup.policy", "retention.ms"]
