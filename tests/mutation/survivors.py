"""The justified survivors, and their comparison with the results of a run."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.mutants import Mutant
from tests.mutation.running import SURVIVED

ARGUED = Path(__file__).parent / "survivors.toml"


@dataclass(frozen=True)
class Argued:
    """Survivors of one function that share a reason."""

    where: str
    changes: tuple[str, ...]
    why: str

    def names(self) -> Iterator[str]:
        for change in self.changes:
            yield f"{self.where}  {change}"


def read(path: Path = ARGUED) -> list[Argued]:
    entries = tomllib.loads(path.read_text()).get("survivor", [])
    return [Argued(entry["where"], tuple(entry["changes"]), entry["why"]) for entry in entries]


@dataclass(frozen=True)
class Verdict:
    """Names of mutants: unjustified survivors, entries whose mutant is killed, and entries whose mutant no longer
    exists.
    """

    unargued: list[str]
    argued: list[str]
    killed: list[str]
    gone: list[str]


def judge(mutants: list[Mutant], outcomes: dict[str, str], entries: list[Argued]) -> Verdict:
    """Compares the entries with a run: `mutants` are all mutants of the examined rooms, `outcomes` those of the mutants
    that were run.
    """
    names = {mutant.name for mutant in mutants}
    modules = {mutant.where.partition(":")[0] for mutant in mutants}
    listed = [name for entry in entries for name in entry.names()]
    here = [name for name in listed if name.partition(":")[0] in modules]
    survived = [name for name, outcome in outcomes.items() if outcome == SURVIVED]
    return Verdict(
        unargued=[name for name in survived if name not in listed],
        argued=[name for name in survived if name in listed],
        killed=[name for name in here if outcomes.get(name, SURVIVED) != SURVIVED],
        gone=[name for name in here if name not in names],
    )
