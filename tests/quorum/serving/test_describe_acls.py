"""DescribeAcls: the resources in order, memory for them, and how often others have their turn meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tests.broker.calls import call
from tests.broker.handlers.acls import ANY
from tests.broker.rooms import NotedRoom, turns_of
from tests.quorum.metadata.build import image_of, uid
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.serving.describe_acls import describe_acls
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from trimaran.wire.records.security import AccessControlEntryRecord
from trimaran.wire.transport.memory.room import OBJECT_BYTES

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
    """ACLs that note in a room when they are examined."""

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
    found = await asked_of_node(request, asked, known)
    told = DescribeAclsResponse.decode(found.encode(VERSION), VERSION)
    assert [
        (
            one.resource_type,
            one.resource_name,
            one.pattern_type,
            [acl.operation for acl in one.acls],
        )
        for one in told.resources
    ] == [(TOPIC, "a", LITERAL, [READ]), (TOPIC, "b", LITERAL, [READ, WRITE])]
    # One behind each ACL, too.
    pause, item = ("pause", 0), ("item", "acls")
    assert room.noted[:2] == [("pause", 3 * OBJECT_BYTES), ("looked", 3)]
    assert room.noted[2:] == [item, pause, pause, item, pause, pause, pause]


async def test_loop_yields_after_each_thousand_acls():
    async def turns(count):
        request, asked = asking()
        request.resource_name_filter = "none"
        known = acls(*((f"t-{number}", READ) for number in range(count)))
        return await turns_of(asked_of_node(request, asked, known))

    few = await turns(999)
    assert [await turns(1000) - few, await turns(2000) - few] == [1, 2]


async def test_request_without_authorizer_is_refused():
    request, asked = asking()
    with pytest.raises(KafkaError) as caught:
        await describe_acls(request, Node(None, acls(("a", READ))), asked)
    assert caught.value.code is ErrorCode.SECURITY_DISABLED
    assert caught.value.message == "No Authorizer is configured on the broker"
