"""Short helpers that build metadata records and images."""

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, MetadataImage, Provenance
from trimaran.wire.records.brokers import (
    BrokerEndpoint,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.producer_ids import ProducerIdsRecord
from trimaran.wire.records.quotas import ClientQuotaRecord, EntityData
from trimaran.wire.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from trimaran.wire.records.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

CLUSTER_ID = "LUl8vSRzSaShNIO8TtT5KQ"
EPOCH = 3


def replay(image: MetadataImage, *records, epoch: int = EPOCH):
    """Returns the delta of one batch and the image after it."""
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    offset = image.provenance.offset + max(1, len(records))
    return delta, delta.apply(Provenance(offset, epoch, 1_795_221_879_206 + offset))


def image_of(*records, epoch: int = EPOCH) -> MetadataImage:
    return replay(EMPTY, *records, epoch=epoch)[1]


def broker(broker_id: int, *, epoch: int = 1, fenced: bool = False, rack: str | None = None):
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=bytes([broker_id]) * 16,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(
                name="PLAINTEXT", host="127.0.0.1", port=9000 + broker_id, security_protocol=0
            )
        ],
        features=[],
        rack=rack,
        fenced=fenced,
    )


def unregister(broker_id: int, epoch: int = 1):
    return UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch)


def fence(broker_id: int, epoch: int = 1):
    return FenceBrokerRecord(id=broker_id, epoch=epoch)


def unfence(broker_id: int, epoch: int = 1):
    return UnfenceBrokerRecord(id=broker_id, epoch=epoch)


def topic(name: str, topic_id: bytes):
    return TopicRecord(name=name, topic_id=topic_id)


def partition(topic_id: bytes, index: int, replicas: list[int], leader: int | None = None):
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas,
        removing_replicas=[],
        adding_replicas=[],
        leader=replicas[0] if leader is None else leader,
        leader_epoch=0,
        partition_epoch=0,
    )


def change(topic_id: bytes, index: int, **members):
    return PartitionChangeRecord(partition_id=index, topic_id=topic_id, **members)


def remove_topic(topic_id: bytes):
    return RemoveTopicRecord(topic_id=topic_id)


def config(kind: int, name: str, key: str, value: str | None):
    return ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


def producer_ids(next_id: int):
    return ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=next_id)


def quota(key: str, value: float | None, **parts: str | None):
    """Returns a quota record; `parts` are user, client and ip. A value of None removes the quota; a part of None is the
    default entity.
    """
    kinds = {"user": "user", "client": "client-id", "ip": "ip"}
    return ClientQuotaRecord(
        entity=[EntityData(entity_type=kinds[k], entity_name=name) for k, name in parts.items()],
        key=key,
        value=value or 0.0,
        remove=value is None,
    )


def scram(user: str, mechanism: int = 1, salt: bytes = b"saltsalt1"):
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=salt,
        stored_key=b"stored-key",
        server_key=b"server-key",
        iterations=8192,
    )


def no_scram(user: str, mechanism: int = 1):
    return RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)


def acl(number: int, name: str, **members: int | str):
    """Returns a literal ACL that lets alice read the topic."""
    values = {"resource_type": 2, "pattern_type": 3, "principal": "User:alice", "host": "*"}
    values |= {"operation": 3, "permission_type": 3, **members}
    return AccessControlEntryRecord(id=number.to_bytes(16, "big"), resource_name=name, **values)


def no_acl(number: int):
    return RemoveAccessControlEntryRecord(id=number.to_bytes(16, "big"))


def token(token_id: str, expiry_ms: int = 1795307436686):
    return DelegationTokenRecord(
        owner="User:admin",
        requester="User:admin",
        renewers=["User:bob"],
        issue_timestamp=1795221036686,
        max_timestamp=1795825836686,
        expiration_timestamp=expiry_ms,
        token_id=token_id,
    )


def no_token(token_id: str):
    return RemoveDelegationTokenRecord(token_id=token_id)


T1 = b"\x01" * 16
T2 = b"\x02" * 16
