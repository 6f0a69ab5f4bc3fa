"""The rules of each section, called directly, one row per rule."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks import check_each
from tests.zkcompat import build
from tests.zkcompat.build import CLUSTER_ID, T1, T2
from tests.zkcompat.model import plan, render
from tests.zkcompat.scenario import next_records
from trimaran.quorum.metadata.image import EMPTY
from trimaran.zkcompat.sections.acls import path_of
from trimaran.zkcompat.sections.configs import resolve
from trimaran.zkcompat.sections.registry import SectionIndex, sections_of
from trimaran.zkcompat.sections.section import differing_keys
from trimaran.zkcompat.tree.operations import FoundZnode, OperationKind, Znode, delete, set_data
from trimaran.zkcompat.znodes.broker_info import BrokerInfo, ListenerAddress
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.partition_state import PartitionStateZnode

PLAIN = sections_of(CLUSTER_ID)
SECTIONS = sections_of(CLUSTER_ID, secrets=True)
BY_LABEL = {section.label: section for section in SECTIONS}
INDEX = SectionIndex(SECTIONS)

PLACES = [
    ("/brokers/ids/7", "Broker", "7"),
    ("/brokers/topics/t", "Topic", "t"),
    ("/brokers/topics/t/partitions/0/state", "Topic", "t"),
    ("/config/topics/t", "Topic", "t"),
    ("/config/brokers/<default>", "BrokerConfigs", "<default>"),
    ("/config/users/u", "UserConfigs", "u"),
    ("/config/users/u/clients/c", "UserConfigs", "u"),
    ("/config/clients/c", "ClientConfigs", "c"),
    ("/config/ips/127.0.0.1", "IpConfigs", "127.0.0.1"),
    ("/latest_producer_id_block", "ProducerId", "next"),
    ("/kafka-acl/Topic/t", "Acls", "/kafka-acl/Topic/t"),
    ("/kafka-acl/Topic/t/by-hand", "Acls", "/kafka-acl/Topic/t"),
    ("/kafka-acl-extended/prefixed/Group/g", "Acls", "/kafka-acl-extended/prefixed/Group/g"),
    ("/delegation_token/tokens/x", "DelegationToken", "x"),
    ("/cluster/id", "Fixed", "all"),
    ("/feature", "Fixed", "all"),
    ("/config/users", "Fixed", "all"),
    ("/kafka-acl/User", "Fixed", "all"),
    ("/delegation_token/tokens", "Fixed", "all"),
    ("/brokers/topics/t", "Topic", "t"),
    ("/controller", None, None),
    ("/cluster/id/x", None, None),
    ("/latest_producer_id_block/x", None, None),
    ("/", None, None),
]


def test_each_path_belongs_to_one_entity():
    def belongs(row):
        path, label, name = row
        found = INDEX.entity_at(path)
        assert (found and (found[0].label, found[1])) == (label and (label, name))

    check_each(PLACES, belongs)


def state(**changes):
    values = {"leader": 1, "leader_epoch": 2, "isr": [1, 2], "controller_epoch": 5, **changes}
    return PartitionStateZnode(**values).encode()


def broker(timestamp_ms=7, **changes):
    endpoints = (ListenerAddress("PLAINTEXT", "h", 9092, 0),)
    values = {"endpoints": endpoints, "rack": None, "timestamp_ms": timestamp_ms, **changes}
    return BrokerInfo(broker_id=1, **values).encode()


def config(**values):
    return EntityConfig(values).encode()


def acls(*operations):
    entries = (
        f'{{"principal":"User:a","permissionType":"Allow","host":"*","operation":"{name}"}}'
        for name in operations
    )
    return f'{{"version":1,"acls":[{",".join(entries)}]}}'.encode()


QUOTA, SCRAM = {"producer_byte_rate": "1"}, {"SCRAM-SHA-256": "x"}
THREADS, PASSWORD = {"log.cleaner.threads": "1"}, {"ssl.key.password": "x"}
TOPIC, STATE = "/config/topics/t", "/brokers/topics/t/partitions/0/state"
# path, content by the image, content of the znode, whether nothing needs to be written
COMPARED = [
    (STATE, state(), state(), True),
    (STATE, state(), state(controller_epoch=0), True),
    (STATE, state(), state(controller_epoch=4), True),
    (STATE, state(), state(controller_epoch=6), False),  # a later controller's state
    (STATE, state(), state(controller_epoch=-1), False),
    (STATE, state(), state(leader=2), False),
    (STATE, state(), state(leader_epoch=3), False),
    (STATE, state(), state(isr=[2, 1]), False),
    (STATE, state(), state(leader_recovery_state=1), False),
    (STATE, state(), b"garbage", False),
    (STATE, state(), None, False),
    (TOPIC, config(a="1"), b'{"config":{"a":"1"},"version":1}', True),
    (TOPIC, config(a="1"), config(a="2"), False),
    (TOPIC, config(a="1"), config(a="1", b="2"), False),
    (TOPIC, config(), None, False),  # a topic of ZooKeeper mode always has a config
    (TOPIC, config(), b"garbage", False),
    (TOPIC, b"garbage", b"other garbage", False),
    ("/brokers/topics/t/partitions/0", None, None, True),
    ("/brokers/topics/t/partitions/0", None, b"", True),
    ("/brokers/topics/t/partitions/0", None, b"x", False),
    ("/brokers/topics/t", config(), b'{"config":{},"version":1}', False),
    ("/brokers/ids/1", broker(), broker(timestamp_ms=8), True),
    ("/brokers/ids/1", broker(), broker(rack="r"), False),
    ("/brokers/ids/1", broker(), broker(jmx_port=1), False),
    ("/brokers/ids/1", broker(), broker(endpoints=()), False),
    ("/brokers/ids/1", broker(), b"garbage", False),
    ("/brokers/ids/1", broker(), None, False),
    ("/brokers/ids/1", b"garbage", b"other garbage", False),
    ("/config/clients/c", config(**QUOTA), config(**QUOTA), True),
    ("/config/clients/c", config(**QUOTA), config(**QUOTA, **SCRAM), True),  # another tool's data
    ("/config/clients/c", config(**QUOTA), config(**SCRAM), False),
    ("/config/clients/c", config(**QUOTA), config(producer_byte_rate="2"), False),
    ("/config/clients/c", config(**QUOTA), b"garbage", False),
    ("/config/clients/c", config(**QUOTA), None, False),
    ("/config/clients/c", None, config(**SCRAM), True),
    ("/config/clients/c", None, b"", True),
    ("/config/clients/c", None, b"garbage", False),
    ("/config/clients/c", b"garbage", b"other garbage", False),
    ("/config/users/u", config(**QUOTA), config(**QUOTA, **SCRAM), False),  # a mirrored key
    ("/config/users/u", config(**QUOTA), config(**QUOTA, other="x"), True),
    ("/config/brokers/1", config(**THREADS), config(**THREADS, **PASSWORD), True),
    ("/config/brokers/1", config(**THREADS), config(**{"log.cleaner.threads": "2"}), False),
    ("/config/brokers/1", config(), config(**THREADS), False),
    ("/kafka-acl/Topic/t", acls("Read", "Write"), acls("Write", "Read"), True),
    ("/kafka-acl/Topic/t", acls("Read"), acls("Write"), False),
    ("/kafka-acl/Topic/t", acls("Read"), acls("Read", "Write"), False),
    ("/kafka-acl/Topic/t", acls("Read"), b"garbage", False),
    ("/kafka-acl/Topic/t", b"garbage", b"other garbage", False),
    ("/kafka-acl/Topic/t", b"garbage", b"garbage", True),
    ("/latest_producer_id_block", None, b"", True),
    ("/latest_producer_id_block", b"1", b"2", False),
    ("/config/users", None, b"whatever", True),
    ("/cluster/id", b"a", b"b", False),
]


def test_existing_znodes_are_compared_by_meaning():
    def is_so(row):
        path, expected, found, is_same = row
        section, _ = INDEX.entity_at(path)
        assert section.same(path, expected, found) is is_same, row

    check_each(COMPARED, is_so)


OWNERS = [
    ("UserConfigs", "producer_byte_rate", False, False),
    ("UserConfigs", "controller_mutation_rate", False, False),
    ("UserConfigs", "SCRAM-SHA-256", True, False),
    ("UserConfigs", "SCRAM-SHA-512", True, False),
    ("UserConfigs", "other", True, True),
    ("ClientConfigs", "request_percentage", False, False),
    ("ClientConfigs", "SCRAM-SHA-256", True, True),
    ("IpConfigs", "connection_creation_rate", False, False),
    ("IpConfigs", "other", True, True),
    ("BrokerConfigs", "ssl.keystore.password", True, True),
    ("BrokerConfigs", "retention.ms", True, True),  # a key of topics, which brokers do not know
    ("BrokerConfigs", "log.cleaner.threads", False, False),
]


def test_config_keys_are_mirrored_or_foreign():
    def is_so(row):
        label, key, *expected = row
        found = [
            section.is_foreign(key)
            for sections in (PLAIN, SECTIONS)
            for section in sections
            if section.label == label
        ]
        assert found == expected, row

    check_each(OWNERS, is_so)


SPARED = [
    ("/config/clients/c", config(**SCRAM), True),
    ("/config/clients/c", config(), True),
    ("/config/clients/c", None, True),
    ("/config/clients/c", config(**QUOTA), False),
    ("/config/clients/c", b"garbage", False),
    ("/config/users/u", config(**SCRAM), False),
    ("/kafka-acl/User", b"x", True),
    ("/cluster/id", b"x", False),
    ("/brokers/topics/t", None, False),
]


def test_znodes_without_mirrored_content_may_stay():
    def is_so(row):
        path, data, is_spared = row
        section, _ = INDEX.entity_at(path)
        assert section.spares(path, data) is is_spared, row

    check_each(SPARED, is_so)


def test_recreated_znode_gets_note_unless_first_config():
    topics, users = BY_LABEL["Topic"], BY_LABEL["UserConfigs"]
    empty, full = Znode(config()), Znode(config(a="1"))
    assert topics.is_new(TOPIC, empty)
    assert topics.is_new("/brokers/topics/t/partitions", Znode(None))
    assert not topics.is_new(TOPIC, full)
    assert not topics.is_new("/brokers/topics/t", empty)
    assert users.is_new("/config/users/u/clients", Znode(None))
    assert not users.is_new("/config/users/u", empty)


def test_only_broker_znodes_belong_to_session():
    image = build.image_of(
        build.broker(1), build.broker(12), build.topic("t", T1), build.scram("u")
    )
    tree = render(image, CLUSTER_ID, SECTIONS)
    ephemeral = {path for path, znode in tree.items() if znode.ephemeral}
    assert ephemeral == {"/brokers/ids/1", "/brokers/ids/12"}
    for name in ("01", "1 ", "+1", "١", "2", ""):
        assert list(BY_LABEL["Broker"].znodes(name, image)) == []


def test_topic_size_is_its_number_of_znodes():
    image = build.image_of(
        build.topic("t", T1), *(build.partition(T1, index, [1]) for index in range(3))
    )
    topics = BY_LABEL["Topic"]
    assert topics.size("t", image) == len(list(topics.znodes("t", image))) == 9
    assert topics.size("none", image) == 3
    assert BY_LABEL["Broker"].size("1", image) == 1


SHOWN_ACLS = [
    ({"resource_type": number}, number in (2, 3, 4, 5, 6, 7)) for number in range(-1, 9)
] + [
    *(({"pattern_type": number}, number in (3, 4)) for number in range(-1, 6)),
    *(({"operation": number}, 2 <= number <= 15) for number in range(-1, 17)),
    *(({"permission_type": number}, number in (2, 3)) for number in range(-1, 5)),
]


def test_acls_without_possible_znode_are_omitted():
    """Such ACLs have values of filters, which no broker stores, or come from a later Kafka."""

    def is_so(row):
        members, is_shown = row
        image = build.image_of(build.acl(1, "name", **members))
        (acls,) = [section for section in SECTIONS if section.label == "Acls"]
        assert (len(list(acls.names(image))) == 1) is is_shown, row
        if not is_shown and {"resource_type", "pattern_type"} & set(members):
            assert path_of(build.acl(1, "name", **members)) is None

    check_each(SHOWN_ACLS, is_so)


@pytest.mark.parametrize(("next_id", "is_written"), [(-1, False), (0, True), (1000, True)])
def test_producer_id_block_is_written_from_first_one(next_id, is_written):
    _, image = build.replay(EMPTY, build.producer_ids(next_id))
    ((_, znode),) = BY_LABEL["ProducerId"].znodes("next", image)
    assert (znode.data is not None) is is_written


def records_of_everything(prng):
    """Returns records of different entities, which may come in any order, except that topics precede their
    partitions.
    """
    topics = []
    for name, topic_id in (("b", T1), ("a", T2)):
        partitions = [build.partition(topic_id, index, [1, 2]) for index in (0, 1, 2, 10)]
        prng.shuffle(partitions)
        topics.append([build.topic(name, topic_id), *partitions])
    others = [
        *([build.broker(number)] for number in (2, 10, 1)),
        *([build.config(2, "a", key, "1")] for key in ("retention.ms", "segment.bytes")),
        *([build.config(4, name, "x", "1")] for name in ("2", "", "10")),
        *([build.quota("producer_byte_rate", 1.0, user=name)] for name in ("u", None, "a")),
        *([build.quota("producer_byte_rate", 1.0, client=name)] for name in ("d", None, "c")),
        *([build.quota("producer_byte_rate", 1.0, user="u", client=c)] for c in ("z", "b", None)),
        *([build.quota("connection_creation_rate", 1.0, ip=ip)] for ip in ("2.2.2.2", "1.1.1.1")),
        *([build.scram(name)] for name in ("u", "s")),
        *([build.acl(number, name)] for number, name in enumerate(("y", "x", "z"))),
        *([build.token(name)] for name in ("t2", "t1")),
    ]
    groups = [*topics, *others]
    prng.shuffle(groups)
    return [record for group in groups for record in group]


@given(st.integers(0, 1 << 32))
def test_order_of_writes_ignores_order_of_records(seed):
    """Two controllers that reached their images differently, by a snapshot or by the log, write the same."""
    images = [build.image_of(*records_of_everything(random.Random(n))) for n in (0, seed)]
    trees = [list(render(image, CLUSTER_ID, SECTIONS).items()) for image in images]
    assert trees[0] == trees[1]


NAMES = [f"n{number}" for number in range(40)]
ORDERED = [
    ("Broker", [build.broker(number) for number in (7, 100, 33, 2, 64)], "2 7 33 64 100"),
    ("Topic", [build.topic(name, name.encode().ljust(16)) for name in NAMES], None),
    ("BrokerConfigs", [build.config(4, name, "x", "1") for name in NAMES], None),
    ("UserConfigs", [build.quota("producer_byte_rate", 1.0, user=name) for name in NAMES], None),
    (
        "ClientConfigs",
        [build.quota("producer_byte_rate", 1.0, client=name) for name in NAMES],
        None,
    ),
    (
        "IpConfigs",
        [build.quota("connection_creation_rate", 1.0, ip=name) for name in NAMES],
        None,
    ),
    ("DelegationToken", [build.token(name) for name in NAMES], None),
]


def test_names_of_each_section_are_sorted():
    """Brokers are ordered by number, all other names as strings."""

    def is_so(row):
        label, records, expected = row
        names = list(BY_LABEL[label].names(build.image_of(*records)))
        assert names == (expected.split() if expected else sorted(NAMES)), label

    check_each(ORDERED, is_so)
    image = build.image_of(*(build.acl(number, name) for number, name in enumerate(NAMES)))
    paths = [f"/kafka-acl/Topic/{name}" for name in sorted(NAMES)]
    assert list(BY_LABEL["Acls"].names(image)) == paths
    clients = [build.quota("producer_byte_rate", 1.0, user="u", client=name) for name in NAMES]
    found = [path for path, _ in BY_LABEL["UserConfigs"].znodes("u", build.image_of(*clients))]
    assert found[2:] == [f"/config/users/u/clients/{name}" for name in sorted(NAMES)]


@given(st.integers(0, 1 << 32))
def test_each_note_follows_its_change(seed):
    prng, before = random.Random(seed), EMPTY
    for _ in range(6):
        delta, after = build.replay(before, *next_records(before, prng, prng.randint(0, 5)))
        written = set()
        for operation in plan(delta, after, SECTIONS):
            if operation.sequential:
                assert operation.about in written
            else:
                written.add(operation.path)
        before = after


FOREIGN, OWN = {"other": "x"}, {"producer_byte_rate": "1"}


def resolved(operation, found, **changes):
    one = resolve(replace(operation, **changes), found)
    return one.kind, one.data, one.version


def test_foreign_keys_survive_write_and_delete():
    keeps = BY_LABEL["UserConfigs"].is_foreign
    write = set_data("/config/users/u", Znode(config(**OWN)), "n", "s", keeps)
    gone = delete("/config/users/u", "n", "s", keeps)
    mine, both = (
        FoundZnode(config(**OWN), version=3),
        FoundZnode(config(**OWN, **FOREIGN), version=4),
    )
    assert resolved(write, None) == (OperationKind.SET, config(**OWN), -1)
    assert resolved(write, mine) == (OperationKind.SET, config(**OWN), 3)
    assert resolved(write, both) == (OperationKind.SET, config(**OWN, **FOREIGN), 4)
    assert resolved(write, FoundZnode(b"garbage", version=5)) == (
        OperationKind.SET,
        config(**OWN),
        5,
    )
    assert resolved(write, both, keeps=None) == (OperationKind.SET, config(**OWN), -1)
    assert resolved(write, None, keeps=None) == (OperationKind.SET, config(**OWN), -1)
    assert resolved(gone, mine) == (OperationKind.DELETE, None, 3)
    assert resolved(gone, both) == (OperationKind.SET, config(**FOREIGN), 4)
    assert resolved(gone, None) == (OperationKind.DELETE, None, -1)


@given(st.integers(0, 1 << 32))
def test_partitions_are_written_in_numeric_order(seed):
    prng = random.Random(seed)
    numbers = [0, 33, 64, 100, 31]
    prng.shuffle(numbers)
    before = build.image_of(
        build.topic("t", T1), *(build.partition(T1, number, [1, 2]) for number in numbers[:3])
    )
    changes = [build.partition(T1, number, [1, 2]) for number in numbers[3:]]
    changes += [build.change(T1, number, leader=2) for number in numbers[:3]]
    prng.shuffle(changes)
    delta, after = build.replay(before, *changes)
    states = [
        operation.path.split("/")[5]
        for operation in plan(delta, after)
        if operation.path.endswith("/state")
    ]
    assert states == [
        *map(str, sorted(numbers[3:])),
        *map(str, sorted(numbers[:3])),
    ]


@given(st.integers(0, 1 << 32))
def test_delta_and_both_images_name_same_changes(seed):
    """The twin renders every entity of both images."""
    prng, before = random.Random(seed), EMPTY
    for _ in range(6):
        records = next_records(before, prng, prng.randint(0, 5))
        delta, after = build.replay(before, *records, epoch=3)
        for section in SECTIONS:
            names = {*section.names(before), *section.names(after)}
            changed = {
                name
                for name in names
                if [(p, z.data) for p, z in section.znodes(name, before)]
                != [(p, z.data) for p, z in section.znodes(name, after)]
                and list(section.plan(name, before, after))
            }
            assert changed <= set(section.touched(delta)), section.label
            assert changed <= set(section.differing(before, after)), section.label
            assert not list(section.differing(after, after)), section.label
        before = after


def test_differing_keys_are_changed_deleted_or_new():
    kept, old, new = [1], [2], [2]
    before = {"kept": kept, "changed": old, "gone": old}
    after = {"kept": kept, "changed": new, "new": new}
    assert differing_keys(before, after) == ["gone", "changed", "new"]
    assert differing_keys(before, before) == []


def test_token_parents_exist_if_tokens_are_mirrored():
    for sections, is_there in ((PLAIN, False), (SECTIONS, True)):
        assert ("/delegation_token/tokens" in render(EMPTY, CLUSTER_ID, sections)) is is_there
