"""What a controller asks of who sends a request: envelopes with an authorizer (mA13), delegation tokens, access."""

import pytest

from node.config.config_def import ConfigError
from node.config.security_keys import STANDARD_AUTHORIZER
from node.runtime.deferred import Result
from node.runtime.steps import at_once
from quorum.controller.server import run_controller
from quorum.formatting.storage import format_paths
from quorum.metadata.acls import Operation, ResourceType
from quorum.serving.authorization import OPEN_DATA, authorizer_of
from tests.quorum.config_of import config_of
from tests.quorum.controllers import (
    CLUSTER_ID,
    SECONDS,
    Images,
    connected_to,
    open_controllers,
)
from tests.quorum.metadata.build import features
from wire.errors import ErrorCode
from wire.messages.alter_client_quotas import AlterClientQuotasRequest
from wire.messages.create_acls import AclCreation, CreateAclsRequest
from wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from wire.messages.default_principal_data import DefaultPrincipalData
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.messages.describe_acls import DescribeAclsRequest
from wire.messages.envelope import EnvelopeRequest
from wire.messages.header import decode_response_header, encode_request
from wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from wire.records.misc import NoOpRecord

NOBODY = {
    "authorizer_class_name": STANDARD_AUTHORIZER,
    OPEN_DATA: "true",
    "super_users": "User:admin",
}


def envelope(request, version, principal="alice"):
    told = DefaultPrincipalData(type="User", name=principal, token_authenticated=False)
    return EnvelopeRequest(
        request_data=bytes(encode_request(request, version, 7, "client")),
        request_principal=b"\0\0" + told.encode(0),
        client_host_address=b"\x7f\0\0\1",
    )


async def test_with_an_authorizer_envelopes_are_for_brokers(tmp_path):
    """mA13: an envelope says who asks, so nobody but a broker may send one."""
    async with (
        open_controllers(tmp_path, **NOBODY) as controllers,
        connected_to(await controllers.active()) as connection,
    ):
        request = DeleteTopicsRequest(topics=[], topic_names=["t"], timeout_ms=1)
        answer = await connection.call(envelope(request, 5, "admin"), timeout=SECONDS)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_who_is_nobody_administers_nothing(tmp_path):
    async with (
        open_controllers(tmp_path, **NOBODY) as controllers,
        connected_to(await controllers.active()) as connection,
    ):
        creation = AclCreation(
            resource_type=2,
            resource_name="t",
            principal="User:ANONYMOUS",
            host="*",
            operation=2,
            permission_type=3,
        )
        created = await connection.call(CreateAclsRequest(creations=[creation]), timeout=SECONDS)
        update = FeatureUpdateKey(feature="metadata.version", max_version_level=30)
        updated = await connection.call(
            UpdateFeaturesRequest(feature_updates=[update]), timeout=SECONDS
        )
        described = await connection.call(
            DescribeAclsRequest(
                resource_type_filter=1,
                resource_name_filter=None,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            ),
            timeout=SECONDS,
        )
        codes = [created.results[0].error_code, updated.error_code, described.error_code]
        assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 3


async def test_a_token_is_for_who_asked_through_a_broker_and_runs_out(tmp_path):
    """The principal inside the envelope owns it; the sweep takes it away when its time is over."""
    keys = {
        "delegation_token_secret_key": "k",
        "delegation_token_max_lifetime_ms": 1,
        "delegation_token_expiry_check_interval_ms": 1,
    }
    async with (
        open_controllers(tmp_path, **keys) as controllers,
        connected_to(running := await controllers.active()) as connection,
    ):
        images = Images(running)
        request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
        answer = await connection.call(envelope(request, 3), timeout=SECONDS)
        assert answer.error_code == 0
        _, body = decode_response_header(answer.response_data, 38, 3)
        token = CreateDelegationTokenResponse.decode(answer.response_data[body:], 3)
        assert (token.error_code, token.principal_name) == (0, "alice")
        assert len(token.hmac) == 64
        await images.wait_for(lambda image: not image.tokens)
        # Without a broker between: this listener is plain text.
        direct = await connection.call(request, timeout=SECONDS)
        assert direct.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def test_what_has_no_room_in_a_record_costs_nobody_the_leadership(tmp_path):
    """A name of the longest size fits a request, and not with "User:" before it."""
    async with (
        open_controllers(tmp_path, delegation_token_secret_key="k") as controllers,
        connected_to(running := await controllers.active()) as connection,
    ):
        active_controller = running.context.controller.active()
        renewer = CreatableRenewers(principal_type="User", principal_name="n" * 0x7FFF)
        request = CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=-1)
        answer = await connection.call(envelope(request, 3), timeout=SECONDS)
        _, body = decode_response_header(answer.response_data, 38, 3)
        token = CreateDelegationTokenResponse.decode(answer.response_data[body:], 3)
        assert token.error_code == ErrorCode.INVALID_REQUEST
        assert running.context.controller.active() is active_controller
        assert not active_controller.committed.closed


async def test_a_level_counts_from_when_it_is_written(tmp_path):
    """What is decided next may need it, though it is not committed yet, nor is what came before."""
    format_paths([tmp_path / "controller-1"], CLUSTER_ID, 1, features={"metadata.version": 29})
    async with open_controllers(tmp_path) as controllers:
        running = await controllers.active()
        controller, node = running.context.controller, running.context.node
        assert node.metadata_version == 29
        before = at_once(controller.active().write(Result([NoOpRecord()], None)))
        after = at_once(controller.active().write(Result([features(30)], None)))
        assert node.metadata_version == 30
        await before.wait()
        assert node.metadata_version == 30
        await after.wait()
        assert node.metadata_version == 30


async def test_nothing_to_do_is_no_error(tmp_path):
    async with (
        open_controllers(tmp_path) as controllers,
        connected_to(await controllers.active()) as connection,
    ):
        answer = await connection.call(
            AlterClientQuotasRequest(entries=[], validate_only=False), timeout=SECONDS
        )
        assert answer.entries == []


def test_there_is_one_authorizer():
    assert authorizer_of(config_of()) is None
    assert authorizer_of(config_of(**NOBODY)) is not None
    with pytest.raises(ConfigError):
        config_of(authorizer_class_name="com.example.Authorizer")
    with pytest.raises(ConfigError) as caught:
        authorizer_of(config_of(**{**NOBODY, "super_users": "alice"}))
    assert caught.value.fix == "write User:alice"


def test_an_authorizer_that_leaves_topics_open_must_be_admitted():
    with pytest.raises(ConfigError) as caught:
        authorizer_of(config_of(authorizer_class_name=STANDARD_AUTHORIZER))
    assert caught.value.key == "authorizer.class.name"
    assert "do not protect topics, groups and transactions" in caught.value.why
    assert f"{OPEN_DATA}=true" in caught.value.fix


async def test_no_controller_starts_with_an_authorizer_that_nobody_admitted(tmp_path):
    config = config_of(authorizer_class_name=STANDARD_AUTHORIZER, log_dirs=tmp_path)
    with pytest.raises(ConfigError, match="do not protect topics"):
        await run_controller(config)


def acl(resource_type, operation, name="t"):
    return AclCreation(
        resource_type=resource_type,
        resource_name=name,
        principal="User:bob",
        host="*",
        operation=operation,
        permission_type=3,
    )


async def test_acls_about_what_nobody_judges_are_refused(tmp_path):
    keys = {**NOBODY, "super_users": "User:ANONYMOUS"}
    async with (
        open_controllers(tmp_path, **keys) as controllers,
        connected_to(await controllers.active()) as connection,
    ):
        wanted = [
            acl(ResourceType.TOPIC, Operation.READ),
            acl(ResourceType.CLUSTER, Operation.ALTER, "kafka-cluster"),
            acl(ResourceType.GROUP, Operation.ALL),
            acl(ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
            acl(ResourceType.TOPIC, Operation.ALTER_CONFIGS),
            acl(ResourceType.CLUSTER, Operation.CREATE, "kafka-cluster"),
            acl(ResourceType.TOPIC, Operation.ANY),
        ]
        response = await connection.call(CreateAclsRequest(creations=wanted), timeout=SECONDS)
        codes = [one.error_code for one in response.results]
        bad = ErrorCode.INVALID_REQUEST
        assert codes == [bad, 0, bad, bad, 0, bad, bad]
        assert "this ACL would protect nothing" in response.results[0].error_message
        assert response.results[-1].error_message == "Invalid operation ANY"
