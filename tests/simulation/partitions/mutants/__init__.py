"""Bugs planted in the partition layer: each must be found by some seed, or by the test that `ELSEWHERE` names."""

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.partitions.mutants.controllers import CONTROLLERS
from tests.simulation.partitions.mutants.followers import FOLLOWERS
from tests.simulation.partitions.mutants.leaders import LEADERS
from tests.simulation.partitions.mutants.logs import LOGS
from tests.simulation.partitions.mutants.reading import READING
from tests.simulation.partitions.world import run_seed

PARTITIONS = tuple(
    Mutant(*one, run_seed=run_seed) for one in (*LEADERS, *FOLLOWERS, *READING, *LOGS, *CONTROLLERS)
)

# Those that no seed finds, and what does.
ELSEWHERE: dict[str, str] = {}
