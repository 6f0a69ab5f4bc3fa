"""A broker that may not start says why."""

import pytest

from broker.process.server import run_broker
from node.config.config_def import ConfigError
from node.config.security_keys import STANDARD_AUTHORIZER
from tests.cluster.in_process import cluster


async def test_no_broker_starts_with_an_authorizer_that_nobody_admitted(tmp_path):
    async with cluster(tmp_path, brokers=0) as running:
        name = {"authorizer.class.name": STANDARD_AUTHORIZER}
        role = {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:0"}
        config = running.config(11, **role, **name)
        with pytest.raises(ConfigError, match="do not protect topics"):
            await run_broker(config)
