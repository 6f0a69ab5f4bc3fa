"""Constraints between broker configs, checked as in Apache Kafka 4.4."""

import pytest

from tests.quorum.config_of import config_of
from trimaran.node.config.altered_together import check_together
from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server_keys import SERVER_CONFIGS

PER_IP, OVERRIDES = "max.connections.per.ip", "max.connections.per.ip.overrides"
RETENTION, LOCAL = "log.retention.ms", "log.local.retention.ms"
CLEANERS, BUFFER = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
POOLS = [
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
]


def why_not(changes, **present):
    """Returns the error for the changes, with the defaults or `present` as the effective values; None if they are
    consistent.
    """
    given = {name.replace("_", "."): value for name, value in present.items()}

    def before(name):
        return given.get(name, SERVER_CONFIGS[name].default)

    def after(name):
        text = changes.get(name)
        return before(name) if text is None else SERVER_CONFIGS[name].parse(text)

    try:
        check_together(changes, before, after)
    except ConfigError as error:
        return error.answer
    return None


@pytest.mark.parametrize("pool", POOLS)
def test_pool_changes_at_most_twofold(pool):
    present = SERVER_CONFIGS[pool].default
    assert why_not({pool: str(present * 2)}) is None
    assert "double" in why_not({pool: str(present * 2 + 1)})
    if (least := present // 2) > 1:
        assert why_not({pool: str(least)}) is None
        assert "half" in why_not({pool: str(least - 1)})


def test_cleaner_threads_change_twofold_with_enough_memory():
    assert why_not({CLEANERS: "2"}) is None
    assert "double" in why_not({CLEANERS: "3"})
    assert "at least 1" in why_not({CLEANERS: "0"})
    assert "half" in why_not({CLEANERS: "1"}, log_cleaner_threads=4)
    assert "1MB" in why_not({CLEANERS: "2", BUFFER: str((2 << 20) - 1)})
    assert why_not({CLEANERS: "2", BUFFER: str(2 << 20)}) is None


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_the_interval_between_assignments_lies_between_its_bounds(kind):
    key = f"group.{kind}.assignment.interval.ms"
    bounds = {f"group_{kind}_min_assignment_interval_ms": 10}
    assert why_not({key: "15000"}, **bounds) is why_not({key: "10"}, **bounds) is None
    above = f"{key} must be less than or equal to group.{kind}.max.assignment.interval.ms"
    assert why_not({key: "15001"}, **bounds) == above
    below = f"{key} must be greater than or equal to group.{kind}.min.assignment.interval.ms"
    assert why_not({key: "9"}, **bounds) == below


def test_zero_per_ip_limit_is_refused_without_overrides():
    said = (
        "requirement failed: max.connections.per.ip can be set to zero only if "
        "max.connections.per.ip.overrides property is set."
    )
    assert why_not({PER_IP: "0"}) == said
    assert why_not({PER_IP: "0", OVERRIDES: "::1:5"}) is None
    assert why_not({PER_IP: "0"}, max_connections_per_ip_overrides=["::1:5"]) is None
    assert why_not({OVERRIDES: ""}, max_connections_per_ip=0) == said
    assert why_not({PER_IP: "1"}) is None


def test_zero_connections_per_ip_needs_overrides():
    with pytest.raises(ConfigError, match=r"\(test.properties:\d+\): can be set to zero only if"):
        config_of(max_connections_per_ip="0")
    config = config_of(max_connections_per_ip="0", max_connections_per_ip_overrides="h:5")
    assert config[PER_IP] == 0


def test_local_retention_never_exceeds_total():
    week = 7 * 24 * 3_600_000
    assert why_not({LOCAL: "-2"}) is why_not({LOCAL: str(week)}) is None
    assert "Value must not be more than log.retention.ms" in why_not({LOCAL: str(week + 1)})
    assert "Value must not be -1" in why_not({LOCAL: "-1"})
    assert why_not({LOCAL: "-1", RETENTION: "-1"}) is None
    assert why_not({LOCAL: "60001"}, log_retention_minutes=1) is not None
    assert why_not({LOCAL: "60000"}, log_retention_minutes=1) is None
    assert why_not({RETENTION: "9"}, log_local_retention_ms=10) is not None
    sizes = {"log.local.retention.bytes": "10"}
    assert why_not(sizes) is why_not({**sizes, "log.retention.bytes": "10"}) is None
    assert why_not({**sizes, "log.retention.bytes": "9"}) is not None


@pytest.mark.parametrize("unit", ["ms", "bytes"])
def test_remote_copy_lag_stays_within_local_retention(unit):
    lag, local, whole = (
        f"log.{k}.{unit}" for k in ("remote.copy.lag", "local.retention", "retention")
    )

    def why(changes, **present):
        """Returns the effective local retention that is exceeded, or None."""
        found = why_not(changes, **{f"log_{k}_{unit}": v for k, v in present.items()})
        prefix = f"Invalid value {changes.get(lag, 10)} for configuration {lag}: "
        prefix += f"Value must not exceed {local} (effective value: "
        assert found is None or found.startswith(prefix), found
        return found and int(found.removeprefix(prefix).rstrip(")"))

    assert why({lag: "10"}, local_retention=10) is None
    assert why({lag: "11"}, local_retention=10) == 10
    assert why({lag: "11"}, retention=10) == 10  # local.retention is -2
    assert why({lag: "-1"}, local_retention=0) is why({lag: "0"}, local_retention=0) is None
    assert why({local: "9"}, remote_copy_lag=10, retention=20) == 9
    assert why({whole: "9"}, remote_copy_lag=10) == 9
    assert why({whole: None}, retention=9, remote_copy_lag=10) == 9
    assert why({local: None}, local_retention=9, retention=20, remote_copy_lag=10) == 9
    assert why({lag: "10"}, retention=-1) is None
