"""Random, valid sequences of metadata records."""

import random

from tests.zkcompat import build
from trimaran.quorum.metadata.image import MetadataImage

TOPICS = ("a", "b", "a.b", "c_d")
CONFIG_KEYS = ("retention.ms", "segment.bytes", "ssl.keystore.password")
QUOTAS = ("producer_byte_rate", "request_percentage")
RESOURCES = ((4, ""), (4, "1"), (4, "2"), (2, "a"), (2, "b"), (32, "group"))


def next_records(image: MetadataImage, prng: random.Random, count: int):
    """Returns `count` records, each valid after those before it."""
    records = []
    for _ in range(count):
        _, now = build.replay(image, *records)
        records += _one(now, prng)
    return records


def _one(image: MetadataImage, prng: random.Random):
    kind = prng.choice(
        [
            "broker",
            "topic",
            "partition",
            "config",
            "ids",
            "remove",
            "quota",
            "scram",
            "acl",
            "token",
        ]
    )
    if kind in ("quota", "scram", "acl", "token"):
        return [{"quota": _quota, "scram": _scram, "acl": _acl, "token": _token}[kind](image, prng)]
    if kind == "broker":
        return [_broker(image, prng)]
    if kind == "config":
        resource = prng.choice(RESOURCES)
        if resource[0] == 2 and resource[1] not in image.topics.by_name:
            return []
        return [build.config(*resource, prng.choice(CONFIG_KEYS), prng.choice([None, "1", "2"]))]
    if kind == "ids":
        return [build.producer_ids(prng.randrange(0, 5000, 1000))]
    names = sorted(image.topics.by_name)
    if kind == "topic":
        name = prng.choice(TOPICS)
        return [] if name in names else _new_topic(name, prng)
    if not names:
        return []
    topic = image.topics.by_name[prng.choice(names)]
    if kind == "remove":
        return [build.remove_topic(topic.id)]
    return [_partition(topic, prng)]


def _quota(_, prng):
    entity = prng.choice(
        [
            {"user": "a b"},
            {"user": None},
            {"client": "app"},
            {"ip": "10.0.0.1"},
            {"user": "a b", "client": "x"},
            {"user": "c", "client": None},
        ]
    )
    key = "connection_creation_rate" if "ip" in entity else prng.choice(QUOTAS)
    return build.quota(key, prng.choice([None, 12.5, 1000.0]), **entity)


def _scram(image, prng):
    user, mechanism = prng.choice(["a b", "d"]), prng.choice([1, 2])
    if (user, mechanism) in image.scram and prng.random() < 0.5:
        return build.no_scram(user, mechanism)
    return build.scram(user, mechanism, prng.randbytes(3))


def _acl(image, prng):
    number = prng.randint(1, 6)
    if number.to_bytes(16, "big") in image.acls:
        return build.no_acl(number)
    members = {"pattern_type": prng.choice([3, 4]), "resource_type": prng.choice([2, 3, 5])}
    return build.acl(number, prng.choice(["t", "*", "a/b"]), **members)


def _token(image, prng):
    token_id = prng.choice(["t1", "t2"])
    if token_id in image.tokens and prng.random() < 0.5:
        return build.no_token(token_id)
    return build.token(token_id, prng.randrange(1 << 40))


def _broker(image, prng):
    broker_id = prng.randint(1, 3)
    known = image.cluster.brokers.get(broker_id)
    choice = prng.choice(["register", "fence", "unfence", "unregister"])
    if known is None or choice == "register":
        return build.broker(broker_id, epoch=prng.randrange(1 << 30), fenced=prng.random() < 0.5)
    make = {"fence": build.fence, "unfence": build.unfence, "unregister": build.unregister}[choice]
    return make(broker_id, known.epoch)


def _new_topic(name, prng):
    topic_id = prng.randbytes(16)
    partitions = [build.partition(topic_id, i, [1, 2]) for i in range(prng.randint(1, 3))]
    return [build.topic(name, topic_id), *partitions]


def _partition(topic, prng):
    index = prng.randrange(len(topic.partitions) + 1)
    if index == len(topic.partitions):
        return build.partition(topic.id, index, [2, 3])
    choice = prng.choice(["isr", "leader", "reassign", "nothing"])
    members = {
        "isr": {"isr": prng.sample([1, 2, 3], 2)},
        "leader": {"leader": prng.choice([-1, 1, 2]), "leader_recovery_state": prng.choice([0, 1])},
        "reassign": {"replicas": [1, 2, 3], "adding_replicas": [3], "removing_replicas": [1]},
        "nothing": {},
    }[choice]
    return build.change(topic.id, index, **members)
