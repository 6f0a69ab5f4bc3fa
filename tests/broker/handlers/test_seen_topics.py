"""Creations and deletions of topics are answered when this broker has applied them, or after a second; refusals
immediately.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
import trio.testing

from tests.broker.calls import call, finished
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.handlers.create_topics import create_topics
from trimaran.broker.handlers.delete_topics import delete_topics
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from trimaran.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from trimaran.wire.messages.header import encode_response
from trimaran.wire.transport.scheduling.effects import Wait

E = ErrorCode


class Answering:
    """A channel to a controller that gives one answer."""

    def __init__(self, answer):
        self.answer = answer

    def forward(self, _request, _call, _kind):
        yield Wait(trio.lowlevel.checkpoint)
        return self.answer

    def forward_request(self, _request, asked):
        yield Wait(trio.lowlevel.checkpoint)
        out = Outgoing()
        out += encode_response(self.answer, asked.header.api_version, 1)
        return out


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()), topic("u", partition()))
    return harness


async def seconds_of(harness, handler, request, version, answer, image=None):
    """Returns how long the handler takes; `image` is the metadata that the broker applies half a second later."""
    context = replace(harness.context, forwarder=Answering(answer))
    began = trio.current_time()

    async def hear():
        await trio.sleep(0.5)
        harness.set_image(*image)

    async with trio.open_nursery() as nursery:
        if image is not None:
            nursery.start_soon(hear)
        await finished(handler(request, context, call(request, version)))
        return trio.current_time() - began


def deleted(**codes):
    request = DeleteTopicsRequest(topic_names=list(codes), timeout_ms=1000)
    results = [
        DeletableTopicResult(name=name, topic_id=topic_id(name), error_code=code)
        for name, code in codes.items()
    ]
    return delete_topics, request, 5, DeleteTopicsResponse(responses=results)


def created(*, validate_only=False, **codes):
    topics = [
        CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        for name in codes
    ]
    request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    results = [CreatableTopicResult(name=name, error_code=code) for name, code in codes.items()]
    return create_topics, request, 4, CreateTopicsResponse(topics=results)


@pytest.mark.parametrize(
    ("asked", "names", "seconds"),
    [
        (deleted(t=E.TOPIC_DELETION_DISABLED), None, 0),
        (deleted(none=E.NONE), None, 0),
        (deleted(t=E.NONE), None, 1),
        (deleted(t=E.NONE), "u", 0.5),
        (deleted(t=E.NONE), "t", 1),
        (deleted(t=E.NONE, u=E.TOPIC_DELETION_DISABLED), "u", 0.5),
        (created(t=E.NONE), None, 0),
        (created(new=E.POLICY_VIOLATION), None, 0),
        (created(new=E.NONE), None, 1),
        (created(new=E.NONE, validate_only=True), None, 0),
        (created(new=E.NONE), "new", 0.5),
        (created(new=E.NONE, bad=E.POLICY_VIOLATION), "new", 0.5),
        (created(new=E.NONE, newer=E.NONE), "new", 1),
    ],
)
async def test_answer_is_sent_once_topics_are_seen(harness, autojump_clock, asked, names, seconds):
    image = None if names is None else [topic(names, partition())]
    handler, request, version, answer = asked
    assert await seconds_of(harness, handler, request, version, answer, image) == seconds
