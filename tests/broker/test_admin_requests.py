"""Administration through a broker: what it answers itself, and what it forwards with the client's principal."""

import logging
from contextlib import asynccontextmanager

import pytest
import trio

from broker.process.server import run_broker
from node.config.config_def import ConfigError
from tests.broker.cluster import cluster
from wire.errors import ErrorCode
from wire.messages import (
    alter_client_quotas,
    alter_configs,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_configs,
    describe_delegation_token,
    describe_user_scram_credentials,
    expire_delegation_token,
    incremental_alter_configs,
    list_config_resources,
    renew_delegation_token,
    update_features,
)
from wire.transport.node_connection import open_node_connection

SECONDS = 20.0
AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "trimaran_authorizer_topics_and_groups_open": "true",
    "super_users": "User:ANONYMOUS",
}
ACL = {
    "resource_type": 2,
    "resource_name": "orders",
    "principal": "User:alice",
    "host": "*",
    "operation": 11,
    "permission_type": 3,
}
ANY_ACL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


class Admin:
    """Asks one broker; `seen` waits until it knows what the controller has committed."""

    def __init__(self, running, connection):
        self.running, self.connection = running, connection

    async def call(self, request):
        return await self.connection.call(request, timeout=SECONDS)

    async def seen(self, predicate):
        with trio.fail_after(SECONDS):
            await self.running.context.metadata.wait_for(predicate)


@asynccontextmanager
async def admin(path, **settings):
    async with cluster(path, **settings) as running:
        (broker,) = running.brokers.values()
        async with open_node_connection(*broker.addresses["PLAINTEXT"]) as connection:
            yield Admin(broker, connection)


async def test_acls_are_created_described_and_deleted(tmp_path):
    async with admin(tmp_path, **AUTHORIZER) as one:
        creation = create_acls.AclCreation(**ACL)
        created = await one.call(create_acls.CreateAclsRequest(creations=[creation]))
        assert [result.error_code for result in created.results] == [0]
        await one.seen(lambda image: len(image.acls) == 1)
        described = await one.call(describe_acls.DescribeAclsRequest(**ANY_ACL))
        (resource,) = described.resources
        assert (resource.resource_name, resource.acls[0].principal) == ("orders", "User:alice")
        wanted = delete_acls.DeleteAclsFilter(**ANY_ACL)
        deleted = await one.call(delete_acls.DeleteAclsRequest(filters=[wanted]))
        assert len(deleted.filter_results[0].matching_acls) == 1
        await one.seen(lambda image: not image.acls)


async def test_no_broker_starts_with_an_authorizer_that_nobody_admitted(tmp_path):
    async with cluster(tmp_path, brokers=0) as running:
        name = {"authorizer.class.name": AUTHORIZER["authorizer_class_name"]}
        role = {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:0"}
        config = running.config(11, **role, **name)
        with pytest.raises(ConfigError, match="do not protect topics"):
            await run_broker(config)


async def test_a_broker_refuses_acls_about_what_it_does_not_judge_and_forwards_the_others(tmp_path):
    """Whatever its controllers are: Apache Kafka's would take them."""
    async with admin(tmp_path, **AUTHORIZER) as one:
        wanted = [{**ACL, "operation": operation} for operation in (3, 11, 4)]
        creations = [create_acls.AclCreation(**acl) for acl in wanted]
        created = await one.call(create_acls.CreateAclsRequest(creations=creations))
        codes = [result.error_code for result in created.results]
        assert codes == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
        assert "READ of a TOPIC is not judged" in created.results[0].error_message
        assert "WRITE of a TOPIC is not judged" in created.results[2].error_message
        image = await one.running.context.metadata.wait_for(lambda image: len(image.acls) > 0)
        assert [record.operation for record in image.acls.values()] == [11]


async def test_without_an_authorizer_there_are_no_acls(tmp_path):
    async with admin(tmp_path) as one:
        creation = create_acls.AclCreation(**ACL)
        created = await one.call(create_acls.CreateAclsRequest(creations=[creation]))
        described = await one.call(describe_acls.DescribeAclsRequest(**ANY_ACL))
        wanted = delete_acls.DeleteAclsFilter(**ANY_ACL)
        deleted = await one.call(delete_acls.DeleteAclsRequest(filters=[wanted]))
        answers = (created.results[0], described, deleted.filter_results[0])
        assert [(a.error_code, a.error_message) for a in answers] == [
            (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."),
            (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker"),
            (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."),
        ]


async def test_credentials_and_quotas_are_altered_and_described(tmp_path):
    scram, quotas = alter_user_scram_credentials, alter_client_quotas
    async with admin(tmp_path) as one:
        upsertion = scram.ScramCredentialUpsertion(
            name="alice", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p" * 32
        )
        altered = await one.call(
            scram.AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        )
        assert [(r.user, r.error_code) for r in altered.results] == [("alice", 0)]
        entry = quotas.AlterClientQuotasRequestEntryData(
            entity=[quotas.EntityData(entity_type="user", entity_name="alice")],
            ops=[quotas.OpData(key="producer_byte_rate", value=7.0, remove=False)],
        )
        await one.call(quotas.AlterClientQuotasRequest(entries=[entry], validate_only=False))
        await one.seen(lambda image: image.scram and image.quotas)
        users = await one.call(
            describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None)
        )
        assert users.results[0].credential_infos[0].iterations == 4096
        told = await one.call(
            describe_client_quotas.DescribeClientQuotasRequest(components=[], strict=False)
        )
        assert [value.value for value in told.entries[0].values] == [7.0]


async def test_features(tmp_path):
    async with admin(tmp_path) as one:
        update = update_features.FeatureUpdateKey(feature="metadata.version", max_version_level=29)
        refused = await one.call(
            update_features.UpdateFeaturesRequest(feature_updates=[update.replace(upgrade_type=2)])
        )
        assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
        same = update.replace(max_version_level=30)
        assert not (
            await one.call(
                update_features.UpdateFeaturesRequest(feature_updates=[same], validate_only=True)
            )
        ).error_code


@pytest.mark.parametrize(
    "request_",
    [
        create_delegation_token.CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1),
        renew_delegation_token.RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=1),
        expire_delegation_token.ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period_ms=1),
        describe_delegation_token.DescribeDelegationTokenRequest(owners=None),
    ],
    ids=["create", "renew", "expire", "describe"],
)
async def test_nobody_has_tokens_on_plain_text(tmp_path, request_):
    async with admin(tmp_path, delegation_token_secret_key="k") as one:
        answer = await one.call(request_)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def incremental(*resources, validate_only=False):
    messages = incremental_alter_configs
    return messages.IncrementalAlterConfigsRequest(
        resources=[
            messages.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    messages.AlterableConfig(name=key, config_operation=0, value=value)
                    for key, value in configs.items()
                ],
            )
            for kind, name, configs in resources
        ],
        validate_only=validate_only,
    )


async def described(one, kind, name, *keys):
    resource = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys)
    )
    answer = await one.call(describe_configs.DescribeConfigsRequest(resources=[resource]))
    (result,) = answer.results
    assert not result.error_code, result.error_message
    return {config.name: config for config in result.configs}


async def test_configs_of_every_kind_of_resource(tmp_path):
    async with admin(tmp_path) as one:
        node = str(one.running.node_id)
        answer = await one.call(
            incremental(
                (4, "", {"log.retention.ms": "7200000"}),
                (4, node, {"listener.name.plaintext.ssl.keystore.password": "secret"}),
                (16, "m", {"interval.ms": "60000"}),
                (32, "g", {"consumer.session.timeout.ms": "50000"}),
                (4, "77", {"log.retention.ms": "1"}),
                (5, "x", {}),
            )
        )
        assert sorted((r.resource_name, r.error_code) for r in answer.responses) == [
            ("", 0),
            (node, 0),
            ("77", ErrorCode.INVALID_REQUEST),
            ("g", 0),
            ("m", 0),
            ("x", ErrorCode.INVALID_REQUEST),
        ]
        await one.seen(lambda image: len(image.configs.by_resource) == 4)
        retention = (await described(one, 4, node, "log.retention.ms"))["log.retention.ms"]
        assert (retention.value, retention.config_source) == ("7200000", 3)
        hidden = await described(one, 4, node, "listener.name.plaintext.ssl.keystore.password")
        (secret,) = hidden.values()  # mA11: never told again
        assert (secret.value, secret.is_sensitive) == (None, True)
        interval = (await described(one, 16, "m"))["interval.ms"]
        assert (interval.value, interval.config_source) == ("60000", 7)
        group = await described(one, 32, "g")
        assert group["consumer.session.timeout.ms"].config_source == 8
        assert group["consumer.heartbeat.interval.ms"].value == "5000"
        listed = await one.call(list_config_resources.ListConfigResourcesRequest(resource_types=[]))
        found = {(r.resource_type, r.resource_name) for r in listed.config_resources}
        assert found >= {(16, "m"), (32, "g"), (4, node), (8, node)}


async def test_the_old_way_replaces_all_configs(tmp_path):
    async with admin(tmp_path) as one:
        await one.call(incremental((32, "g", {"share.delivery.count.limit": "4"})))
        resource = alter_configs.AlterConfigsResource(
            resource_type=32,
            resource_name="g",
            configs=[
                alter_configs.AlterableConfig(name="share.auto.offset.reset", value="earliest")
            ],
        )
        request = alter_configs.AlterConfigsRequest(
            resources=[resource, resource], validate_only=False
        )
        twice = await one.call(request)
        assert {r.error_code for r in twice.responses} == {ErrorCode.INVALID_REQUEST}
        answer = await one.call(request.replace(resources=[resource]))
        assert [r.error_code for r in answer.responses] == [0]
        expected = {"share.auto.offset.reset": "earliest"}
        await one.seen(lambda image: dict(image.configs.of(32, "g")) == expected)


async def test_log_levels_are_configs_of_this_process(tmp_path):
    name = "tests.of.log.levels"
    logger = logging.getLogger(name)
    async with admin(tmp_path) as one:
        node = str(one.running.node_id)
        answer = await one.call(incremental((8, node, {name: "ERROR"}), validate_only=True))
        assert (answer.responses[0].error_code, logger.level) == (0, logging.NOTSET)
        await one.call(incremental((8, node, {name: "ERROR"})))
        assert logger.level == logging.ERROR
        assert (await described(one, 8, node))[name].value == "ERROR"
        for key, value, code in (
            (name, "LOUD", ErrorCode.INVALID_CONFIG),
            ("no.such.logger", "INFO", ErrorCode.INVALID_CONFIG),
        ):
            answer = await one.call(incremental((8, node, {key: value})))
            assert answer.responses[0].error_code == code
    logger.setLevel(logging.NOTSET)
