"""The bill of materials of a distribution, in the form of CycloneDX 1.6: its packages in the versions of
`constraints.txt`, their licenses, and which of them needs which.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from importlib.metadata import PackageNotFoundError, metadata, requires
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.changelog import ReleaseRefused

_PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)", re.MULTILINE)


def pins(constraints: str) -> dict[str, str]:
    """Returns the version of each package by its canonical name."""
    return {
        canonicalize_name(found["name"]): found["version"] for found in _PIN.finditer(constraints)
    }


def bill(name: str, version: str, locked: Mapping[str, str], at: datetime) -> str:
    """Returns the JSON for the installed distribution `name` with all its extras that bring packages for users. The
    same input gives the same bytes.

    Raises:
        ReleaseRefused: a package has no version in `locked`, or is not installed, so its needs are unknown.
    """
    own = _component(name, version, ComponentType.APPLICATION)
    components = {name: own}
    needed = _closure(name)
    for package in sorted(needed.keys() - {name}):
        pinned = version if package == "trimaran" else locked.get(package)
        if pinned is None:
            raise ReleaseRefused(f"constraints.txt has no version of {package}: add it")
        components[package] = _component(package, pinned, ComponentType.LIBRARY)
    result = Bom(
        components=[component for component in components.values() if component is not own],
        serial_number=uuid5(NAMESPACE_URL, own.purl.to_string() if own.purl else name),
    )
    result.metadata.component = own
    result.metadata.timestamp = at
    for package, others in needed.items():
        result.register_dependency(components[package], [components[other] for other in others])
    return JsonV1Dot6(result).output_as_string(indent=2) + "\n"


def _component(name: str, version: str, kind: ComponentType) -> Component:
    about = metadata(name)
    license_text = about.get("License-Expression") or about.get("License") or ""
    factory = LicenseFactory()
    known = "\n" not in license_text and 0 < len(license_text) < 100
    return Component(
        name=name,
        version=version,
        type=kind,
        bom_ref=f"{name}@{version}",
        purl=PackageURL("pypi", None, name, version),
        licenses=[factory.make_from_string(license_text)] if known else [],
    )


def _closure(name: str) -> dict[str, list[str]]:
    """Returns the needs of each package, beginning with `name`, with those of the extras that any of them names."""
    extras = {"trimaran": {"all"}}
    found: dict[str, list[str]] = {}
    todo = [name]
    while todo:
        package = todo.pop()
        needs: set[str] = set()
        for requirement in _requirements(package, extras.get(package, set())):
            other = canonicalize_name(requirement.name)
            grown = extras.get(other, set()) | requirement.extras
            if other not in found or grown != extras.get(other, set()):
                todo.append(other)
            extras[other] = grown
            needs.add(other)
        found[package] = sorted(needs - {package})
    return found


def _requirements(package: str, extras: Iterable[str]) -> Iterator[Requirement]:
    try:
        lines = requires(package) or []
    except PackageNotFoundError:
        raise ReleaseRefused(
            f"{package} is not installed: run ./dev setup, or pip install it"
        ) from None
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement
