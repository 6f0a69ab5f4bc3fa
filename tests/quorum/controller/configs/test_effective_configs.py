"""The topic configs in responses of CreateTopics."""

from hypothesis import example, given
from hypothesis import strategies as st
from immutables import Map

from tests.quorum.config_of import config_of
from trimaran.quorum.controller.configs.effective_configs import EffectiveConfigs
from trimaran.quorum.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigsImage
from trimaran.quorum.serving.config_entries import ConfigDescription
from trimaran.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse

OF_BROKERS = st.dictionaries(
    st.sampled_from(["log.retention.ms", "log.segment.bytes", "max.message.bytes"]),
    st.sampled_from(["7", "9"]),
)
OF_TOPIC = st.dictionaries(
    st.sampled_from(["retention.ms", "segment.bytes", "cleanup.policy"]), st.just("8")
)


@example([({}, {}, {"retention.ms": "8"}), ({}, {}, {"segment.bytes": "8"})])
@given(st.lists(st.tuples(OF_BROKERS, OF_BROKERS, OF_TOPIC), max_size=6))
def test_cached_description_equals_a_fresh_one(steps):
    config = config_of(log_segment_bytes=2 << 20)
    effective = EffectiveConfigs(config)
    for of_node, of_all, own in steps:
        resources = {(BROKER_RESOURCE, str(config.node_id)): of_node, (BROKER_RESOURCE, ""): of_all}
        with_topic = {**resources, (TOPIC_RESOURCE, "t"): own}
        configs, configs_with_topic = (
            ConfigsImage(Map({key: Map(value) for key, value in some.items() if value}))
            for some in (resources, with_topic)
        )
        described = ConfigDescription(
            config, configs_with_topic, synonyms=False, documentation=False
        )
        found = effective.of(own, configs)
        assert [
            (
                config.name,
                config.value,
                config.read_only,
                config.config_source,
                config.is_sensitive,
            )
            for config in found
        ] == [
            (
                config.name,
                config.value,
                config.read_only,
                config.config_source,
                config.is_sensitive,
            )
            for config in described.topic("t", None)
        ]
        for version in (5, 7):
            plain, encoded = (
                CreateTopicsResponse(topics=[CreatableTopicResult(name="t", configs=item)])
                for item in (found, effective.encoded(found, version))
            )
            assert encoded.encode(version) == plain.encode(version)
