"""ElectLeaders on the controller."""

from tests.broker.handlers.test_elect_leaders import codes_of, election
from tests.quorum.controller.handlers.controller_client import NOBODY, controller_client
from trimaran.wire.errors import ErrorCode

UNCLEAN = 1


async def test_preferred_replica_leads_again(tmp_path):
    async with controller_client(tmp_path, auto_leader_rebalance_enable="false") as one:
        first, _second = await one.join(1, 2)
        await one.create("t", [1, 2])
        await first.beat(want_fence=True)
        assert one.partition().leader == 2
        assert codes_of(await one.call(election(0))) == {
            ("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        }
        await first.beat()
        assert codes_of(await one.call(election(0, 1))) == {
            ("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,  # not in the ISR yet
            ("t", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }


async def test_unclean_election_applies_only_to_leaderless_partitions(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1)
        await one.create("t", [1])
        answer = await one.call(election(0).replace(election_type=UNCLEAN))
        assert codes_of(answer) == {("t", 0): ErrorCode.ELECTION_NOT_NEEDED}


async def test_unauthorized_election_error_is_placed_by_version(tmp_path):
    async with controller_client(tmp_path, **NOBODY) as one:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        for version, at_top in ((0, 0), (1, code), (2, code)):
            answer = await one.call(election(0), version)
            assert (answer.error_code, codes_of(answer)) == (at_top, {("t", 0): code})
