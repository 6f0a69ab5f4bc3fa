"""Messages as JSON: by version, bytes and ids by their type, secrets hidden."""

from __future__ import annotations

import json

from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.text.as_json import HIDDEN, as_json

UUID = bytes(range(16))


def test_only_fields_of_the_version_are_shown():
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=UUID, name="t")])
    assert "topic_id" in as_json(request, 12)["topics"][0]
    assert "topic_id" not in as_json(request, 9)["topics"][0]
    assert "topic_id" in as_json(request)["topics"][0]


def test_uuids_are_text_but_sixteen_data_bytes_not():
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=UUID, name=None)])
    assert as_json(request, 12)["topics"] == [{"topic_id": "AAECAwQFBgcICQoLDA0ODw", "name": None}]


def produce(records):
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        transactional_id=None,
        acks=1,
        timeout_ms=1,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )


def shown_records(shown):
    return shown["topic_data"][0]["partition_data"][0]["records"]


def test_records_are_base64_or_callers_form():
    assert shown_records(as_json(produce(b"abc"), 9)) == "YWJj"
    assert shown_records(as_json(produce(memoryview(b"abc")), 9, len)) == 3
    assert shown_records(as_json(produce(None), 9)) is None


def test_secrets_are_hidden_in_every_record():
    configs = [
        AlterableConfig(name="ssl.key.password", config_operation=0, value="sesame"),
        AlterableConfig(name="retention.ms", config_operation=0, value="1"),
        AlterableConfig(name="my.plugin", config_operation=0, value="sesame"),
        AlterableConfig(name="sasl.jaas.config", config_operation=1, value=None),
    ]
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    shown = as_json(request, 1)["resources"][0]["configs"]
    assert [config["value"] for config in shown] == [HIDDEN, "1", HIDDEN, None]
    told = json.dumps(as_json(SaslAuthenticateRequest(auth_bytes=b"\0alice\0sesame"), 2))
    assert json.loads(told) == {"auth_bytes": HIDDEN}


def test_config_is_identified_by_name_and_resource():
    """A topic's key is undeclared for a broker, so its value is hidden; metrics have no secrets."""

    def shown(kind, name):
        record = ConfigRecord(resource_type=kind, resource_name="1", name=name, value="v")
        return as_json(record)["value"]

    assert shown(2, "retention.ms") == "v"
    assert shown(4, "retention.ms") == HIDDEN
    assert shown(4, "my.plugin") == HIDDEN
    assert shown(16, "my.plugin") == "v"
