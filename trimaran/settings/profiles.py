"""Named clusters, each with a file NAME.properties that has its addresses and Kafka's client keys.

Such a file may be given to Kafka's own tools, too (`--command-config`). `trimaran up` writes `local`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trimaran.errors.user_error import Exit, UserError
from trimaran.settings.properties import read_file

if TYPE_CHECKING:
    from trimaran.settings.properties import PropertySetting

BROKERS, CONTROLLERS, ZOOKEEPER = "bootstrap.servers", "bootstrap.controllers", "zookeeper.connect"
ADDRESSES = frozenset({BROKERS, CONTROLLERS, ZOOKEEPER})
LOCAL = "local"
SUFFIX = ".properties"


def folder() -> Path:
    """Returns `$XDG_CONFIG_HOME/trimaran/profiles`, by default below `~/.config`."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "trimaran" / "profiles"


def names() -> list[str]:
    return sorted(path.stem for path in folder().glob(f"*{SUFFIX}"))


def load(name: str) -> dict[str, PropertySetting]:
    """Returns the settings of a profile. Raises UserError if there is no profile of this name."""
    path = folder() / f"{name}{SUFFIX}"
    if Path(name).name != name or not path.is_file():
        known = ", ".join(names())
        raise UserError(
            f"there is no profile {name}",
            f"the profiles are {known}" if known else f"there are no profiles in {folder()}",
            f"create {path} with {BROKERS}=HOST:PORT and other client keys",
            exit_code=Exit.USAGE,
        )
    return read_file(path)


def write(name: str, addresses: Mapping[str, str | None]) -> None:
    """Replaces a profile; does nothing if the home directory cannot be written."""
    text = "".join(f"{key}={value}\n" for key, value in addresses.items() if value)
    path = folder() / f"{name}{SUFFIX}"
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(text)
        temporary.replace(path)


def remove(name: str, brokers: str) -> None:
    """Removes a profile if it still names these brokers."""
    path = folder() / f"{name}{SUFFIX}"
    with contextlib.suppress(OSError, UserError):
        found = read_file(path).get(BROKERS)
        if found is not None and found.value == brokers:
            path.unlink()
