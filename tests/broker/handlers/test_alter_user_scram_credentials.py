"""AlterUserScramCredentials through a broker."""

from tests.broker.handlers.broker_client import broker_client, refusal_by_controller
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)


def upsertion(name="alice", iterations=4096):
    credential = ScramCredentialUpsertion(
        name=name, mechanism=1, iterations=iterations, salt=b"s", salted_password=b"p" * 32
    )
    return AlterUserScramCredentialsRequest(deletions=[], upsertions=[credential])


async def test_credential_is_added_and_removed(tmp_path):
    async with broker_client(tmp_path) as one:
        answer = await one.call(upsertion())
        assert [(r.user, r.error_code) for r in answer.results] == [("alice", 0)]
        await one.seen(lambda image: len(image.scram) == 1)
        gone = ScramCredentialDeletion(name="alice", mechanism=1)
        request = AlterUserScramCredentialsRequest(deletions=[gone], upsertions=[])
        assert (await one.call(request)).results[0].error_code == 0
        await one.seen(lambda image: not image.scram)
        again = (await one.call(request)).results[0]
        assert again.error_code == ErrorCode.RESOURCE_NOT_FOUND


async def test_too_few_iterations_are_refused(tmp_path):
    async with broker_client(tmp_path) as one:
        (result,) = (await one.call(upsertion(iterations=4095))).results
        assert result.error_code == ErrorCode.UNACCEPTABLE_CREDENTIAL
        assert not one.image.scram


async def test_refusal_is_returned_for_every_user(tmp_path):
    answer = await refusal_by_controller(tmp_path, upsertion(), 0)
    found = [(r.user, r.error_code) for r in answer.results]
    assert found == [("alice", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
