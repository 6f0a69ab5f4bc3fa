"""Tables that are built column by column, compared with simple twins that process one record at a time."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark.directories import encode_newest
from tests.spark.kafka_metadata.test_reading import Log, min_isr, rows, store
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, NO_LEADER
from trimaran.quorum.metadata.topics_delta import merge_change, partition_of
from trimaran.spark.kafka_metadata.log_walk.decoding import decode_messages
from trimaran.spark.kafka_metadata.topic_histories import partition_states as standings
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.codec.plan import shape_of
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.metadata import decode_metadata_record
from trimaran.wire.records.misc import NoOpRecord
from trimaran.wire.records.registry import METADATA_RECORDS
from trimaran.wire.records.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from trimaran.wire.text.as_json import as_json

REPLICAS = (11, 12, 13)
TOPICS = {bytes([number] * 16): f"topic-{number}" for number in (1, 2)}
replicas = st.none() | st.lists(st.sampled_from(REPLICAS), unique=True)


def one_by_one(value, keys):
    try:
        message = decode_metadata_record(value)
    except RemoteProtocolError:
        return None
    return message if keys is None or message.KEY in keys else None


VALUES = [encode_newest(NoOpRecord()), encode_newest(TopicRecord(name="a", topic_id=bytes(16)))]
odd = st.binary(max_size=6) | st.sampled_from(
    [b"", b"\1", b"\1\x80\1\0", b"\1\x94\0\0\0", b"\2\x14\0\0", b"\1\x14\x63\0", VALUES[1][:-1]]
)


@given(st.lists(odd | st.sampled_from(VALUES)), st.sampled_from([None, {2}, {20}, {2, 20}]))
def test_values_are_decoded_as_by_twin(values, keys):
    starts, data = [], b""
    for value in values:
        starts.append(len(data))
        data += value
    wanted = None if keys is None else frozenset(keys)
    found = decode_messages(data, starts, list(map(len, values)), wanted)
    assert found == [one_by_one(value, wanted) for value in values]


@given(st.lists(odd | st.sampled_from(VALUES)))
def test_values_of_raw_types_are_their_bytes(values):
    data, starts = b"".join(values), [sum(map(len, values[:i])) for i in range(len(values))]
    found = decode_messages(data, starts, list(map(len, values)), None, frozenset({20}))
    for item, value in zip(found, values, strict=True):
        assert item == (value if value.startswith(b"\1\x14\0") else one_by_one(value, None))


changes = st.builds(
    PartitionChangeRecord,
    partition_id=st.just(0),
    topic_id=st.just(bytes(16)),
    isr=replicas,
    leader=st.sampled_from([-2, -1, *REPLICAS]),
    replicas=replicas.filter(lambda r: r is None or len(r) == 3),
    removing_replicas=replicas,
    adding_replicas=replicas,
    leader_recovery_state=st.sampled_from([-1, 0, 1]),
    eligible_leader_replicas=replicas,
    last_known_elr=replicas,
)


@given(changes)
def test_fields_not_named_by_change_stay(change):
    before = partition_of(created(bytes(16), 0))._replace(elr=(12,), adding=(13,))
    after = merge_change(before, change)
    named = {
        "replicas": change.replicas,
        "isr": change.isr,
        "removing": change.removing_replicas,
        "adding": change.adding_replicas,
        "elr": change.eligible_leader_replicas,
        "last_known_elr": change.last_known_elr,
    }
    wanted = {name: tuple(value) for name, value in named.items() if value is not None}
    if change.leader != -2:
        wanted |= {"leader": change.leader, "leader_epoch": before.leader_epoch + 1}
    if change.leader_recovery_state != -1:
        wanted["leader_recovery_state"] = change.leader_recovery_state
    assert after == before._replace(**wanted, partition_epoch=before.partition_epoch + 1)


@given(changes, st.integers(0, (1 << 31) - 1), st.binary(min_size=16, max_size=16))
def test_separate_change_equals_full_merge(change, number, topic_id):
    before = partition_of(created(bytes(16), 0))
    stood = standings.created(before)
    change.partition_id, change.topic_id = number, topic_id
    place, says = standings.apart(encode_newest(change))
    assert place == standings.place_of(change)
    after, wanted = standings.changed(stood, says), merge_change(before, change)
    assert after.image == wanted._replace(leader_epoch=0, partition_epoch=0)
    assert after.is_elected == (wanted.leader_epoch > before.leader_epoch)
    assert standings.merged(stood, change) is after
    assert standings.changed(stood, says[:-1]) is None


def created(topic_id, number):
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(REPLICAS),
        isr=list(REPLICAS),
        removing_replicas=[],
        adding_replicas=[],
        leader=REPLICAS[0],
        leader_epoch=0,
        partition_epoch=0,
    )


# --- records -----------------------------------------------------------------------------------------------------------


def test_columns_of_records_are_those_of_each_record(tmp_path):
    """Every type of record, some of a later Kafka, in chunks of many types and of one."""
    kinds = [METADATA_RECORDS[key] for key in METADATA_RECORDS]
    chance = random.Random(7)
    messages = [example(kind, chance) for kind in kinds * 3 if kind is not TopicRecord]
    messages.append(TopicRecord(name="third", topic_id=bytes([3] * 16)))
    messages += [example(PartitionChangeRecord, chance) for _ in range(20)]
    values = [*map(encode_newest, messages), b"\1\x63\0\0", b"\1\xff\1\0\0", b"\1"]
    log = (
        Log()
        .lead(1, 1000)
        .write(2000, *[TopicRecord(name=n, topic_id=i) for i, n in TOPICS.items()])
    )
    batch = build_batch([NewRecord(None, v, 3000) for v in values], base_offset=log.offset)
    store(tmp_path, 1, [*log.batches, batch])
    for control in ("false", "true"):
        found = rows(tmp_path, includeControl=control)
        assert found[0]["control"] is (control == "true")
        told = [row for row in found if row["base_offset"] == log.offset]
        for row, value in zip(told, values, strict=True):
            wanted = naive(value)
            assert {name: row[name] for name in wanted} == wanted


def example(kind, chance):
    """Draws a value for every field; nullable ones are sometimes null."""
    made = {}
    for field in kind.__fields__:
        shape, optional = shape_of(field.annotation)
        made[field.name] = None if optional and chance.random() < 0.3 else some(shape, chance)
    return kind(**made)


def some(shape, chance):
    if shape.item is not None:
        return [some(shape.item, chance) for _ in range(chance.randrange(3))]
    if shape.wire is None:
        return example(shape.struct, chance)
    return {
        "uuid": chance.choice([*TOPICS, bytes(16)]),
        "bytes": b"\0\xff",
        "string": chance.choice(["", "topic-1", "\u00fc", 'quo"te']),
        "bool": chance.random() < 0.5,
        "float64": 0.5,
    }.get(shape.wire.name, chance.choice([2, 4, 100]))


def naive(value):
    message = one_by_one(value, None)

    def of(name):
        return getattr(message, name, None)

    topic_id, is_config = of("topic_id"), isinstance(message, ConfigRecord)
    topic = of("topic_name")
    if topic_id is not None:
        topic = of("name") if isinstance(message, TopicRecord) else TOPICS.get(topic_id)
    elif is_config:
        topic = message.resource_name if message.resource_type == 2 else None
    numbers = {b"\1\x63\0\0": (99, 0), b"\1\xff\1\0\0": (255, 0), b"\1": (None, None)}
    key, version = numbers.get(value, (value[1:2] and value[1], value[2:3] and value[2]))
    broker = of("broker_id")
    if broker is None and "Broker" in type(message).__name__:
        broker = of("id")
    kinds = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}
    return {
        "type": f"UNKNOWN_{key}" if message is None else type(message).__name__,
        "api_key": key,
        "version": version,
        "size": len(value),
        "topic_id": None if topic_id is None else uuid_to_text(topic_id),
        "topic": topic,
        "partition": of("partition_id"),
        "broker_id": broker,
        "resource_type": kinds.get(message.resource_type, str(message.resource_type))
        if is_config
        else None,
        "resource_name": of("resource_name"),
        "name": of("name"),
        "payload": None if message is None else json.dumps(as_json(message), separators=(",", ":")),
    }


# --- the history of partitions -----------------------------------------------------------------------------------------


def some_log(chance):
    """Draws topics that are created and deleted, partitions that change, and values of min.insync.replicas; each step
    is a batch of its own.
    """
    log, steps = Log().lead(1, 1000), []
    topics = list(TOPICS)

    def write(at, *messages):
        log.write(at, *messages)
        steps.append((log.offset - len(messages), at, messages))

    for topic_id in topics:
        parts = [created(topic_id, number) for number in range(3)]
        write(1000, TopicRecord(name=TOPICS[topic_id], topic_id=topic_id), *parts)
    for i in range(200):
        at = 2000 + 10 * i
        if i == 90:
            write(at, min_isr("2", name="topic-2"))
        elif i == 150:
            write(at, RemoveTopicRecord(topic_id=topics.pop(0)))
        elif i % 9 == 0:
            write(at, NoOpRecord())
        else:
            isr = chance.sample(REPLICAS, chance.randrange(1, 4))
            leader = chance.choice([-2, -2, -1, isr[0]])
            recovery = chance.choice([-1, -1, 0, 1])
            write(
                at,
                PartitionChangeRecord(
                    partition_id=chance.randrange(3),
                    topic_id=chance.choice(topics),
                    isr=chance.choice([None, isr]),
                    leader=leader,
                    leader_recovery_state=recovery,
                ),
            )
    return log, steps


def naive_history(log, steps):
    """Compares the images between any two records: a difference begins an interval."""
    delta, opened, told = MetadataDelta(EMPTY), {}, []
    minima = {}

    def end(key, offset, at):
        topic, number = key
        start, since, image, minimum, was = opened.pop(key)
        told.append((topic, number, start, offset, since, at, image, minimum, was))

    for offset, at, messages in steps:
        for i, message in enumerate(messages):
            delta.replay(message)
            now = {
                (topic.name, number): image
                for topic in delta.topics.changed.values()
                for number, image in topic.all_partitions().items()
            }
            if isinstance(message, ConfigRecord):
                minima[message.resource_name] = int(message.value)
            for key in {*opened, *now}:
                minimum = minima.get(key[0], 1)
                if key not in now:
                    image = opened[key][2]
                    end(key, offset + i, at)
                    told.append((*key, offset + i, offset + i, at, at, None, minimum, image))
                elif key not in opened:
                    opened[key] = (offset + i, at, now[key], minimum, None)
                elif now[key] != opened[key][2] or minimum != opened[key][3]:
                    was = opened[key][2]
                    end(key, offset + i, at)
                    opened[key] = (offset + i, at, now[key], minimum, was)
    last = steps[-1][1]
    for topic, number in list(opened):
        start, since, image, minimum, was = opened[topic, number]
        told.append((topic, number, start, None, since, last, image, minimum, was))
    return told


@pytest.mark.parametrize("seed", range(5))
def test_partition_history_equals_differences_of_images(tmp_path, seed):
    log, steps = some_log(random.Random(seed))
    store(tmp_path, 1, log.batches)
    found = rows(tmp_path, "partition_history")
    wanted = [row_of(*told) for told in naive_history(log, steps)]
    names = wanted[0].keys()
    told = [{name: row[name] for name in names} for row in found]
    assert sorted(told, key=place) == sorted(wanted, key=place)


def test_impossible_changes_are_reported_or_left_out(tmp_path):
    """A malformed one may come from a later Kafka; a change of something that does not exist is an error."""
    topic_id = next(iter(TOPICS))
    log = Log().lead(1, 1000).write(1000, TopicRecord(name="t", topic_id=topic_id))
    log.write(1000, created(topic_id, 0))
    there, absent = (
        encode_newest(PartitionChangeRecord(partition_id=number, topic_id=topic_id, isr=[11]))
        for number in (0, 1)
    )
    malformed = [there[:-1], absent[:-1], there[:10], b"\1\5\x63" + there[3:]]

    def found(name, values):
        batch = build_batch([NewRecord(None, v, 3000) for v in values], base_offset=log.offset)
        store(tmp_path / name, 1, [*log.batches, batch])
        return rows(tmp_path / name, "partition_history")

    left_out = found("left out", [*malformed, there])
    assert [row["isr"] for row in left_out] == [[11, 12, 13], [11]]
    assert [row["unknown_records"] for row in left_out] == [4, 4]
    with pytest.raises(DataUnreadable, match="changes partition 1 of t, which does not exist"):
        found("absent", [absent])
    stranger = PartitionChangeRecord(partition_id=0, topic_id=bytes([9] * 16), isr=[11])
    with pytest.raises(DataUnreadable, match="which does not exist"):
        found("stranger", [encode_newest(stranger)])


def place(row):
    return row["topic"], row["partition"], row["from_offset"], row["to_offset"] or 1e9


def row_of(topic, number, start, end, since, until, image, minimum, was):
    is_gone = image is None
    image = was if is_gone else image
    before = set(image.isr if was is None else was.isr)
    state = "ok" if len(image.isr) == 3 else "under_replicated"
    if len(image.isr) < minimum:
        state = "under_min_isr"
    if image.leader == NO_LEADER:
        state = "offline"
    return {
        "topic": topic,
        "partition": number,
        "from_offset": start,
        "to_offset": end,
        "seconds": (until - since) / 1000,
        "leader": None if image.leader == NO_LEADER else image.leader,
        "prev_leader": None if was is None or was.leader == NO_LEADER else was.leader,
        "isr": list(image.isr),
        "isr_added": sorted(set(image.isr) - before),
        "isr_removed": sorted(before - set(image.isr)),
        "leader_epoch": image.leader_epoch,
        "partition_epoch": image.partition_epoch,
        "min_isr": minimum,
        "state": "deleted" if is_gone else state,
        "unclean": image.leader_recovery_state == 1,
    }
