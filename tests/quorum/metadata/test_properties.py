"""Random histories of the metadata log: a snapshot has the same content as the records that it replaces."""

from hypothesis import given
from hypothesis import strategies as st

from tests.quorum.metadata.build import (
    SOMEWHERE,
    broker,
    change,
    changed_broker,
    config,
    features,
    image_of,
    partition,
    replay,
    topic,
    uid,
)
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, MetadataImage
from trimaran.quorum.metadata.records import delta_from_nothing, image_to_records
from trimaran.wire.records.brokers import UnregisterBrokerRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.metadata import (
    decode_metadata_record,
    encode_metadata_record,
    metadata_record_version,
)
from trimaran.wire.records.producer_ids import ProducerIdsRecord
from trimaran.wire.records.topics import RemoveTopicRecord


@st.composite
def histories(draw) -> list:
    """Draws records that a controller could have written: each is valid after those before it."""
    records = [features()]
    image = image_of(*records)
    for number in range(draw(st.integers(0, 25))):
        record = draw(next_records(image, number))
        records.append(record)
        image = image_of(record, base=image)
    return records


def next_records(image: MetadataImage, number: int):
    topics = list(image.topics.by_id.values())
    brokers = list(image.cluster.brokers.values())
    choices = [
        st.builds(topic, st.just(f"t{number}"), st.just(number)),
        st.builds(broker, st.integers(1, 4), epoch=st.just(number), fenced=st.booleans()),
        st.builds(
            config,
            st.sampled_from("ab"),
            st.none() | st.sampled_from("12"),
            st.sampled_from([(2, "x"), (4, "")]),
        ),
        st.builds(ProducerIdsRecord, broker_id=st.just(1), next_producer_id=st.just(number * 1000)),
        st.builds(
            FeatureLevelRecord, name=st.sampled_from(["f", "g"]), feature_level=st.integers(0, 2)
        ),
    ]
    for existing in topics:
        name = config("retention.ms", str(number), (2, existing.name))
        choices.append(st.just(RemoveTopicRecord(topic_id=existing.id)))
        choices.append(st.just(name))
        index = len(existing.partitions)
        replicas = st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True)
        key = int.from_bytes(existing.id, "big") - 1000
        choices.append(st.builds(partition, st.just(key), st.just(index), replicas))
        for at, found in existing.partitions.items():
            leader, isr = (
                st.sampled_from([-2, -1, *found.replicas]),
                st.none() | st.just([found.replicas[0]]),
            )
            choices.append(st.builds(change, st.just(key), st.just(at), leader=leader, isr=isr))
    for registered in brokers:
        choices.append(
            st.builds(
                changed_broker,
                st.just(registered.id),
                epoch=st.just(registered.epoch),
                fenced=st.integers(-1, 1),
            )
        )
        choices.append(
            st.just(UnregisterBrokerRecord(broker_id=registered.id, broker_epoch=registered.epoch))
        )
    return st.one_of(choices)


def snapshot_delta(image: MetadataImage, base: MetadataImage) -> MetadataDelta:
    delta = replay(image_to_records(image), base)
    delta.finish_snapshot()
    return delta


def answers(delta: MetadataDelta) -> dict:
    """Returns the results of publishers' queries to a delta, unordered and without changes that were reverted."""
    return {
        "created": delta.topics.created,
        "deleted": dict(delta.topics.deleted),
        "partitions": {
            id_: {i: p for i, p in d.partitions.items() if d.image.partitions.get(i) != p}
            for id_, d in delta.topics.changed.items()
        },
        "brokers": {
            i: b
            for i, b in delta.cluster.changed_brokers.items()
            if delta.cluster.image.brokers.get(i) != b
        },
        "configs": {
            key: {k: v for k, v in changes.items() if delta.configs.image.of(*key).get(k) != v}
            for key, changes in delta.configs.changed.items()
            if any(delta.configs.image.of(*key).get(k) != v for k, v in changes.items())
        },
        "features": {
            k: v
            for k, v in delta.features.changed.items()
            if delta.features.image.levels.get(k) != v
        },
    }


@given(histories())
def test_image_survives_conversion_to_records(records):
    image = image_of(*records)
    again = image_of(*image_to_records(image))
    assert again == image
    assert snapshot_delta(image, EMPTY).apply(SOMEWHERE) == image


@given(histories())
def test_delta_from_empty_image_equals_snapshot(records):
    image = image_of(*records)
    delta = delta_from_nothing(image)
    assert answers(delta) == answers(replay(image_to_records(image), EMPTY))
    assert delta.apply(SOMEWHERE) == image


@given(histories(), st.data())
def test_snapshot_has_content_of_log(records, data):
    cut = data.draw(st.integers(0, len(records)))
    base = image_of(*records[:cut])
    by_log = replay(records[cut:], base)
    image = by_log.apply(SOMEWHERE)
    by_snapshot = snapshot_delta(image, base)
    assert by_snapshot.apply(SOMEWHERE) == image
    assert {k: v for k, v in answers(by_snapshot).items() if v} == {
        k: v for k, v in _without_untouched_topics(answers(by_log)).items() if v
    }


def _without_untouched_topics(found: dict) -> dict:
    """A topic that was changed and changed back is unchanged in a snapshot; a new topic never is."""
    partitions = {
        id_: changes
        for id_, changes in found["partitions"].items()
        if changes or id_ in found["created"]
    }
    return {**found, "partitions": partitions}


@given(histories())
def test_single_record_replay_equals_bulk_replay(records):
    image = EMPTY
    for record in records:
        image = image_of(record, base=image)
    assert image == image_of(*records)


@given(histories())
def test_records_survive_their_bytes(records):
    """Records as in a snapshot file: encoded at the level of the cluster."""
    image = image_of(*records)
    level = image.features.metadata_version
    again = [
        decode_metadata_record(encode_metadata_record(r, metadata_record_version(type(r), level)))
        for r in image_to_records(image)
    ]
    assert image_of(*again) == image


def test_topics_by_name_and_id_agree():
    image = image_of(topic("t", 1), topic("u", 2), partition(1, 0, [1]))
    assert (
        {t.id for t in image.topics.by_name.values()} == set(image.topics.by_id) == {uid(1), uid(2)}
    )
