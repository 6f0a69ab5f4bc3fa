"""The plan of `groups migrate-offsets` for two sets of offsets."""

from hypothesis import given
from hypothesis import strategies as st

from trimaran.cli.groups_migrate import COMMIT, KEPT, SAME, UNKNOWN, UNREADABLE, plan

KEYS = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 3))


def actions(zookeeper, kafka, existing, **options):
    rows = plan(zookeeper, kafka, existing, **{"overwrite": False, **options})
    return {(row["topic"], row["partition"]): row["action"] for row in rows}


def test_each_partition_has_its_action():
    zookeeper = {("t", 0): 5, ("t", 1): 5, ("t", 2): 5, ("t", 3): 5, ("t", 4): None, ("t", 9): 5}
    kafka = {("t", 1): 5, ("t", 2): 6, ("t", 3): 4}
    existing = [("t", number) for number in range(5)]
    expected = {
        ("t", 0): COMMIT,
        ("t", 1): SAME,
        ("t", 2): KEPT,
        ("t", 3): COMMIT,
        ("t", 4): UNREADABLE,
        ("t", 9): UNKNOWN,
    }
    assert actions(zookeeper, kafka, existing) == expected
    overwritten = {**expected, ("t", 2): COMMIT}
    assert actions(zookeeper, kafka, existing, overwrite=True) == overwritten


@given(
    st.dictionaries(KEYS, st.none() | st.integers(-2, 9)),
    st.dictionaries(KEYS, st.integers(0, 9)),
    st.sets(KEYS),
    st.booleans(),
)
def test_migrated_offsets_exist_and_decrease_only_on_request(zookeeper, kafka, existing, back):
    found = actions(zookeeper, kafka, existing, overwrite=back)
    assert found.keys() == zookeeper.keys()
    for key in (key for key, action in found.items() if action == COMMIT):
        assert key in existing
        assert zookeeper[key] >= 0
        assert back or zookeeper[key] > kafka.get(key, -1)
