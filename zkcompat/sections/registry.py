"""The sections of a mirror, in the order in which they are compared and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimaran.quorum.metadata.image import EMPTY
from trimaran.zkcompat.sections.acls import AclSection
from trimaran.zkcompat.sections.broker_configs import BrokerConfigSection
from trimaran.zkcompat.sections.brokers import BrokerSection
from trimaran.zkcompat.sections.entity_quotas import ClientSection, IpSection
from trimaran.zkcompat.sections.fixed_znodes import FixedZnodes
from trimaran.zkcompat.sections.producer_ids import ProducerIdSection
from trimaran.zkcompat.sections.section import Section
from trimaran.zkcompat.sections.tokens import TokenSection
from trimaran.zkcompat.sections.topics import TopicSection
from trimaran.zkcompat.sections.users import UserSection

Sections = Sequence[Section]


def sections_of(cluster_id: str, *, secrets: bool = False) -> Sections:
    """Returns the sections; with `secrets` also those of SCRAM credentials and delegation tokens."""
    return (
        FixedZnodes(cluster_id, tokens=secrets),
        BrokerSection(),
        TopicSection(),
        BrokerConfigSection(),
        UserSection(scram=secrets),
        ClientSection(),
        IpSection(),
        ProducerIdSection(),
        AclSection(),
        *([TokenSection()] if secrets else ()),
    )


# All sections, to name changed entities: no operation is planned with these.
EVERYTHING = sections_of("", secrets=True)


class SectionIndex:
    """Finds the entity to which a path belongs."""

    def __init__(self, sections: Sections) -> None:
        self._by_directory: Mapping[str, Section] = {
            directory: section for section in sections for directory in section.directories
        }
        self._singles = {
            path: (section, name)
            for section in sections
            for name in section.names(EMPTY)
            for path in section.singles(name)
        }
        self._depths = sorted({directory.count("/") for directory in self._by_directory})

    def entity_at(self, path: str) -> tuple[Section, str] | None:
        """Returns the entity of a path; None if it belongs to none."""
        if path in self._singles:
            return self._singles[path]
        parts = path.split("/")
        for depth in self._depths:
            directory = "/".join(parts[: depth + 1])
            section = self._by_directory.get(directory)
            if section is not None and len(parts) > depth + 1:
                return section, section.entity(directory, parts[depth + 1])
        return None
