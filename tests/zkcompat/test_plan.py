"""The plan leads from the rendered tree of one image to that of the next, and a comparison repairs any tree."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.zkcompat import build
from tests.zkcompat.build import CLUSTER_ID, T1, T2
from tests.zkcompat.equality import is_owned, means_nothing, same_data
from tests.zkcompat.model import apply_to, plan, plan_changes, reconcile, render
from tests.zkcompat.scenario import next_records
from trimaran.quorum.metadata.image import EMPTY
from trimaran.zkcompat.quorum_feed.feed import TOUCHED_MAX, PendingChanges
from trimaran.zkcompat.sections.registry import sections_of
from trimaran.zkcompat.tree.operations import BATCH_BYTES_MAX, FoundZnode, Znode, batches, set_data
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.parents import FIXED_PARENTS, TOKEN_PARENTS

SESSION = 0x1000_0001
# All sections, including the optional ones.
SECTIONS = sections_of(CLUSTER_ID, secrets=True)


def assert_same(tree, image):
    """Asserts that `tree` shows `image`: same paths, and same bytes except those about the writing."""
    expected = render(image, CLUSTER_ID, SECTIONS)
    empty = {path for path, znode in tree.items() if means_nothing(path, znode.data)}
    assert tree.keys() - (empty - expected.keys()) == expected.keys()
    for path, znode in expected.items():
        assert tree[path].ephemeral == znode.ephemeral, path
        assert same_data(path, znode.data, tree[path].data), path


def found_of(tree):
    return {p: FoundZnode(z.data, SESSION if z.ephemeral else 0) for p, z in tree.items()}


def steps(seed, count):
    """Returns (delta, image) of random batches."""
    prng = random.Random(seed)
    image = EMPTY
    for number in range(count):
        records = next_records(image, prng, prng.randint(0, 6))
        delta, image = build.replay(image, *records, epoch=3 + number // 10)
        yield delta, image


@given(st.integers(0, 1 << 32))
def test_each_plan_leads_to_the_next_image(seed):
    tree = render(EMPTY, CLUSTER_ID, SECTIONS)
    for delta, image in steps(seed, 30):
        tree = apply_to(tree, plan(delta, image, SECTIONS))
        assert_same(tree, image)


@given(st.integers(0, 1 << 32), st.booleans())
def test_several_deltas_may_be_written_as_one(seed, everything):
    tree, shown, changes = render(EMPTY, CLUSTER_ID, SECTIONS), EMPTY, PendingChanges()
    prng = random.Random(seed)
    for delta, image in steps(seed, 30):
        changes.add(delta)
        if everything:
            changes.mark_everything()
        if prng.random() < 0.3:
            tree = apply_to(tree, plan_changes(shown, image, changes, SECTIONS))
            assert_same(tree, image)
            shown, changes = image, PendingChanges()


@given(st.integers(0, 1 << 32))
def test_comparison_repairs_any_damage(seed):
    prng = random.Random(seed)
    images = [image for _, image in steps(seed, 20)]
    found = found_of(render(images[prng.randrange(20)], CLUSTER_ID, SECTIONS))
    for path in prng.sample(sorted(found), min(8, len(found))):
        damage = prng.choice(["delete", "data", "owner", "child"])
        if damage == "delete":
            found = {p: z for p, z in found.items() if p != path and not p.startswith(f"{path}/")}
        elif path in found and damage == "data":
            found[path] = FoundZnode(prng.choice([b"", b"{}", b"\xff", None]), found[path].owner)
        elif (
            path in found and damage == "owner" and not any(p.startswith(f"{path}/") for p in found)
        ):
            found[path] = FoundZnode(found[path].data, prng.choice([0, 77, SESSION]))
        elif path in found and is_owned(path):
            found[f"{path}/by-hand"] = FoundZnode(b"?")
    tree = {p: Znode(z.data, z.owner != 0) for p, z in found.items()}
    operations = reconcile(found, images[-1], CLUSTER_ID, SESSION, SECTIONS)
    repaired = apply_to(tree, operations)
    assert_same(repaired, images[-1])
    assert reconcile(found_of(repaired), images[-1], CLUSTER_ID, SESSION, SECTIONS) == []


def test_user_left_after_its_clients_has_no_credentials():
    znode = Znode(EntityConfig({"SCRAM-SHA-256": "salt=x"}).encode())
    client = Znode(EntityConfig({"producer_byte_rate": "12"}).encode())
    tree = render(EMPTY, CLUSTER_ID, SECTIONS) | {
        "/config/users/a": znode,
        "/config/users/a/clients": Znode(None),
        "/config/users/a/clients/x": client,
    }
    operations = reconcile(found_of(tree), EMPTY, CLUSTER_ID, SESSION, SECTIONS)
    assert_same(apply_to(tree, operations), EMPTY)


def lines(operations):
    return [f"{o.kind.value} {o.path}" for o in operations]


def test_new_topic_is_written_in_kafkas_order():
    delta, image = build.replay(
        EMPTY, build.topic("t", T1), build.partition(T1, 0, [1, 2]), build.partition(T1, 1, [2, 1]),
        build.config(2, "t", "retention.ms", "1"),
    )  # fmt: skip
    operations = plan(delta, image)
    assert lines(operations) == [
        "create /brokers/topics/t",
        "create /config/topics/t",
        "create /brokers/topics/t/partitions",
        "create /brokers/topics/t/partitions/0",
        "create /brokers/topics/t/partitions/0/state",
        "create /brokers/topics/t/partitions/1",
        "create /brokers/topics/t/partitions/1/state",
        "set /config/topics/t",
        "create /config/changes/config_change_",
    ]
    assert operations[1].data == EntityConfig({}).encode()
    assert {o.name for o in operations} == {"CreateTopic", "UpdateTopicConfigs", "ConfigChange"}
    assert operations[-1].sequential


def test_topic_replaced_between_plans_is_deleted_first():
    before = build.image_of(build.topic("t", T1), *(build.partition(T1, i, [1]) for i in range(3)))
    delta, after = build.replay(
        before, build.remove_topic(T1), build.topic("t", T2), build.partition(T2, 0, [1])
    )
    operations = plan(delta, after)
    assert lines(operations)[:3] == [
        "delete /brokers/topics/t/partitions/0/state",
        "delete /brokers/topics/t/partitions/0",
        "delete /brokers/topics/t/partitions/1/state",
    ]
    assert_same(apply_to(render(before, CLUSTER_ID, SECTIONS), operations), after)


def test_reassignment_writes_topic_before_state():
    before = build.image_of(build.topic("t", T1), build.partition(T1, 0, [1, 2]))
    delta, after = build.replay(
        before,
        build.change(
            T1, 0, replicas=[3, 1, 2], adding_replicas=[3], removing_replicas=[2], leader=1
        ),
    )
    assert lines(plan(delta, after)) == [
        "set /brokers/topics/t",
        "set /brokers/topics/t/partitions/0/state",
    ]


def test_fencing_writes_only_broker_and_states():
    before = build.image_of(build.broker(1), build.topic("t", T1), build.partition(T1, 0, [1, 2]))
    delta, after = build.replay(before, build.fence(1), build.change(T1, 0, isr=[2], leader=2))
    assert lines(plan(delta, after)) == [
        "delete /brokers/ids/1",
        "set /brokers/topics/t/partitions/0/state",
    ]


def test_new_incarnation_gets_a_new_znode():
    before = build.image_of(build.broker(1, epoch=1))
    delta, after = build.replay(before, build.broker(1, epoch=9))
    assert lines(plan(delta, after)) == ["delete /brokers/ids/1", "create /brokers/ids/1"]


def test_nothing_is_written_when_nothing_changes():
    before = build.image_of(build.broker(1), build.topic("t", T1), build.partition(T1, 0, [1, 2]))
    delta, after = build.replay(
        before, build.unfence(1), build.change(T1, 0), build.config(4, "", "ssl.key.password", None)
    )
    assert plan(delta, after) == []
    later_epoch = build.replay(before, epoch=9)[1]
    assert reconcile(found_of(render(before, CLUSTER_ID)), later_epoch, CLUSTER_ID, SESSION) == []


def test_state_of_later_controller_epoch_is_rewritten():
    image = build.image_of(build.topic("t", T1), build.partition(T1, 0, [1, 2]), epoch=3)
    ahead = build.image_of(build.topic("t", T1), build.partition(T1, 0, [1, 2]), epoch=4)
    operations = reconcile(found_of(render(ahead, CLUSTER_ID)), image, CLUSTER_ID, SESSION)
    assert lines(operations) == ["set /brokers/topics/t/partitions/0/state"]


def test_secrets_are_not_mirrored_by_default():
    delta, image = build.replay(
        EMPTY,
        build.config(4, "1", "listener.name.sasl.plain.sasl.jaas.config", "very secret"),
        build.config(4, "1", "ssl.keystore.password", "very secret"),
        build.config(4, "1", "my.plugin", "very secret"),
        build.config(4, "1", "log.cleaner.threads", "2"),
    )
    written = b"".join(o.data or b"" for o in plan(delta, image))
    assert b"secret" not in written
    assert b'{"log.cleaner.threads":"2"}' in written
    assert all(b"secret" not in (z.data or b"") for z in render(image, CLUSTER_ID).values())


def test_brokers_of_another_session_are_taken_over_together():
    image = build.image_of(build.broker(1))
    found = found_of(render(image, CLUSTER_ID))
    found["/brokers/ids/1"] = FoundZnode(found["/brokers/ids/1"].data, owner=0x77)
    assert lines(reconcile(found, image, CLUSTER_ID, SESSION)) == [
        "delete /brokers/ids/1",
        "create /brokers/ids/1",
    ]


def test_empty_zookeeper_gets_parents_before_children():
    image = build.image_of(build.broker(1), build.topic("t", T1), build.partition(T1, 0, [1]))
    assert_same(apply_to({}, reconcile({}, image, CLUSTER_ID, SESSION, SECTIONS)), image)


@pytest.mark.parametrize("sections", [SECTIONS, sections_of(CLUSTER_ID)])
def test_token_parents_are_created_with_tokens_and_stay(sections):
    shown = render(EMPTY, CLUSTER_ID, sections)
    assert (sections is SECTIONS) == bool(shown.keys() & {*TOKEN_PARENTS})
    found = found_of(shown) | {path: FoundZnode(None) for path in TOKEN_PARENTS}
    assert reconcile(found, EMPTY, CLUSTER_ID, SESSION, sections) == []


def test_existing_parents_may_have_any_data():
    found = found_of(render(EMPTY, CLUSTER_ID))
    found.update({path: FoundZnode(b"anything") for path in FIXED_PARENTS})
    assert reconcile(found, EMPTY, CLUSTER_ID, SESSION) == []


def test_pending_names_are_bounded():
    changes = PendingChanges()
    delta, _ = build.replay(
        EMPTY, *(build.topic(f"t{i}", i.to_bytes(16, "big")) for i in range(1, TOUCHED_MAX + 2))
    )
    changes.add(delta)
    assert changes.everything
    assert not changes.touched


@pytest.mark.parametrize(("count_max", "sizes"), [(200, [200, 200, 50]), (1000, [450])])
def test_batches_are_bounded_by_count(count_max, sizes):
    operations = [set_data("/x", Znode(b"1"), "Update", "x")] * 450
    assert [len(batch) for batch in batches(operations, count_max)] == sizes


def test_batches_are_bounded_by_bytes():
    operation = set_data("/x", Znode(b"1" * (BATCH_BYTES_MAX // 3)), "Update", "x")
    assert [len(batch) for batch in batches([operation] * 5, 200)] == [2, 2, 1]
