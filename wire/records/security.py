"""Metadata records of ACLs, SCRAM credentials and delegation tokens (KIP-801, KIP-900)."""

from trimaran.wire.codec.declarations import data, int8, int32, int64, string, uuid
from trimaran.wire.schema import Message, record


@record(key=18, versions="0", flexible="0+")
class AccessControlEntryRecord(Message):
    id: uuid
    resource_type: int8
    resource_name: string
    pattern_type: int8
    principal: string
    host: string
    operation: int8
    permission_type: int8


@record(key=19, versions="0", flexible="0+")
class RemoveAccessControlEntryRecord(Message):
    id: uuid


@record(key=11, versions="0", flexible="0+")
class UserScramCredentialRecord(Message):
    name: string
    mechanism: int8
    salt: data
    stored_key: data
    server_key: data
    iterations: int32


@record(key=22, versions="0", flexible="0+")
class RemoveUserScramCredentialRecord(Message):
    name: string
    mechanism: int8


@record(key=10, versions="0", flexible="0+")
class DelegationTokenRecord(Message):
    owner: string
    requester: string
    renewers: list[string]
    issue_timestamp: int64
    max_timestamp: int64
    expiration_timestamp: int64
    token_id: string


@record(key=26, versions="0", flexible="0+")
class RemoveDelegationTokenRecord(Message):
    token_id: string
