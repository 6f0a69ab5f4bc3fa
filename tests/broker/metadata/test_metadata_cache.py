"""The broker's own state beside the newest metadata image."""

from immutables import Map

from tests.cluster.data_side import registration
from trimaran.broker.metadata.metadata_cache import LISTED_SECONDS, BrokerMetadata
from trimaran.quorum.metadata.image import ClusterImage, MetadataImage


def image(**fenced):
    brokers = {int(name[1:]): registration(int(name[1:]), fenced=f) for name, f in fenced.items()}
    return MetadataImage(cluster=ClusterImage(brokers=Map(brokers)))


def listed(metadata):
    brokers = metadata.image.cluster.brokers.values()
    return sorted(broker.id for broker in brokers if metadata.is_listed(broker))


async def test_broker_is_listed_shortly_after_fencing():
    now = 100.0
    metadata = BrokerMetadata(image(b1=False, b2=False, b3=True), lambda: now)
    assert listed(metadata) == [1, 2]
    metadata.set(image(b1=False, b2=True, b3=True))
    assert listed(metadata) == [1, 2], "2 was fenced in this moment, 3 long ago"
    now += LISTED_SECONDS
    assert listed(metadata) == [1]
    metadata.set(image(b1=False, b2=False, b3=True))
    assert listed(metadata) == [1, 2]
    metadata.set(image(b1=False, b3=True))
    assert listed(metadata) == [1], "an unregistered broker is gone at once"
