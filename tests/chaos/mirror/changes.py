"""Changes of metadata during a run, with requests that both kinds of cluster support."""

from __future__ import annotations

import threading
import time
from itertools import count
from typing import Self

from tests.chaos.mirror.quorums import Quorum
from tests.cluster.processes import until
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from trimaran.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from trimaran.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from trimaran.wire.messages.create_acls import AclCreation, CreateAclsRequest
from trimaran.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from trimaran.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from trimaran.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest
from trimaran.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from trimaran.zkcompat.settings import quorum_security

PULSE, BAD, WIDE = "pulse", "bad", "wide"
WIDE_PARTITIONS = 500
PULSE_KEY = "retention.ms"
PULSE_BASE = 1_000_000_000
PULSES_PER_SECOND = 5
# Numbers of pulses, which are unique within this process.
NUMBERS = count(1)
BURST_TOPICS, BURST_PARTITIONS = 60, 4
CALL_SECONDS = 20.0
TOPIC, BROKER = 2, 4  # types of config resources
SCRAM_SHA_256 = 1
LITERAL, PREFIXED, SOMEBODY, ALTER_CONFIGS, ALLOW = 3, 4, "User:somebody", 11, 3


class Changes:
    """A client of the cluster's brokers, for one thread only."""

    def __init__(self, quorum: Quorum) -> None:
        security = quorum_security(quorum.properties)
        self._client = BlockingClient(quorum.bootstrap, timeout=CALL_SECONDS, security=security)
        self._quorum = quorum
        self._brokers = sorted(quorum.brokers)
        self.token_id, self._hmac = "", b""
        self._round = 0
        self._has_burst = False
        self._swapped = False

    def another(self) -> Changes:
        """Returns a copy for another thread."""
        return Changes(self._quorum)

    def prepare(self) -> None:
        """Creates the topics and entities that the faults need."""
        self._create((PULSE, 1), (BAD, 2), (WIDE, WIDE_PARTITIONS))
        if self._quorum.zookeeper_user:
            ask_token = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
            token = self._client.call(None, ask_token)
            _check(token.error_code, "a token")
            self.token_id, self._hmac = token.token_id, token.hmac
        self.touch_bad()
        self._allow(_acl(BAD), _acl(BAD, PREFIXED))
        ask = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=0, producer_id=-1, producer_epoch=-1
        )
        until(
            lambda: self._client.call(None, ask).error_code == ErrorCode.NONE, "a producer id", 20.0
        )

    def pulse(self, number: int) -> None:
        self.configure(TOPIC, PULSE, PULSE_KEY, str(PULSE_BASE + number))

    def touch_bad(self) -> None:
        """Changes an entity of each kind, so that the mirror must write znodes that an outsider forged or locked."""
        self._round += 1
        self.configure(TOPIC, BAD, PULSE_KEY, str(PULSE_BASE + self._round))
        self.configure(
            BROKER, str(self._brokers[0]), "log.cleaner.threads", str(1 + self._round % 2)
        )
        for entity in (
            {"user": "bad"},
            {"client-id": "bad"},
            {"ip": "10.1.2.3"},
            {"user": "bad", "client-id": "bad"},
        ):
            self._quota(entity, 1000.0 + self._round)
        self._allow(_acl(f"{BAD}-{self._round}", PREFIXED))
        if self._quorum.zookeeper_user:
            self._change_secrets()
        self._turn(BAD, 2)

    def configure(self, kind: int, name: str, key: str, value: str) -> None:
        resource = AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[AlterableConfig(name=key, config_operation=0, value=value)],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        # Only the broker itself accepts its own config, as in Kafka's ConfigAdminManager.
        (answer,) = self._client.call(int(name) if kind == BROKER else None, request).responses
        _check(answer.error_code, f"{key} of {name}")

    def _change_secrets(self) -> None:
        """Changes the user's password, and renews the token."""
        password = self._round.to_bytes(32, "big")
        upsertion = ScramCredentialUpsertion(
            name=BAD,
            mechanism=SCRAM_SHA_256,
            iterations=4096,
            salt=b"salt",
            salted_password=password,
        )
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        (answer,) = self._client.call(None, request).results
        _check(answer.error_code, f"the password of {BAD}")
        renew = RenewDelegationTokenRequest(hmac=self._hmac, renew_period_ms=-1)
        _check(self._client.call(None, renew).error_code, "renewing the token")

    def _quota(self, entity: dict[str, str], value: float) -> None:
        key = "connection_creation_rate" if "ip" in entity else "consumer_byte_rate"
        entry = AlterClientQuotasRequestEntryData(
            entity=[EntityData(entity_type=k, entity_name=v) for k, v in entity.items()],
            ops=[OpData(key=key, value=value, remove=False)],
        )
        request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
        (answer,) = self._client.call(None, request).entries
        _check(answer.error_code, f"the quota of {entity}")

    def _allow(self, *creations: AclCreation) -> None:
        answers = self._client.call(None, CreateAclsRequest(creations=list(creations))).results
        for answer in answers:
            _check(answer.error_code, f"ACLs: {answer.error_message}")

    def burst(self) -> None:
        """Creates many topics, or deletes them."""
        names = [f"burst-{number}" for number in range(BURST_TOPICS)]
        if not self._has_burst:
            self._create(*((name, BURST_PARTITIONS) for name in names))
        else:
            topics = [DeleteTopicState(name=name, topic_id=NIL_UUID) for name in names]
            request = DeleteTopicsRequest(topics=topics, timeout_ms=15_000)
            for answer in self._client.call(None, request).responses:
                _check(answer.error_code, answer.name or "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._has_burst = not self._has_burst

    def turn_wide(self) -> None:
        """Changes the leader of each partition of the wide topic."""
        self._turn(WIDE, WIDE_PARTITIONS)

    def _turn(self, topic: str, partitions: int) -> None:
        self._swapped = not self._swapped
        replicas = self._brokers[::-1] if self._swapped else self._brokers
        parts = [
            ReassignablePartition(partition_index=i, replicas=replicas) for i in range(partitions)
        ]
        move = AlterPartitionReassignmentsRequest(
            timeout_ms=15_000, topics=[ReassignableTopic(name=topic, partitions=parts)]
        )
        _check(self._client.call(None, move).error_code, f"another order of replicas of {topic}")
        chosen = [TopicPartitions(topic=topic, partitions=list(range(partitions)))]
        elect = ElectLeadersRequest(election_type=0, topic_partitions=chosen, timeout_ms=15_000)
        _check(self._client.call(None, elect).error_code, f"an election of {topic}")

    def _create(self, *topics: tuple[str, int]) -> None:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=i, broker_ids=self._brokers)
                        for i in range(partitions)
                    ],
                    configs=[],
                )
                for name, partitions in topics
            ],
            timeout_ms=15_000,
        )
        for answer in self._client.call(None, request).topics:
            _check(answer.error_code, answer.name, ErrorCode.TOPIC_ALREADY_EXISTS)


class Pulses:
    """Changes one topic's config a few times per second during the block; `acked` has the times of the responses."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes.another()
        self.acked: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(1 / PULSES_PER_SECOND):
            number = next(NUMBERS)
            try:
                self._changes.pulse(number)
            except (ConnectionLost, RequestTimedOut, AssertionError):
                continue  # errors are expected if the fault affects the quorum
            self.acked[number] = time.monotonic()


def _acl(name: str, pattern: int = LITERAL) -> AclCreation:
    return AclCreation(
        resource_type=TOPIC,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=SOMEBODY,
        host="*",
        operation=ALTER_CONFIGS,
        permission_type=ALLOW,
    )


def _check(code: int, what: str, *also_good: int) -> None:
    assert code in (ErrorCode.NONE, *also_good), f"{what}: {ErrorCode(code).name}"
