"""Random administrative actions by seed: the same list for every cluster, each as a mapping that `Admin.java`
understands. The generator keeps a model of the resulting state, so that most actions find something to change. Some
actions must be refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Action = dict[str, Any]
# Names that ZooKeeper mode had to encode, and one that looks like its name for the default.
NAMES = ("alice", "CN=bob, OU=a/b", "ü ñ 日本", "a+b*c~d%25", "<default>", "..", 'semi;colon="q"')
# 2.8 accepts no IPv6 addresses: it resolves the encoded name
IPS = ("10.0.0.1", "192.168.7.9", "172.16.0.3")
RATES = ("producer_byte_rate", "consumer_byte_rate")
FRACTIONS = ("request_percentage", "controller_mutation_rate")
TOPIC_CONFIGS = {
    "retention.ms": ("3600000", "-1", "86400000"),
    "segment.bytes": ("1048576", "2097152"),
    "cleanup.policy": ("compact", "delete", "compact,delete"),
    "max.message.bytes": ("2000000",),
    "min.insync.replicas": ("1", "2"),
    "compression.type": ("gzip", "producer"),
    "leader.replication.throttled.replicas": ("*", "0:11,1:12"),
    "unclean.leader.election.enable": ("true", "false"),
}
BROKER_CONFIGS = {
    "leader.replication.throttled.rate": ("1000000", "50000000"),
    "follower.replication.throttled.rate": ("1000000", "50000000"),
    "log.retention.ms": ("700000000",),
    "message.max.bytes": ("1048588", "3000000"),
    "log.cleaner.threads": ("2",),
}
ACL_RESOURCES = {
    "TOPIC": (
        ("orders", "pay.", "*", "a b"),
        ("READ", "WRITE", "DESCRIBE", "ALL", "ALTER_CONFIGS"),
    ),
    "GROUP": (("checkers", "*", "50% ü"), ("READ", "DELETE", "DESCRIBE")),
    "TRANSACTIONAL_ID": (("tx-1", "tx:ü"), ("WRITE", "DESCRIBE")),
    "CLUSTER": (("kafka-cluster",), ("ALTER", "CLUSTER_ACTION", "IDEMPOTENT_WRITE")),
    "DELEGATION_TOKEN": (("token",), ("DESCRIBE",)),
}


@dataclass
class Generator:
    """Generates actions; `brokers` are the possible replicas."""

    seed: int
    brokers: tuple[int, ...]
    topics: dict[str, list[list[int]]] = field(default_factory=dict)
    made: int = 0
    acls: list[Action] = field(default_factory=list)
    scram: list[tuple[str, str]] = field(default_factory=list)
    quotas: list[tuple[dict[str, str | None], str]] = field(default_factory=list)
    configs: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def actions(self, count: int) -> Iterator[Action]:
        """Returns the actions; a broker restart is `{"op": "restart", "broker": …}`, which the driver of the clusters
        performs.
        """
        kinds: dict[Callable[[], Action], int] = {
            self._create_topic: 22,
            self._delete_topic: 8,
            self._add_partitions: 8,
            self._topic_configs: 14,
            self._broker_configs: 10,
            self._set_quotas: 18,
            self._remove_quota: 7,
            self._add_acl: 18,
            self._remove_acl: 8,
            self._add_scram: 6,
            self._remove_scram: 3,
            self._reassign: 10,
            self._elect: 4,
            self._delete_records: 3,
            self._refused: 8,
            self._restart: 2,
        }
        for _ in range(3):
            yield self._create_topic()
        for chosen in self.random.choices(list(kinds), list(kinds.values()), k=count - 3):
            yield chosen()

    def _rows(self, count: int, copies: int) -> list[list[int]]:
        return [self.random.sample(self.brokers, copies) for _ in range(count)]

    def _topic(self) -> str:
        return self.random.choice(sorted(self.topics))

    def _create_topic(self) -> Action:
        """Creates a topic, sometimes with the name of a deleted one."""
        self.made += 1
        name = f"topic-{self.random.randint(1, self.made)}"
        if name in self.topics:
            name = f"topic.{self.made}_x"
        copies = self.random.randint(1, len(self.brokers))
        self.topics[name] = self._rows(self.random.randint(1, 5), copies)
        keys = self.random.sample(sorted(TOPIC_CONFIGS), self.random.choice((0, 0, 1, 2, 3)))
        configs = {key: self.random.choice(TOPIC_CONFIGS[key]) for key in keys}
        self.configs += [("TOPIC", name, key) for key in configs]
        assignment = list(self.topics[name])
        return {"op": "create_topic", "topic": name, "assignment": assignment, "configs": configs}

    def _delete_topic(self) -> Action:
        if len(self.topics) < 4:
            return self._create_topic()
        name = self._topic()
        del self.topics[name]
        self.configs = [config for config in self.configs if config[:2] != ("TOPIC", name)]
        return {"op": "delete_topic", "topic": name}

    def _add_partitions(self) -> Action:
        name = self._topic()
        added = self._rows(self.random.randint(1, 3), len(self.topics[name][0]))
        self.topics[name] += added
        total = len(self.topics[name])
        return {"op": "add_partitions", "topic": name, "total": total, "assignment": added}

    def _topic_configs(self) -> Action:
        return self._alter("TOPIC", self._topic(), TOPIC_CONFIGS)

    def _broker_configs(self) -> Action:
        return self._alter(
            "BROKER", self.random.choice(("", *map(str, self.brokers))), BROKER_CONFIGS
        )

    def _alter(self, kind: str, name: str, known: dict[str, tuple[str, ...]]) -> Action:
        here = [config[2] for config in self.configs if config[:2] == (kind, name)]
        deleted = self.random.sample(here, self.random.randint(0, len(here)))
        free = sorted(set(known) - set(deleted))
        if kind == "BROKER" and name:
            free = [key for key in free if key.endswith(".rate")]
        chosen = self.random.sample(
            free, min(len(free), self.random.randint(0 if deleted else 1, 2))
        )
        changed = {(kind, name, key) for key in [*deleted, *chosen]}
        self.configs = [config for config in self.configs if config not in changed]
        self.configs += [(kind, name, key) for key in chosen]
        values = {key: self.random.choice(known[key]) for key in chosen}
        return {"op": "configs", "type": kind, "name": name, "set": values, "delete": deleted}

    def _entity(self) -> dict[str, str | None]:
        name: str | None = self.random.choice((*NAMES, None))
        other: str | None = self.random.choice((*NAMES, None))
        kinds: list[dict[str, str | None]] = [
            {"user": name},
            {"client-id": name},
            {"user": name, "client-id": other},
            {"ip": self.random.choice((*IPS, None))},
        ]
        return self.random.choice(kinds)

    def _set_quotas(self) -> Action:
        entity = self._entity()
        keys = ["connection_creation_rate"] if "ip" in entity else [*RATES, *FRACTIONS]
        chosen = self.random.sample(keys, self.random.randint(1, min(2, len(keys))))
        values = {
            key: self.random.choice((0.5, 12.25, 200, 33.0))
            if key in FRACTIONS
            else self.random.choice((1, 4096, 123456789, 10_000_000))
            for key in chosen
        }
        self.quotas += [(entity, key) for key in chosen if (entity, key) not in self.quotas]
        return {"op": "quotas", "entity": entity, "set": values, "delete": []}

    def _remove_quota(self) -> Action:
        if not self.quotas:
            return self._set_quotas()
        entity, key = self.quotas.pop(self.random.randrange(len(self.quotas)))
        return {"op": "quotas", "entity": entity, "set": {}, "delete": [key]}

    def _add_acl(self) -> Action:
        kind = self.random.choice(sorted(ACL_RESOURCES))
        names, operations = ACL_RESOURCES[kind]
        name = self.random.choice(names)
        prefixed = name not in ("*", "kafka-cluster") and self.random.random() < 0.4
        acl = {
            "type": kind,
            "name": name,
            "pattern": "PREFIXED" if prefixed else "LITERAL",
            "principal": f"User:{self.random.choice(('*', *NAMES))}",
            "host": self.random.choice(("*", "10.0.0.1")),
            "operation": self.random.choice(operations),
            "permission": self.random.choice(("ALLOW", "ALLOW", "DENY")),
        }
        if acl not in self.acls:
            self.acls.append(acl)
        return {"op": "add_acl", **acl}

    def _remove_acl(self) -> Action:
        if not self.acls:
            return self._add_acl()
        return {"op": "remove_acl", **self.acls.pop(self.random.randrange(len(self.acls)))}

    def _add_scram(self) -> Action:
        """Adds a credential with a given salt, so that the derived keys can be compared."""
        user = self.random.choice(NAMES)
        mechanism = self.random.choice(("SCRAM-SHA-256", "SCRAM-SHA-512"))
        if (user, mechanism) not in self.scram:
            self.scram.append((user, mechanism))
        number = self.random.randrange(10**9)
        words = {"password": f"pass {number}", "salt": f"salt{number:012d}"}
        iterations = self.random.choice((4096, 8192))
        return {
            "op": "add_scram",
            "user": user,
            "mechanism": mechanism,
            "iterations": iterations,
            **words,
        }

    def _remove_scram(self) -> Action:
        if not self.scram:
            return self._add_scram()
        user, mechanism = self.scram.pop(self.random.randrange(len(self.scram)))
        return {"op": "remove_scram", "user": user, "mechanism": mechanism}

    def _partition(self) -> tuple[str, int]:
        name = self._topic()
        return name, self.random.randrange(len(self.topics[name]))

    def _reassign(self) -> Action:
        name, partition = self._partition()
        copies = self.random.randint(1, len(self.brokers))
        [replicas] = self._rows(1, copies)
        self.topics[name][partition] = replicas
        return {"op": "reassign", "topic": name, "partition": partition, "replicas": replicas}

    def _elect(self) -> Action:
        return {"op": "elect", "partitions": [self._partition()]}

    def _delete_records(self) -> Action:
        name, partition = self._partition()
        return {"op": "delete_records", "topic": name, "partition": partition, "offset": -1}

    def _restart(self) -> Action:
        return {"op": "restart", "broker": self.random.choice(self.brokers)}

    def _refused(self) -> Action:
        """Returns an action that every cluster refuses."""
        name = self._topic()
        copies = [self.brokers[:1]]
        nobody = {"op": "quotas", "entity": {"user": "nobody"}, "delete": []}
        return self.random.choice(
            [
                {"op": "create_topic", "topic": name, "assignment": copies, "configs": {}},
                {"op": "create_topic", "topic": "no/name", "assignment": copies, "configs": {}},
                {
                    "op": "create_topic",
                    "topic": "big",
                    "partitions": 1,
                    "replication": 9,
                    "configs": {},
                },
                {
                    "op": "create_topic",
                    "topic": "odd",
                    "assignment": copies,
                    "configs": {"retention.ms": "soon"},
                },
                {"op": "delete_topic", "topic": "never-made"},
                {"op": "add_partitions", "topic": name, "total": 1, "assignment": []},
                {
                    "op": "configs",
                    "type": "TOPIC",
                    "name": name,
                    "set": {"no.key": "1"},
                    "delete": [],
                },
                {
                    "op": "configs",
                    "type": "TOPIC",
                    "name": "gone",
                    "set": {"retention.ms": "1"},
                    "delete": [],
                },
                {
                    "op": "configs",
                    "type": "BROKER",
                    "name": "11",
                    "set": {"broker.id": "7"},
                    "delete": [],
                },
                {**nobody, "set": {"no_such_rate": 1}},
                {**nobody, "set": {"producer_byte_rate": -1}},
                {"op": "remove_scram", "user": "nobody", "mechanism": "SCRAM-SHA-256"},
                {"op": "reassign", "topic": "gone", "partition": 0, "replicas": [11]},
                {"op": "reassign", "topic": name, "partition": 0, "replicas": [99]},
                {"op": "reassign", "topic": name, "partition": 0, "replicas": None},
                {"op": "elect", "partitions": [["gone", 0]]},
            ]
        )
