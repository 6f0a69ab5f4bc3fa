"""The faults, each a function that injects the fault, yields while it lasts, and ends it. See `outsider.py` for
intruders.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from random import Random

from tests.chaos.mirror import outsider
from tests.chaos.mirror.fault import (
    EXPIRY_SECONDS,
    SESSION_SECONDS,
    ZNODE_SECONDS,
    Fault,
    Story,
)
from tests.chaos.mirror.lying_proxy import cutting, forging
from tests.chaos.mirror.outsider import CLAIM, PARENTS, SECRETS, WITH_DATA
from tests.chaos.mirror.scene import Scene

SEED = 1


def nothing_happens(scene: Scene) -> Iterator[None]:
    """No fault: the baseline of the measurements."""
    yield


def mirror_killed_in_a_burst(scene: Scene) -> Iterator[None]:
    """The mirror is killed with SIGKILL while topics are created and deleted, and is started again."""
    mirror = scene.leading()
    with scene.bursting():
        mirror.kill()
        yield
    mirror.start()


def mirror_frozen_in_a_burst(scene: Scene) -> Iterator[None]:
    """The mirror is frozen for less than a session while topics are created and deleted."""
    mirror = scene.leading()
    with scene.bursting():
        mirror.signal(signal.SIGSTOP)
        yield
    mirror.signal(signal.SIGCONT)


def mirror_frozen_past_its_session(scene: Scene) -> Iterator[None]:
    """The only mirror is frozen until ZooKeeper has ended its session."""
    mirror = scene.leading()
    mirror.signal(signal.SIGSTOP)
    yield
    mirror.signal(signal.SIGCONT)


def first_of_two_mirrors_killed(scene: Scene) -> Iterator[None]:
    """The leading mirror dies while topics are created and deleted; another one is on standby."""
    mirror = scene.leading()
    with scene.bursting():
        yield
        mirror.kill()
    scene.changes.touch_bad()


def first_of_two_mirrors_frozen(scene: Scene) -> Iterator[None]:
    """The leading mirror is frozen past its session, is replaced, and wakes up."""
    mirror = scene.leading()
    mirror.signal(signal.SIGSTOP)
    scene.changes.touch_bad()
    yield
    mirror.signal(signal.SIGCONT)


def two_of_three_mirrors_killed(scene: Scene) -> Iterator[None]:
    """The leading mirror dies, then its successor."""
    scene.leading().kill()
    scene.changes.touch_bad()
    yield
    scene.leading().kill()
    scene.changes.touch_bad()


def zookeeper_killed(scene: Scene) -> Iterator[None]:
    """ZooKeeper is killed with SIGKILL and started again on its data."""
    scene.keepers.kill()
    scene.changes.burst()
    yield
    scene.keepers.start()


def zookeeper_frozen_past_expiry(scene: Scene) -> Iterator[None]:
    """ZooKeeper is frozen for longer than a session."""
    scene.keepers.signal(signal.SIGSTOP)
    scene.changes.burst()
    yield
    scene.keepers.signal(signal.SIGCONT)


def zookeeper_wiped(scene: Scene) -> Iterator[None]:
    """ZooKeeper dies, and comes back without its data."""
    scene.keepers.wipe()
    yield
    scene.keepers.start()


def zookeeper_disk_full(scene: Scene) -> Iterator[None]:
    """ZooKeeper's disk is full; it stops because of that, and is started again when there is room."""
    scene.keepers.fill_disk()
    scene.changes.burst()
    yield
    scene.keepers.empty_disk()


def ensemble_loses_its_leader(scene: Scene) -> Iterator[None]:
    """The leader of three ZooKeeper servers dies."""
    ensemble = scene.keepers.three
    gone = ensemble.leader()
    ensemble.kill(gone)
    scene.changes.burst()
    yield
    ensemble.start(gone)


def ensemble_without_majority(scene: Scene) -> Iterator[None]:
    """Two of three ZooKeeper servers die."""
    ensemble = scene.keepers.three
    ensemble.kill(0, 1)
    scene.changes.burst()
    yield
    ensemble.start(0, 1)


def answers_cut(scene: Scene) -> Iterator[None]:
    """One in ten answers of ZooKeeper is cut off in the middle."""
    scene.lying.harm = cutting(Random(SEED))
    scene.changes.burst()
    yield
    scene.lying.harm = None


def answers_forged(scene: Scene) -> Iterator[None]:
    """One in five answers of ZooKeeper is forged."""
    scene.lying.harm = forging(Random(SEED))
    scene.changes.burst()
    yield
    scene.lying.harm = None


def quorum_leader_killed(scene: Scene) -> Iterator[None]:
    """The active controller is killed with SIGKILL and started again."""
    leader = scene.quorum.leader(scene.config)
    scene.quorum.kill(leader)
    yield
    scene.quorum.restart(leader)


def quorum_leader_frozen(scene: Scene) -> Iterator[None]:
    """The active controller is frozen; another one replaces it, and it wakes up."""
    leader = scene.quorum.leader(scene.config)
    scene.quorum.freeze(leader)
    yield
    scene.quorum.thaw(leader)


def partitions_change_500_a_second(scene: Scene) -> Iterator[None]:
    """500 partitions change their leader every second."""
    with scene.turning():
        yield


def _of_one(story: Story, *victims: str) -> Fault:
    return Fault(
        story, stand_seconds=ZNODE_SECONDS, victims=victims, brokers_go=True, one_znode=True
    )


def _of_claim(story: Story) -> Fault:
    about = " of the claim"
    return Fault(story, stand_seconds=ZNODE_SECONDS, victims=CLAIM, about=about)


FAULTS = (
    Fault(nothing_happens, one_znode=True),
    Fault(mirror_killed_in_a_burst),
    Fault(mirror_frozen_in_a_burst),
    Fault(
        mirror_frozen_past_its_session,
        mark_seconds=SESSION_SECONDS,
        stand_seconds=EXPIRY_SECONDS,
        brokers_go=True,
    ),
    Fault(first_of_two_mirrors_killed, mark_seconds=SESSION_SECONDS, mirrors=2, is_load=True),
    Fault(first_of_two_mirrors_frozen, mirrors=2, stand_seconds=EXPIRY_SECONDS),
    Fault(
        two_of_three_mirrors_killed,
        mark_seconds=SESSION_SECONDS,
        mirrors=3,
        stand_seconds=EXPIRY_SECONDS,  # a takeover is not a recurring cost
    ),
    Fault(zookeeper_killed),
    Fault(
        zookeeper_frozen_past_expiry,
        mark_seconds=SESSION_SECONDS,
        stand_seconds=EXPIRY_SECONDS,
        brokers_go=True,
    ),
    Fault(zookeeper_wiped, brokers_go=True),
    Fault(zookeeper_disk_full, small_disk=True),
    Fault(ensemble_loses_its_leader, three_servers=True),
    Fault(ensemble_without_majority, three_servers=True),
    Fault(answers_cut, lies=True),
    Fault(answers_forged, lies=True),
    Fault(quorum_leader_killed),
    Fault(quorum_leader_frozen),
    Fault(partitions_change_500_a_second, is_load=True),
    _of_one(outsider.outsider_deletes, *WITH_DATA, *SECRETS, *PARENTS),
    _of_one(outsider.outsider_forges, *WITH_DATA, *SECRETS),
    _of_one(outsider.outsider_adds, *WITH_DATA[1:], *SECRETS),
    _of_one(outsider.outsider_locks, *WITH_DATA, *SECRETS, *PARENTS),
    # A mirror must write nothing without these three znodes, so other topics wait.
    _of_claim(outsider.outsider_deletes),
    _of_claim(outsider.outsider_forges),
    _of_claim(outsider.outsider_locks),
)
