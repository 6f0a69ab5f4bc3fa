"""Definition of a fault: its description, its execution, and its targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.chaos.mirror.scene import Scene

# Injects the fault, yields while it lasts, and ends it.
Story = Callable[["Scene"], Iterator[None]]

SESSION_MS = 6000
SESSION_SECONDS = SESSION_MS / 1000
CONVERGE_SECONDS = 3.0
STAND_SECONDS = 4.0
# Longer than a session of the mirror.
EXPIRY_SECONDS = SESSION_SECONDS + 4.0
# The time allowed for the repair of one znode.
ZNODE_SECONDS = 1.5
BEHIND_SECONDS = 0.1
CPU_SHARE = 0.05


@dataclass(frozen=True)
class Fault:
    """A fault. `mark_seconds` is the maximum time from its end until ZooKeeper is in step. The fault is repeated for
    each znode in `victims`. `brokers_go` means that the fault itself removes broker znodes, `one_znode` that no other
    znode may be delayed, and `is_load` that the mirror has real work meanwhile, so that its CPU time has no target.
    """

    story: Story
    mark_seconds: float = CONVERGE_SECONDS
    stand_seconds: float = STAND_SECONDS
    mirrors: int = 1
    three_servers: bool = False
    small_disk: bool = False
    lies: bool = False
    brokers_go: bool = False
    one_znode: bool = False
    is_load: bool = False
    victims: tuple[str, ...] = ("",)
    about: str = ""

    @property
    def name(self) -> str:
        return f"{self.story.__name__.replace('_', ' ')}{self.about}"

    @property
    def what(self) -> str:
        return (self.story.__doc__ or "").strip()
