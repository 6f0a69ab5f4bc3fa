"""`./dev bench failover [CASE …] [--rounds N] [--brokers] [--only ours|kafka]`: measures the time without a leader of
our quorum and of Apache Kafka's.

3 controllers and 3 brokers. A round: every voter follows; after a random part of a second the process of the active
controller gets SIGKILL (or SIGSTOP, which leaves its sockets open and silent), and from that moment on clients request
a new topic, each with a different name:

- `controllers`: one client sends requests to both other controllers in turn, every 5 ms, until one of them has created
  it. This measures only the quorum: a new leader is elected, is active, and has committed a change of its own.
- `brokers` (with `--brokers`): one client sends requests to a broker, or to another after 250 ms without a response,
  until the topic is created. This is the view of an application. Brokers of Apache Kafka wait 30 s for a frozen
  controller.

The seconds count from the signal to the response. Then the process is started again (or gets SIGCONT), and the next
round begins once it follows. `epochs` is the number of elections in a round. The case `steady` counts elections without
any failure.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple

from bench.accounting import percentile
from bench.clusters import SYSTEMS, Cluster, systems_of
from bench.scale_client import (
    all_applied,
    create_topics,
    open_clients,
    seconds_until,
)
from bench.sizes import sized
from trimaran.quorum.observing.description import describe_quorum_request
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Address
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

SECONDS_MAX = 60.0
PAUSE_SECONDS = 0.005  # seconds between two requests
BROKER_SECONDS = 0.25  # after this time the next broker gets the request
TOPIC_PARTITIONS = sized(5_000, 20)  # Kafka accepts fewer than 10,000 in a request
LAG_MAX = 5  # records: there is always a no-op in flight, every half second

TUNED = {
    "controller.quorum.fetch.timeout.ms": "500",
    "controller.quorum.request.timeout.ms": "500",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "300",
}


@dataclass(frozen=True)
class Case:
    """A case: the `signal` for the active controller, and the number of `partitions` in the metadata."""

    signal: signal.Signals
    settings: Mapping[str, str]
    partitions: int = 0


CASES = {
    "killed": Case(signal.SIGKILL, {}),
    "frozen": Case(signal.SIGSTOP, {}),
    "killed-tuned": Case(signal.SIGKILL, TUNED),
    "frozen-tuned": Case(signal.SIGSTOP, TUNED),
    "killed-50k": Case(signal.SIGKILL, {}, 10 * TOPIC_PARTITIONS),
    "frozen-50k": Case(signal.SIGSTOP, {}, 10 * TOPIC_PARTITIONS),
}
STEADY = "steady"
ASKED = ("controllers", "brokers")


@dataclass(frozen=True)
class Round:
    """The seconds from the signal for each of ASKED (the second only with `--brokers`), and the increase of the leader
    epoch.
    """

    seconds: Sequence[float]
    epochs: int


class Leader(NamedTuple):
    """The active controller by its own report; `all_follow` means that every voter has all committed records."""

    node_id: int
    epoch: int
    address: Address
    all_follow: bool


# --- requests of clients


def leader_of(cluster: Cluster) -> Leader | None:
    """Queries every controller; returns None if none of them leads."""
    for address in parse_bootstrap(cluster.controller_bootstrap):
        with suppress(ConnectionLost, RequestTimedOut), connected(address) as connection:
            response = connection.call(describe_quorum_request(), timeout=1.0)
            if response.error_code or response.topics[0].partitions[0].error_code:
                continue
            found = response.topics[0].partitions[0]
            least = min(voter.log_end_offset for voter in found.current_voters)
            follow = found.high_watermark >= 0 and least >= found.high_watermark - LAG_MAX
            return Leader(found.leader_id, found.leader_epoch, address, follow)
    return None


def connected(address: Address) -> AbstractContextManager[BlockingConnection]:
    return closing(BlockingConnection(address, timeout=1.0))


def _answers(address: Address) -> bool:
    with suppress(ConnectionLost, RequestTimedOut), connected(address):
        return True
    return False


def wait_all_follow(cluster: Cluster) -> Leader:
    """Waits until every voter follows. A leader's view of a voter may be older than its death, so each is queried,
    too.
    """
    controllers = parse_bootstrap(cluster.controller_bootstrap)
    deadline = time.perf_counter() + SECONDS_MAX
    while (
        (leader := leader_of(cluster)) is None
        or not leader.all_follow
        or not all(map(_answers, controllers))
    ):
        if time.perf_counter() > deadline:
            raise RuntimeError(f"the quorum is not whole after {SECONDS_MAX:.0f} s: {leader}")
        time.sleep(0.05)
    return leader


def _creates(connection: BlockingConnection, name: str, seconds: float) -> bool:
    topic = CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=int(SECONDS_MAX * 1000))
    code = connection.call(request, timeout=seconds).topics[0].error_code
    return code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def when_controllers_created(addresses: Sequence[Address], name: str) -> float:
    """Sends requests to these controllers in turn; returns the time at which one of them had committed the topic."""
    with ExitStack() as stack:
        connections = [stack.enter_context(connected(address)) for address in addresses]
        deadline = time.perf_counter() + SECONDS_MAX
        while time.perf_counter() < deadline:
            if any(_creates(connection, name, SECONDS_MAX) for connection in connections):
                return time.perf_counter()
            time.sleep(PAUSE_SECONDS)
    raise RuntimeError(f"no controller took over within {SECONDS_MAX:.0f} s")


def when_brokers_created(addresses: Sequence[Address], name: str) -> float:
    """Sends requests to these brokers in turn, each for at most BROKER_SECONDS; returns the time of the first
    success.
    """
    deadline = time.perf_counter() + SECONDS_MAX
    for address in cycle(addresses):
        with suppress(ConnectionLost, RequestTimedOut), connected(address) as connection:
            if _creates(connection, name, BROKER_SECONDS):
                return time.perf_counter()
        if time.perf_counter() > deadline:
            break
        time.sleep(PAUSE_SECONDS)
    raise RuntimeError(f"no broker had the topic created within {SECONDS_MAX:.0f} s")


# --- a case


def fail_once(
    cluster: Cluster, case: Case, number: int, prng: random.Random, ask_brokers: bool
) -> Round:
    before = wait_all_follow(cluster)
    others = [
        address
        for address in parse_bootstrap(cluster.controller_bootstrap)
        if address != before.address
    ]
    brokers = parse_bootstrap(cluster.bootstrap)
    brokers = brokers[number % len(brokers) :] + brokers[: number % len(brokers)]
    pid = cluster.pid_of(before.node_id)
    time.sleep(prng.uniform(0, 1))
    with ThreadPoolExecutor(2) as pool:
        began = time.perf_counter()
        os.kill(pid, case.signal)
        asking = [pool.submit(when_controllers_created, others, f"controllers-{number}")]
        if ask_brokers:
            asking.append(pool.submit(when_brokers_created, brokers, f"brokers-{number}"))
        seconds = [request.result() - began for request in asking]
    if case.signal is signal.SIGSTOP:
        os.kill(pid, signal.SIGCONT)
    else:
        cluster.start(before.node_id)
    return Round(seconds, wait_all_follow(cluster).epoch - before.epoch)


def fill(cluster: Cluster, partitions: int) -> None:
    """Creates this number of partitions with RF 1, each with an open log."""
    with open_clients(cluster) as clients:
        for first in range(0, partitions, TOPIC_PARTITIONS):
            create_topics(clients[0], {f"many-{first}": TOPIC_PARTITIONS}, replication=1)
            seconds_until(
                lambda name=f"many-{first}": all_applied(clients, name, TOPIC_PARTITIONS)  # type: ignore[misc]
            )


def measure(name: str, system: str, rounds: int, ask_brokers: bool) -> list[Round]:
    case, prng, found = CASES[name], random.Random(name), []
    with SYSTEMS[system](3, 3, case.settings) as cluster:
        fill(cluster, case.partitions)
        for number in range(rounds):
            found.append(fail_once(cluster, case, number, prng, ask_brokers))
            print(f"bench: {name} on {system}, round {number}: {found[-1]}", file=sys.stderr)
    return found


def stay_steady(system: str, minutes: float, load: bool) -> str:
    """Counts elections with the tuned profile without any failure; with `load` topics are created one after another
    meanwhile.
    """
    with SYSTEMS[system](3, 3, TUNED) as cluster:
        before, topics, told = wait_all_follow(cluster), 0, time.monotonic()
        end = told + minutes * 60
        with open_clients(cluster) as clients:
            while time.monotonic() < end:
                if load:
                    create_topics(clients[0], {f"load-{topics}": 1})
                    topics += 1
                else:
                    time.sleep(1.0)
                if time.monotonic() > told + 60:
                    told = time.monotonic()
                    present = f"{leader_of(cluster)}, load average {os.getloadavg()[0]:.1f}"
                    print(f"bench: {STEADY} on {system}: {present}", file=sys.stderr, flush=True)
        after = wait_all_follow(cluster)
    done = f"{topics} topics created" if load else "idle"
    return f"{after.epoch - before.epoch} elections in {minutes:g} minutes, {done}"


# --- the table


def row(name: str, what: str, system: str, seconds: Sequence[float], epochs: Sequence[int]) -> str:
    figures = "".join(f"{percentile(seconds, share):>8.2f}" for share in (0.5, 0.99, 1.0))
    return f"{name:<14}{what:<14}{system:<8}{len(seconds):>7}{figures}{max(epochs):>12}"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="./dev bench failover", description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES, STEADY])
    parser.add_argument("--rounds", type=int, default=sized(50, 1))
    parser.add_argument("--only", choices=SYSTEMS, help="measure one system")
    parser.add_argument(
        "--minutes", type=float, default=sized(30.0, 0.1), help=f"how long {STEADY} lasts"
    )
    parser.add_argument("--load", action="store_true", help=f"create topics during {STEADY}")
    parser.add_argument("--brokers", action="store_true", help="ask brokers as well")
    options = parser.parse_args(arguments)
    systems = systems_of(options.only)
    print(
        f"{'case':<14}{'asked':<14}{'system':<8}{'rounds':>7}{'p50 s':>8}{'p99 s':>8}{'max s':>8}{'epochs max':>12}"
    )
    for name in options.cases or CASES:
        for system in systems:
            if name == STEADY:
                print(f"{name:<14}{system:<8}{stay_steady(system, options.minutes, options.load)}")
                continue
            rounds = measure(name, system, options.rounds, options.brokers)
            epochs = [measured.epochs for measured in rounds]
            for asked, seconds in zip(
                ASKED, zip(*(r.seconds for r in rounds), strict=True), strict=False
            ):
                print(row(name, asked, system, seconds, epochs), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
