"""The fast JSON encoder equals the plain one for every record of the metadata log and any content."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.wire.codec.plan import shape_of
from trimaran.wire.messages.control import (
    Endpoint,
    KRaftVersionFeature,
    VotersRecord,
    VotersRecordVoter,
)
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.quotas import ClientQuotaRecord, EntityData
from trimaran.wire.records.registry import METADATA_RECORDS
from trimaran.wire.records.security import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    UserScramCredentialRecord,
)
from trimaran.wire.records.topics import PartitionChangeRecord
from trimaran.wire.text.as_json import HIDDEN, as_json
from trimaran.wire.text.json_text import json_text


def plain(message):
    return json.dumps(as_json(message), separators=(",", ":"))


def values(shape, depth=0):
    if shape.item is not None:
        return st.lists(values(shape.item, depth + 1), max_size=3)
    if shape.wire is None:
        cls = shape.struct
        cells = {f.name: field_values(f, depth + 1) for f in cls.__fields__}
        return st.builds(cls, **cells)
    return {
        "uuid": st.binary(min_size=16, max_size=16),
        "bytes": st.binary(max_size=8),
        "string": st.sampled_from(["", "a b", 'quo"te', "ünï", "\\n\n", "ssl.key.password"]),
        "bool": st.booleans(),
        "float64": st.floats(),
    }.get(shape.wire.name, st.integers(-100, 100))


def field_values(field, depth):
    shape, optional = shape_of(field.annotation)
    made = values(shape, depth)
    return st.none() | made if optional else made


@pytest.mark.parametrize("key", list(METADATA_RECORDS))
def test_fast_encoder_equals_the_plain_one(key):
    cls = METADATA_RECORDS[key]
    cells = {f.name: field_values(f, 0) for f in cls.__fields__}

    @given(st.builds(cls, **cells))
    def check(message):
        assert json_text(message) == plain(message)

    check()


def test_nested_structs_are_encoded():
    voter = VotersRecordVoter(
        voter_id=1,
        voter_directory_id=bytes(16),
        endpoints=[Endpoint(name="C", host="h", port=9)],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    record = VotersRecord(version=0, voters=[voter])
    assert json_text(record) == plain(record)


def test_secrets_are_hidden():
    scram = UserScramCredentialRecord(
        name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    config = ConfigRecord(resource_type=4, resource_name="", name="ssl.key.password", value="open")
    shown = json_text(scram) + json_text(config)
    assert shown.count(HIDDEN) == 4
    assert "open" not in shown


def test_config_is_identified_by_name_and_resource():
    """A topic's key is undeclared for a broker, so its value is hidden; metrics have no secrets."""

    def shown(kind, name):
        record = ConfigRecord(resource_type=kind, resource_name="1", name=name, value="v")
        return json.loads(json_text(record))["value"]

    assert shown(2, "retention.ms") == "v"
    assert shown(4, "retention.ms") == HIDDEN
    assert shown(4, "my.plugin") == HIDDEN
    assert shown(16, "my.plugin") == "v"


def test_tokens_are_hidden_in_every_record():
    told = json_text(RemoveDelegationTokenRecord(token_id="sesame")) + json_text(
        DelegationTokenRecord(
            owner="User:a",
            requester="User:a",
            renewers=[],
            issue_timestamp=1,
            max_timestamp=2,
            expiration_timestamp=2,
            token_id="sesame",
        )
    )
    assert "sesame" not in told
    assert told.count(HIDDEN) == 2


def test_null_and_infinite_values_are_encoded():
    change = PartitionChangeRecord(partition_id=1, topic_id=bytes(16))
    assert json_text(change) == plain(change)
    entity = [EntityData(entity_type="user", entity_name=None)]
    quota = ClientQuotaRecord(entity=entity, key="k", value=float("inf"), remove=False)
    assert json_text(quota) == plain(quota)
    assert '"inf"' in json_text(quota)
