"""An operator's own rules about topics and configs: called, obeyed, and refused at the start if they cannot be
loaded.
"""

from importlib.metadata import EntryPoint

import pytest

from tests.broker.handlers.broker_client import broker_client
from tests.quorum.config_of import config_of
from trimaran.node.config.config_def import ConfigError
from trimaran.quorum.controller.configs import policies
from trimaran.quorum.controller.configs.policies import (
    AlteredConfigs,
    NewTopic,
    Policies,
    policies_of,
)
from trimaran.quorum.controller.server import run_controller
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

SEEN = []


def one_partition(topic):
    SEEN.append(topic)
    return None if topic.partitions == 1 else "one partition, please"


def no_retention(altered):
    SEEN.append(altered)
    if "max.message.bytes" in altered.configs:
        raise ValueError("a mistake of the policy")
    return "not the retention" if "retention.ms" in altered.configs else None


def installed(monkeypatch, **named):
    """Installs entry points by the suffix of their names: create_topic, alter_config."""
    points = {
        f"trimaran.policy.{kind}": EntryPoint("rules", f"{__name__}:{function}", "")
        for kind, function in named.items()
    }
    found = lambda group: [points[group]] if group in points else []  # noqa: E731
    monkeypatch.setattr(policies, "entry_points", found)


async def test_configured_policies_are_called(tmp_path, monkeypatch):
    installed(monkeypatch, create_topic="one_partition", alter_config="no_retention")
    SEEN.clear()
    settings = {
        "create_topic_policy_class_name": "rules",
        "alter_config_policy_class_name": "rules",
    }
    async with broker_client(tmp_path, **settings) as one:
        topics = [
            CreatableTopic(
                name=f"t{count}",
                num_partitions=count,
                replication_factor=1,
                assignments=[],
                configs=[],
            )
            for count in (1, 2)
        ]
        answer = await one.call(CreateTopicsRequest(topics=topics))
        found = [(topic.name, topic.error_code, topic.error_message) for topic in answer.topics]
        refused = ErrorCode.POLICY_VIOLATION
        assert found == [("t1", 0, None), ("t2", refused, "one partition, please")]
        assert [NewTopic("t1", 1, 1, None, {}), NewTopic("t2", 2, 1, None, {})] == SEEN

        async def altered(name):
            change = AlterableConfig(name=name, config_operation=0, value="1000")
            resource = AlterConfigsResource(resource_type=2, resource_name="t1", configs=[change])
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            (result,) = (await one.call(request)).responses
            return result.error_code, result.error_message

        assert await altered("retention.ms") == (refused, "not the retention")
        assert SEEN[-1] == AlteredConfigs("TOPIC", "t1", {"retention.ms": "1000"})
        code, message = await altered("max.message.bytes")
        assert (code, "failed" in message, "mistake" in message) == (refused, True, False)
        assert await altered("segment.ms") == (0, None)


def test_deleted_config_is_no_new_value_for_policy():
    seen = []
    policy = Policies(alter_config=seen.append)
    policy.check_configs(2, "t", {"a": "1", "b": None})
    assert seen == [AlteredConfigs("TOPIC", "t", {"a": "1"})]
    with pytest.raises(KafkaError, match="POLICY_VIOLATION"):
        Policies(create_topic=lambda _: "no").check_topic(NewTopic("t", 1, 1, None, {}))


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (None, "classes of Java do not run here"),
        ("nothing", "it cannot be loaded"),
        ("ErrorCode.NONE", "it is no function"),
    ],
)
def test_unloadable_policy_is_refused(monkeypatch, function, why):
    installed(monkeypatch, **({"create_topic": function} if function else {}))
    with pytest.raises(ConfigError, match=why) as caught:
        policies_of(config_of(create_topic_policy_class_name="rules"))
    assert caught.value.key == "create.topic.policy.class.name"
    assert caught.value.origin.startswith("test.properties")
    assert "trimaran.policy.create_topic" in caught.value.fix


async def test_no_controller_starts_with_a_java_class(tmp_path):
    name = "com.example.Policy"
    config = config_of(alter_config_policy_class_name=name, log_dirs=tmp_path)
    with pytest.raises(ConfigError, match="classes of Java do not run here"):
        await run_controller(config)
