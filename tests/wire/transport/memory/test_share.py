"""The part of one connection in each pool, compared with a twin of plain sums."""

from random import Random

import pytest

from trimaran.wire.transport.memory.pools import Memory
from trimaran.wire.transport.memory.share import MemoryShare

KEPT = 65_536


@pytest.mark.parametrize("seed", range(8))
async def test_held_bytes_match_the_sums_of_the_pools(seed):
    random, memory = Random(seed), Memory(10_000_000, 10_000_000)
    shares = [MemoryShare(memory) for _ in range(3)]
    held = [{"frame": KEPT, "requests": 0, "answers": 0} for _ in shares]

    def of_frames(one):
        return one["frame"] if one["frame"] > KEPT else 0

    for _ in range(80):
        number = random.randrange(3)
        share, mine = shares[number], held[number]
        match random.randrange(6):
            case 0:
                size = random.choice([KEPT - 1, KEPT, KEPT + 1, 100_000])
                await share.acquire_frame(size)
                if size <= KEPT:  # too small a request for any connection: the pool would keep it
                    memory.frames.give_back(size)
                mine["frame"] = size
            case 1:
                share.give_back_frame()
                mine["frame"] = min(mine["frame"], KEPT)
            case 2:
                size = random.randrange(1000)
                share.take_request(size)
                mine["requests"] += size
            case 3 if mine["requests"]:
                size = random.randrange(mine["requests"] + 1)
                share.give_back_request(size)
                mine["requests"] -= size
            case 4:
                mine["answers"] = random.choice([0, 1, 700, mine["answers"]])
                share.set_responses(mine["answers"])
            case 5 if random.random() < 0.2:
                share.give_back_all()
                mine.update(frame=max(KEPT, 0) if mine["frame"] > KEPT else mine["frame"])
                mine.update(requests=0, answers=0)
        for each_share, expected in zip(shares, held, strict=True):
            found = (each_share.frame, each_share.requests, each_share.responses)
            assert found == (expected["frame"], expected["requests"], expected["answers"])
            assert each_share.of(memory.frames) == of_frames(expected)
            assert each_share.of(memory.requests) == expected["requests"]
            assert each_share.of(memory.responses) == expected["answers"]
            assert each_share.of(memory.large) == 0
        assert memory.frames.used == sum(map(of_frames, held))
        assert memory.requests.used == sum(share["requests"] for share in held)
        assert memory.responses.used == sum(share["answers"] for share in held)


async def test_memory_of_frame_is_released_before_wait():
    memory = Memory(400_000, 1)
    share = MemoryShare(memory)
    assert (share.frame, share.requests, share.responses) == (KEPT, 0, 0)
    await share.acquire_frame(200_000)
    assert memory.frames.is_full
    await share.acquire_frame(100_000)  # the connection was the only holder
    assert memory.frames.used == 100_000
