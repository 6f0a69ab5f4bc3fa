"""Live brokers: registered and unfenced brokers, which in ZooKeeper mode were the ones with a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import ClassVar

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import BrokerRegistration, MetadataImage
from trimaran.wire.identity import BrokerId
from trimaran.zkcompat.sections.section import Section, differing_keys
from trimaran.zkcompat.tree.operations import TreeOperation, Znode, create, delete
from trimaran.zkcompat.znodes.broker_info import BROKER_IDS, BrokerInfo, ListenerAddress
from trimaran.zkcompat.znodes.json_form import decode_or_none


class BrokerSection(Section):
    """Ephemeral znodes in the mirror's session. A new incarnation gets a new znode, so that watchers see the change."""

    label = "Broker"
    directories: ClassVar[tuple[str, ...]] = (BROKER_IDS,)

    def names(self, image: MetadataImage) -> Iterable[str]:
        return (str(broker_id) for broker_id, broker in _sorted(image) if is_live(broker))

    def touched(self, delta: MetadataDelta) -> Iterable[str]:
        return map(str, delta.cluster.changed_brokers)

    def differing(self, before: MetadataImage, after: MetadataImage) -> Iterable[str]:
        return map(str, differing_keys(before.cluster.brokers, after.cluster.brokers))

    def znodes(self, name: str, image: MetadataImage) -> Iterable[tuple[str, Znode]]:
        broker = _broker(name, image)
        if broker is not None and is_live(broker):
            yield BrokerInfo.path(broker.id), _znode(broker, image)

    def plan(
        self, name: str, before: MetadataImage, after: MetadataImage
    ) -> Iterator[TreeOperation]:
        old, new = _broker(name, before), _broker(name, after)
        path = f"{BROKER_IDS}/{name}"
        stays = is_live(new) and _same_registration(old, new)
        if is_live(old) and not stays:
            sentence = f"Broker {name} is fenced, unregistered or registered again"
            yield delete(path, "DeleteBroker", sentence)
        if new is not None and is_live(new) and not (is_live(old) and stays):
            yield create(path, _znode(new, after), "CreateBroker", f"Broker {name} is live")

    def same(self, path: str, expected: bytes | None, found: bytes | None) -> bool:
        """True for equal brokers, regardless of the timestamp, which is the time at which the znode was written."""
        if expected == found:
            return True
        wanted, actual = (
            decode_or_none(lambda data: BrokerInfo.decode(BrokerId(0), data), data)
            for data in (expected, found)
        )
        if wanted is None or actual is None:
            return False
        return wanted == replace(actual, timestamp_ms=wanted.timestamp_ms)


def is_live(broker: BrokerRegistration | None) -> bool:
    """True for a registered and unfenced broker."""
    return broker is not None and not broker.fenced


def _sorted(image: MetadataImage) -> list[tuple[int, BrokerRegistration]]:
    return sorted(image.cluster.brokers.items())


def _broker(name: str, image: MetadataImage) -> BrokerRegistration | None:
    is_id = name.isascii() and name.isdecimal() and str(int(name)) == name
    return image.cluster.brokers.get(BrokerId(name)) if is_id else None


def _same_registration(old: BrokerRegistration | None, new: BrokerRegistration | None) -> bool:
    return (
        old is not None
        and new is not None
        and (old.epoch, old.listeners, old.rack) == (new.epoch, new.listeners, new.rack)
    )


def _znode(broker: BrokerRegistration, image: MetadataImage) -> Znode:
    endpoints = tuple(
        ListenerAddress(listener.name, listener.host, listener.port, listener.security_protocol)
        for listener in broker.listeners
    )
    info = BrokerInfo(broker.id, endpoints, broker.rack, image.provenance.timestamp_ms)
    return Znode(info.encode(), ephemeral=True)
