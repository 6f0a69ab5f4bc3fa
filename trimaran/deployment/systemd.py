"""A systemd unit for one node. It waits until the node serves (`trimaran.running.node_process`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

from trimaran.errors.user_error import Exit

# The controlled shutdown of a broker takes at most 20 s; then it flushes and closes its logs, which may take a long
# time on a slow disk.
STOP_SECONDS = 180

# The directories that options of the unit hide from the node.
_HIDDEN = {
    "ProtectHome": ("/home", "/root", "/run/user"),
    "PrivateTmp": ("/tmp", "/var/tmp"),
}


def hidden(paths: Sequence[Path]) -> list[str]:
    """Returns a sentence for each path that the node of the unit would not see, also behind links."""
    found = []
    for path in paths:
        for option, tops in _HIDDEN.items():
            for place in dict.fromkeys((path, path.resolve())):
                if top := next((top for top in tops if place.is_relative_to(top)), None):
                    link = "" if place == path else f", a link to {place},"
                    found.append(
                        f"{path}{link} is in {top}, which {option} of the unit hides from the node"
                    )
                    break
    return found


def unit(program: PurePath, config: PurePath, user: str, directories: Sequence[PurePath]) -> str:
    """Returns the unit; `program` is the script `trimaran`, `directories` are those that the node writes. `user` must
    exist.
    """
    writable = " ".join(map(_quoted, directories))
    return f"""\
[Unit]
Description=Kafka node by trimaran
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
User={user}
ExecStart={_word(program)} server start -c {_word(config)}
Restart=on-failure
RestartSec=2
# A wrong configuration stays wrong.
RestartPreventExitStatus={int(Exit.USAGE)}
# Recovery of logs takes its time; server.max.startup.time.ms bounds the rest.
TimeoutStartSec=infinity
TimeoutStopSec={STOP_SECONDS}
LimitNOFILE=1048576

NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={writable}
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
CapabilityBoundingSet=
SystemCallArchitectures=native
UMask=0027

[Install]
WantedBy=multi-user.target
"""


def _word(path: PurePath) -> str:
    """Quotes a word of a command, in which a dollar begins a variable."""
    return _quoted(path).replace("$", "$$")


def _quoted(path: PurePath) -> str:
    """Quotes a value according to systemd.syntax(7); a percent sign begins a specifier."""
    text = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text}"' if any(letter in text for letter in ' "\\') else text
