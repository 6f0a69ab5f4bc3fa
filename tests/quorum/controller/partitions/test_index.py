"""The index of an image, however it was built, compared with one computed partition by partition."""

from collections import deque

import hypothesis.strategies as st
from hypothesis import example, given

from tests.quorum.metadata.build import SOMEWHERE, change, image_of, partition, replay, topic, uid
from trimaran.quorum.controller.partitions.index import PartitionIndex
from trimaran.quorum.metadata.image import NO_LEADER
from trimaran.quorum.metadata.topic_names import in_metrics
from trimaran.wire.records.topics import RemoveTopicRecord

BROKERS = range(1, 5)
NAMES = ("a.b", "a_b", "c")
EMPTY = image_of()

brokers = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from(NAMES), st.lists(brokers, max_size=3)),
        st.tuples(st.just("remove"), st.sampled_from(NAMES)),
        st.tuples(st.just("add"), st.sampled_from(NAMES), brokers),
        st.tuples(st.just("change"), st.sampled_from(NAMES), st.integers(0, 3), brokers),
        st.tuples(st.just("lose"), st.sampled_from(NAMES), st.integers(0, 3), brokers),
    ),
    max_size=6,
)


def records_of(image, step, number):
    """Returns the records of one valid step; `number` is the id of the created object."""
    kind, name, *rest = step
    known = image.topics.by_name.get(name)
    if known is None:
        if kind != "create":
            return []
        new = [partition(number, i, replicas) for i, replicas in enumerate(rest[0])]
        return [topic(name, number), *new]
    known_number = int.from_bytes(known.id, "big") - int.from_bytes(uid(0), "big")
    if kind == "remove":
        return [RemoveTopicRecord(topic_id=known.id)]
    if kind == "add":
        return [partition(known_number, len(known.partitions), rest[0])]
    if kind == "create" or rest[0] not in known.partitions:
        return []
    index, some = rest
    if kind == "lose":
        return [
            change(known_number, index, isr=[], leader=NO_LEADER, eligible_leader_replicas=some)
        ]
    return [change(known_number, index, isr=some, leader=some[0], adding_replicas=some)]


def grown(image, branch, first_number):
    for number, step in enumerate(branch, first_number):
        image = image_of(*records_of(image, step, number), base=image)
    return image


def check(index, image):
    topics = image.topics
    assert index.topics is topics
    places = {(t.id, n): p for t in topics.by_id.values() for n, p in t.partitions.items()}
    for broker in BROKERS:
        assert set(index.in_sync(broker)) == {key for key, p in places.items() if broker in p.isr}
        assert set(index.eligible(broker)) == {key for key, p in places.items() if broker in p.elr}
        assert set(index.led_by(broker)) == {key for key, p in places.items() if broker == p.leader}
    assert set(index.leaderless) == {key for key, p in places.items() if p.leader == NO_LEADER}
    others = {key for key, p in places.items() if p.leader != p.preferred_leader}
    assert set(index.imbalanced) == others
    assert set(index.reassigning) == {key for key, p in places.items() if p.adding or p.removing}
    for name in NAMES:
        alike = {t for t in topics.by_name if in_metrics(t) == in_metrics(name)} - {name}
        found = index.colliding(name)
        assert (found in alike) if alike else (found is None)
    assert index == PartitionIndex.of(topics)


AB = ("create", "a.b", [[1]])


@example([AB], [("remove", "a.b"), AB], [])  # the same name with another id
@example([AB], [("add", "a.b", [2])], [])
@given(steps, steps, steps)
def test_index_follows_between_any_two_images(common, one, other):
    """Two images that diverged, such as an epoch's and the committed one, and the empty image."""
    base = grown(EMPTY, common, 0)
    images = [base, grown(base, one, 100), grown(base, other, 200), EMPTY]
    index = PartitionIndex()
    for image in (*images, *images[::-1]):
        deque(index.follow(image.topics), maxlen=0)
        check(index, image)


@example([AB, ("create", "a_b", [[1]]), ("remove", "a.b"), ("create", "a.b", [[2]])])
@given(steps)
def test_index_follows_every_delta(branch):
    image, index = EMPTY, PartitionIndex()
    for number, step in enumerate(branch):
        delta = replay(records_of(image, step, number), image)
        image = delta.apply(SOMEWHERE)
        deque(index.apply(delta.topics, image.topics), maxlen=0)
        check(index, image)


def test_index_matches_no_image_while_updating():
    image = image_of(topic("t", 1), partition(1, 0, [1]), partition(1, 1, [2]))
    index = PartitionIndex()
    way = index.follow(image.topics)
    next(way)
    assert index.topics is None
    deque(way, maxlen=0)
    assert index.topics is image.topics
