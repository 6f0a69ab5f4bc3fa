"""Deletion of the internal topics of a streams group; brokers give scripted responses."""

import pytest

from tests.trimaran.client.scripted import Client
from trimaran.cli.internal_topics import delete_topics
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse

DENIED, UNKNOWN = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def answer(code):
    return DeleteTopicsResponse(responses=[DeletableTopicResult(name="", error_code=code)])


def test_topics_that_are_gone_are_not_reported(capsys):
    delete_topics(Client(answer(0), answer(UNKNOWN)), ["app-a", "app-b"])
    assert capsys.readouterr().err == "deleted topic app-a\n"


def test_refused_topic_does_not_stop_the_others(capsys):
    client = Client(answer(DENIED), answer(0), answer(DENIED))
    with pytest.raises(UserError) as refused:
        delete_topics(client, ["app-a", "app-b", "app-c"])
    assert capsys.readouterr().err == "deleted topic app-b\n"
    assert str(refused.value).splitlines()[:2] == [
        "error: not deleted: app-a, app-c",
        "  why: TOPIC_AUTHORIZATION_FAILED: no DELETE for topic app-a",
    ]
    assert refused.value.exit_code is Exit.REFUSED
