"""What is obeyed, as the configuration wants it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.zkcompat.legacy.orders import Kind

ENABLE = "trimaran.zk.legacy.admin.enable"
KINDS = "trimaran.zk.legacy.admin.kinds"
SECRETS = "trimaran.zk.mirror.secrets.enable"


def obeyed_kinds(properties: Mapping[str, str], *, inside: bool = False) -> Collection[Kind]:
    """None of them without the option. `inside`: a controller of ours, which can store credentials.

    ValueError names key and value.
    """
    try:
        values = {
            key: SERVER_CONFIGS[key].parse(properties[key])
            if key in properties
            else SERVER_CONFIGS[key].default
            for key in (ENABLE, KINDS, SECRETS)
        }
    except ConfigError as error:
        raise ValueError(str(error)) from error
    if not values[ENABLE]:
        return frozenset()
    kinds = frozenset(map(Kind, values[KINDS]))
    if Kind.SCRAM in kinds:
        _require_can_store(inside=inside, secrets=bool(values[SECRETS]))
    return kinds


def _require_can_store(*, inside: bool, secrets: bool) -> None:
    if not inside:
        raise ValueError(
            f"{KINDS}: scram is only obeyed by a mirror inside our controllers, with trimaran.zk.mirror.enable=true "
            "there: no request takes the keys that stand in ZooKeeper"
        )
    if not secrets:
        raise ValueError(
            f"{KINDS}: scram needs {SECRETS}=true, so that credentials are for the mirror's user only"
        )
