"""DescribeAcls: the resources in order, their memory, and the pauses."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tests.broker.calls import call, carried_out, finished
from tests.broker.handlers.acls import ANY
from tests.broker.rooms import NotedRoom
from tests.quorum.metadata.build import image_of, uid
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.serving.describe_acls import describe_acls
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from trimaran.wire.records.security import AccessControlEntryRecord
from trimaran.wire.transport.memory.room import OBJECT_BYTES
from trimaran.wire.transport.scheduling.effects import ITEM_COST_BYTES

VERSION = 3
TOPIC, LITERAL, READ, WRITE, ALLOW = 2, 3, 3, 4, 3


@dataclass
class Node:
    authorizer: Authorizer | None
    acls: Any
    config: Any = None

    @property
    def image(self):
        return SimpleNamespace(acls=self.acls)


def asked_of_node(request, asked, known):
    return describe_acls(request, Node(Authorizer(), known), asked)


def acls(*named):
    records = [
        AccessControlEntryRecord(
            id=uid(number),
            resource_type=TOPIC,
            resource_name=name,
            pattern_type=LITERAL,
            principal="User:alice",
            host="*",
            operation=operation,
            permission_type=ALLOW,
        )
        for number, (name, operation) in enumerate(named, 1)
    ]
    return image_of(*records).acls


class Looked(dict):
    """ACLs that record when they are examined."""

    def __init__(self, room, known):
        super().__init__(known)
        self._room = room

    def values(self):
        self._room.noted.append(("looked", len(self)))
        return super().values()


def asking():
    request = DescribeAclsRequest(**ANY)
    return request, call(request, VERSION)


async def test_acls_are_ordered_by_resource_with_pauses():
    request, asked = asking()
    room = NotedRoom(asked)
    known = Looked(room, acls(("b", WRITE), ("a", READ), ("b", READ)))
    effects = []
    found = await carried_out(asked_of_node(request, asked, known), effects)
    told = DescribeAclsResponse.decode(found.encode(VERSION), VERSION)
    assert [
        (
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            [acl.operation for acl in resource.acls],
        )
        for resource in told.resources
    ] == [(TOPIC, "a", LITERAL, [READ]), (TOPIC, "b", LITERAL, [READ, WRITE])]
    item = ("item", "acls")
    assert room.noted == [("expect", 3 * OBJECT_BYTES), ("looked", 3), item, item]
    (compute,) = [effect for effect in effects if effect is not None]
    assert compute.cost_bytes == 3 * ITEM_COST_BYTES
    # One pause before that, one for each ACL and one for each resource.
    assert effects.count(None) == 1 + 3 + 2


async def test_request_without_authorizer_is_refused():
    request, asked = asking()
    with pytest.raises(KafkaError) as caught:
        await finished(describe_acls(request, Node(None, acls(("a", READ))), asked))
    assert caught.value.code is ErrorCode.SECURITY_DISABLED
    assert caught.value.message == "No Authorizer is configured on the broker"
