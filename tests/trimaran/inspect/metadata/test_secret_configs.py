"""Values of configs that neither the metadata shell nor a history shows."""

import pytest

from tests.quorum.metadata.build import config, image_of
from trimaran.inspect.metadata.events import shown
from trimaran.inspect.metadata.tree import REDACTED, image_tree, lookup
from trimaran.quorum.metadata.image import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, TOPIC_RESOURCE
from trimaran.wire.text.as_json import HIDDEN


@pytest.mark.parametrize(
    ("kind", "name", "is_secret"),
    [
        (TOPIC_RESOURCE, "retention.ms", False),
        (BROKER_RESOURCE, "retention.ms", True),  # a key of topics, which brokers do not know
        (BROKER_RESOURCE, "ssl.key.password", True),
        (BROKER_RESOURCE, "log.cleaner.threads", False),
        (CLIENT_METRICS_RESOURCE, "my.plugin", False),
    ],
)
def test_secret_values_are_hidden_by_config_and_resource(kind, name, is_secret):
    image = image_of(config(name, "v", (kind, "1")))
    [(_, told)] = lookup(image_tree(image), f"/image/configs/*/{name}")
    assert told == (REDACTED if is_secret else "v")
    assert shown(kind, name, "v") == (HIDDEN if is_secret else "v")
