import pytest

from tests.zkcompat import build
from trimaran.quorum.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from trimaran.wire.records.quotas import ClientQuotaRecord, EntityData
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.legacy.requests.configs import decide, entity_of, entity_of_note
from trimaran.zkcompat.znodes.entity_config import EntityConfig


def quota(key, value, **entity):
    parts = [EntityData(entity_type=k.replace("_", "-"), entity_name=v) for k, v in entity.items()]
    return ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


IMAGE = build.image_of(
    build.topic("t", build.T1),
    build.partition(build.T1, 0, [1]),
    build.config(TOPIC_RESOURCE, "t", "retention.ms", "1000"),
    build.config(TOPIC_RESOURCE, "t", "segment.bytes", "2000"),
    build.config(BROKER_RESOURCE, "1", "ssl.keystore.password", "hidden"),
    build.config(BROKER_RESOURCE, "1", "log.cleaner.threads", "2"),
    quota("consumer_byte_rate", 1024.0, user="alice"),
    quota("producer_byte_rate", 10.0, client_id="app", user="alice"),
)


def znode(**config):
    return EntityConfig({key.replace("__", "."): value for key, value in config.items()}).encode()


def changes(request):
    (resource,) = request.quorum_requests[0].request.resources
    return {c.name: (c.config_operation, c.value) for c in resource.configs}


@pytest.mark.parametrize(
    ("note", "path"),
    [
        (b'"t"', "/config/topics/t"),
        (b'{"version":1,"entity_type":"topics","entity_name":"t"}', "/config/topics/t"),
        (b'{"version":2,"entity_path":"topics/t"}', "/config/topics/t"),
        (b'{"version":2,"entity_path":"users/a%20b/clients/<default>"}',
         "/config/users/a%20b/clients/<default>"),
        (b'{"version":2,"entity_path":"brokers/<default>"}', "/config/brokers/<default>"),
        (b'{"version":2,"entity_path":"ips/10.0.0.1"}', "/config/ips/10.0.0.1"),
    ],
)  # fmt: skip
def test_notes_of_every_version_are_read(note, path):
    assert entity_of_note(note).path == path


@pytest.mark.parametrize(
    "note",
    [None, b"", b"x", b"1", b"[]", b"{}", b'"../brokers"', b'{"version":2,"entity_path":7}',
     b'{"version":2,"entity_path":"topics/../t"}', b'{"version":2,"entity_path":"topics"}',
     b'{"version":2,"entity_path":"brokers/one"}', b"[" * 100_000],
)  # fmt: skip
def test_invalid_notes_name_no_resource(note):
    assert entity_of_note(note) is None


def test_entities_have_names_of_image():
    assert entity_of("users/a%20b/clients/<default>").quota == (
        ("client-id", None),
        ("user", "a b"),
    )
    assert entity_of("brokers/<default>").resource == (BROKER_RESOURCE, "")


def test_differing_configs_are_set_missing_ones_deleted():
    data = znode(retention__ms="5", max__message__bytes="9")
    (request,) = decide(entity_of("topics/t"), data, IMAGE)
    assert request.kind is RequestKind.CONFIG
    assert changes(request) == {
        "retention.ms": (0, "5"),
        "max.message.bytes": (0, "9"),
        "segment.bytes": (1, None),
    }
    assert request.entities == ["/config/topics/t"]


def test_znode_equal_to_image_needs_no_request():
    """Therefore a mirror repeats no request of its predecessor, and does not take its own change notifications for a
    tool's.
    """
    same = znode(retention__ms="1000", segment__bytes="2000")
    assert decide(entity_of("topics/t"), same, IMAGE) == []
    assert decide(entity_of("topics/none"), znode(a="1"), IMAGE) == []
    assert decide(entity_of("users/alice"), znode(consumer_byte_rate="1024"), IMAGE) == []
    assert decide(entity_of("users/alice"), znode(consumer_byte_rate="1024.0"), IMAGE) == []


def test_secrets_of_brokers_are_left_alone():
    (request,) = decide(entity_of("brokers/1"), znode(log__cleaner__threads="3"), IMAGE)
    assert changes(request) == {"log.cleaner.threads": (0, "3")}
    (request,) = decide(
        entity_of("brokers/1"),
        znode(
            log__cleaner__threads="2",
            ssl__keystore__password="encoded",
            my__plugin="encoded",
            retention__ms="encoded",  # a key of topics, which brokers do not know
        ),
        IMAGE,
    )
    assert not request.quorum_requests
    names = ("my.plugin", "retention.ms", "ssl.keystore.password")
    for name, refused in zip(names, request.refused, strict=True):
        assert f"{name} may be a secret" in refused
        assert "encoded" not in refused


def test_quotas_are_set_and_removed():
    data = znode(producer_byte_rate="5", request_percentage="12.5")
    (request,) = decide(entity_of("users/alice"), data, IMAGE)
    assert request.kind is RequestKind.QUOTA
    (entry,) = request.quorum_requests[0].request.entries
    assert [(e.entity_type, e.entity_name) for e in entry.entity] == [("user", "alice")]
    assert {o.key: (o.remove, o.value) for o in entry.ops} == {
        "consumer_byte_rate": (True, 0.0),
        "producer_byte_rate": (False, 5.0),
        "request_percentage": (False, 12.5),
    }
    (client,) = decide(entity_of("users/alice/clients/app"), znode(), IMAGE)
    assert [o.key for o in client.quorum_requests[0].request.entries[0].ops] == [
        "producer_byte_rate"
    ]


def test_credentials_are_ordered_independently():
    data = EntityConfig(
        {"SCRAM-SHA-256": "salt=s,stored_key=k,server_key=v", "consumer_byte_rate": "1"}
    ).encode()
    credentials, quotas = decide(entity_of("users/alice"), data, IMAGE)
    assert (quotas.kind, credentials.kind) == (RequestKind.QUOTA, RequestKind.SCRAM)
    assert not quotas.refused
    for path in ("users/<default>", "users/alice/clients/app", "clients/app"):
        (request,) = decide(entity_of(path), data, IMAGE)
        assert request.refused[0].endswith("SCRAM-SHA-256 is no quota")


@pytest.mark.parametrize("data", [None, b"x", b"{}", b'{"version":1,"config":[]}'])
def test_invalid_request_is_refused(data):
    for path in ("topics/t", "users/alice"):
        (request,) = decide(entity_of(path), data, IMAGE)
        assert not request.quorum_requests
        assert request.refused
    (request,) = decide(
        entity_of("users/alice"), znode(consumer_byte_rate="much", other="1"), IMAGE
    )
    assert not request.quorum_requests
    assert len(request.refused) == 2


def test_error_codes_become_refusals():
    (quorum_request,) = decide(entity_of("topics/t"), znode(a="1"), IMAGE)[0].quorum_requests
    one = AlterConfigsResourceResponse(
        error_code=ErrorCode.INVALID_CONFIG,
        error_message="no such key",
        resource_type=2,
        resource_name="t",
    )
    assert quorum_request.refusals(IncrementalAlterConfigsResponse(responses=[one])) == [
        "alter the configs of topics/t: INVALID_CONFIG: no such key"
    ]
